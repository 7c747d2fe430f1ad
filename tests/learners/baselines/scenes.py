"""Small settings, arrivals and outcomes for tests of the baselines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unswayed.learners.interface import Setting


class Arrivals(NamedTuple):
    """Users, contexts, and the outcome of each action."""

    users: np.ndarray
    contexts: np.ndarray
    outcomes: np.ndarray

    def part(self, start: int, end: int) -> Arrivals:
        """Return the arrivals from ``start`` to before ``end``."""
        return Arrivals(self.users[start:end], self.contexts[start:end], self.outcomes[start:end])


def small_setting(
    rng: np.random.Generator,
    *,
    n_users: int = 20,
    n_contexts: int = 3,
    n_actions: int = 4,
    interactions_per_user: int = 100,
    alpha: float = 0.2,
) -> Setting:
    return Setting(
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
        interactions_per_user=interactions_per_user,
        alpha=alpha,
        rng=rng,
    )


def bernoulli_arrivals(
    rng: np.random.Generator, setting: Setting, n: int, *, mean_rewards: np.ndarray | None = None
) -> Arrivals:
    """Return random arrivals with outcomes 0 or 1, whose sums are exact and often tie."""
    shape = (setting.n_contexts, setting.n_actions)
    if mean_rewards is None:
        mean_rewards = np.linspace(0.2, 0.8, shape[0] * shape[1]).reshape(shape)
    users = rng.integers(setting.n_users, size=n)
    contexts = rng.integers(setting.n_contexts, size=n)
    draws = rng.random((n, setting.n_actions))
    return Arrivals(users, contexts, (draws < mean_rewards[contexts]).astype(np.float64))


def chosen_among_ties(rng: np.random.Generator, values: list[float]) -> int:
    """Return the position of the largest value; a uniform draw is used only to break a tie."""
    tied = [i for i, value in enumerate(values) if value == max(values)]
    return tied[int(len(tied) * rng.random())] if len(tied) > 1 else tied[0]
