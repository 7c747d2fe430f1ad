"""A policy of the shop as if learned after an attack, without the time that learning takes."""

from __future__ import annotations

import numpy as np

from tests.service.running import Running
from unswayed.events import Labels
from unswayed.policy import Policy
from unswayed.service.catalogue import add_policy

MEANS = {"lunch": [0.31, 0.15, 0.13], "dinner": [0.12, 0.29, 0.11]}
PLAIN = {"lunch": [0.25, 0.12, 0.334], "dinner": [0.1, 0.24, 0.305]}


def learned_policy(contexts: tuple[str | int, ...], actions: tuple[str, ...]) -> Policy:
    """Return a policy of two contexts and three actions; colluders pushed the third action."""
    means = np.array(list(MEANS.values()))
    return Policy(
        context_labels=Labels.of(list(contexts)),
        action_labels=Labels.of(list(actions)),
        mean_rewards=means,
        low=means - 0.06,
        high=means + 0.07,
        counts=np.full(means.shape, 1_200),
        context_probabilities=np.array([0.6, 0.4]),
        alpha=0.2,
        method="bounded",
        source={
            "evidence": {
                "lies": [
                    {"direction": "up", "accounts": 118.0, "contexts": 2, "actions": [actions[2]]}
                ]
            },
            "changed": dict.fromkeys(contexts, actions[2]),
            "plain_means": {
                context: dict(zip(actions, row, strict=True))
                for context, row in zip(contexts, PLAIN.values(), strict=True)
            },
            "findings": {"n_users": 600, "n_events": 7_200},
            "notes": [f"about 118 accounts raise {actions[2]!r} in 2 contexts; they count less."],
        },
    )


def publish_learned(server: Running, contexts: tuple[str, ...], actions: tuple[str, ...]) -> None:
    """Add this policy to the shop, and serve it."""
    policy = learned_policy(contexts, actions)
    with server.prepared.database.connected() as connection, connection.transaction():
        version = add_policy(connection, "shop", policy, job="", activate=False)
    server.post(f"/v1/shop/policy/{version}/activate")
