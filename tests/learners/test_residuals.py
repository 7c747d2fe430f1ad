"""Residuals, their noise and decisions of one's own, against loops over plays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.learners.tastes import personal_decisions, residuals_of
from unswayed.policy import Policy
from unswayed.tallies import Tallies, tally

N_USERS, N_CONTEXTS, N_ACTIONS = 40, 3, 3

#: Rewards by (user, cell).
Plays = Mapping[tuple[int, int], list[float]]


def tallied(plays: Plays, n_users: int, n_contexts: int, n_actions: int) -> Tallies:
    rows = [(user, cell, told) for (user, cell), all_told in plays.items() for told in all_told]
    users, cells, rewards = (np.array(column) for column in zip(*rows, strict=True))
    contexts, actions = np.divmod(cells, n_actions)
    shape: dict[str, Any] = {"n_users": n_users, "n_contexts": n_contexts, "n_actions": n_actions}
    return tally(users, contexts, actions, rewards, **shape)


def test_tastes_that_cannot_be_separated_from_noise_get_a_sentence() -> None:
    once = {(0, 0): [1.0], (0, 1): [3.0], (1, 0): [2.0]}
    constant = {(0, 0): [1.0, 1.0], (1, 0): [2.0, 2.0, 2.0]}
    for plays, sentence in (
        (once, "no user played an action in a context twice, so tastes"),
        (constant, "rewards of a user never vary, so tastes"),
    ):
        with pytest.raises(InputError) as refused:
            residuals_of(tallied(plays, 2, 1, 2), np.zeros((1, 2)), alpha=0.1)
        assert str(refused.value) == (
            f"{sentence} cannot be separated from noise; learn without `personal`."
        )


def a_policy(means: np.ndarray) -> Policy:
    return Policy(
        context_labels=Labels.numbered(means.shape[0]),
        action_labels=Labels.numbered(means.shape[1]),
        mean_rewards=means,
        low=means - 0.1,
        high=means + 0.1,
        counts=np.full(means.shape, 9),
        context_probabilities=np.full(len(means), 1 / len(means)),
        alpha=0.1,
        method="paper",
    )


def test_nobody_differs_and_there_are_no_decisions() -> None:
    plays = {(user, 0): [-1.0, 1.0] for user in range(3)}
    personal = personal_decisions(
        tallied(plays, 3, 1, 2),
        a_policy(np.zeros((1, 2))),
        Labels.numbered(3),
        alpha=0.1,
    )
    own = personal.decisions
    assert (personal.n_different, len(own.user_labels)) == (0, 0)
    for column in (own.users, own.contexts, own.actions):
        assert (column.dtype.name, len(column)) == ("int64", 0)
    with pytest.raises(InputError, match=r"below 0\.5"):
        personal_decisions(
            tallied(plays, 3, 1, 2),
            a_policy(np.zeros((1, 2))),
            Labels.numbered(3),
            alpha=0.5,
        )
