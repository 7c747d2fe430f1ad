"""Algorithms 1 and 2 written out step by step, in plain loops over a list of events.

It is slow and literal on purpose; the package must give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unswayed.estimators import spectral_filter, trimmed_mean


@dataclass
class Event:
    """One interaction."""

    user: int
    context: int
    action: int
    reward: float


def algorithm_1(
    events: list[Event], n_contexts: int, alpha: float, n_passes: int = 2
) -> tuple[list[float], list[float]]:
    """Return ν̂ and σ, with errata 5 and 7; with one pass, the algorithm is as printed."""
    T0 = len(events)
    users = sorted({event.user for event in events})
    floor = 20 * math.log(max(n_contexts, 2)) / T0
    n_s = [sum(event.context == s for event in events) for s in range(n_contexts)]
    sigma = [math.sqrt(max(n_s[s] / T0, floor)) for s in range(n_contexts)]
    weights = None
    for _ in range(n_passes):
        b = np.zeros((len(users), n_contexts))
        for row, user in enumerate(users):
            own = [event for event in events if event.user == user]
            for event in own:
                b[row, event.context] += 1 / sigma[event.context] / len(own)
        filtered = spectral_filter(b, alpha=alpha, row_weights=weights)
        b_hat, weights = filtered.estimate, filtered.weights
        nu = [sigma[s] * float(b_hat[s]) for s in range(n_contexts)]
        sigma = [math.sqrt(max(nu[s], floor)) for s in range(n_contexts)]
    return [value / sum(nu) for value in nu], sigma


def algorithm_2(
    events: list[Event],
    warmup: list[Event],
    assigned: Callable[[int, int], int],
    n_contexts: int,
    n_actions: int,
    alpha: float,
) -> tuple[np.ndarray, list[int]]:
    """Return mean rewards in the units of erratum 8, and the policy of line 12.

    Rewards are measured from the median of users' means, as if they were not binary.
    """
    own_means = [
        np.mean([event.reward for event in events if event.user == user])
        for user in sorted({event.user for event in events})
    ]
    origin = float(np.median(own_means))
    events = [replace(event, reward=event.reward - origin) for event in events]
    nu, sigma = algorithm_1(warmup or events, n_contexts, alpha)
    ranked = sorted(range(n_contexts), key=lambda s: -nu[s])  # line 1
    frequent = set(ranked[: min(n_actions, n_contexts)])
    users = sorted({event.user for event in events})
    n = {user: sum(event.user == user for event in events) for user in users}
    mu = np.full((n_contexts, n_actions), np.nan)
    played = {(event.context, event.action) for event in events}

    for s in frequent:
        groups: dict[int, list[int]] = {a: [] for a in range(n_actions)}
        for user in users:
            groups[assigned(user, s)].append(user)  # line 2
        for a in range(n_actions):
            b = [
                sum(e.reward / sigma[s] for e in events if e.user == user and e.context == s)
                / n[user]
                for user in groups[a]
            ]
            if (s, a) in played:
                b_hat = trimmed_mean(
                    b, alpha=alpha, failure_probability=0.1 / (n_contexts * n_actions)
                ).estimate
                mu[s, a] = b_hat * sigma[s] / nu[s]

    rare = [s for s in range(n_contexts) if s not in frequent]
    if rare:
        rows = np.zeros((len(users), len(rare) * n_actions))
        for row, user in enumerate(users):
            for e in events:
                if e.user == user and e.context in rare:
                    column = rare.index(e.context) * n_actions + e.action
                    rows[row, column] += n_actions / n[user] * e.reward / sigma[e.context]
        b_rare = spectral_filter(rows, alpha=alpha).estimate
        for position, s in enumerate(rare):
            for a in range(n_actions):
                if (s, a) in played:
                    mu[s, a] = b_rare[position * n_actions + a] * sigma[s] / nu[s]
    policy = [max(range(n_actions), key=lambda a: mu[s, a]) for s in range(n_contexts)]
    return mu + origin, policy
