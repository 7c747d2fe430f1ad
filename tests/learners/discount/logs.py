"""Small logs as production leaves them: heavy-tailed activity, rare clicks, homes, and bots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.tallies import Tallies, tally

FloatArray = np.ndarray
TARGET = 3


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """A log and its truth."""

    users: np.ndarray
    contexts: np.ndarray
    actions: np.ndarray
    rewards: FloatArray
    propensities: FloatArray
    true_means: FloatArray
    is_bad: np.ndarray

    def tallies(self, *, is_weighted: bool = False) -> Tallies:
        """Return the tallies, with importance weights if they are wanted."""
        n_contexts, n_actions = self.true_means.shape
        return tally(
            self.users,
            self.contexts,
            self.actions,
            self.rewards,
            n_users=len(self.is_bad),
            n_contexts=n_contexts,
            n_actions=n_actions,
            weights=1.0 / self.propensities / n_actions if is_weighted else None,
        )

    def pushed(self, means: FloatArray) -> int:
        """Return in how many contexts the target wins although it is not the best."""
        chosen = np.where(np.isnan(means), -np.inf, means).argmax(axis=1)
        return int(((chosen == TARGET) & (self.true_means.argmax(axis=1) != TARGET)).sum())

    def plain_means(self) -> FloatArray:
        """Return the mean reward of each cell."""
        n_contexts, n_actions = self.true_means.shape
        cells = self.contexts * n_actions + self.actions
        plays = np.bincount(cells, minlength=n_contexts * n_actions)
        sums = np.bincount(cells, self.rewards, minlength=n_contexts * n_actions)
        return (sums / np.maximum(plays, 1)).reshape(n_contexts, n_actions)


def make_log(
    rng: np.random.Generator,
    *,
    bots: float = 0.05,
    n_users: int = 4000,
    rate: float = 0.02,
    epsilon: float = 1.0,
    own_targets: bool = False,
) -> Log:
    """Return a log of clicks; bots have 20 to 80 events, honest users a Pareto number of them.

    Users have a home among eight contexts; a share ``epsilon`` of the plays is uniform over six
    items, the others are the logging policy's. With ``own_targets`` bots push another item in each
    context.
    """
    n_contexts, n_actions = 8, 6
    is_bad = np.zeros(n_users, dtype=np.bool_)
    is_bad[: round(bots * n_users)] = True
    lengths = np.minimum(np.ceil(3.0 * (1.0 + rng.pareto(1.2, n_users))), 1000).astype(int)
    lengths[is_bad] = rng.integers(20, 81, int(is_bad.sum()))
    users = np.repeat(np.arange(n_users), lengths)
    home = rng.integers(n_contexts, size=n_users)[users]
    contexts = np.where(
        rng.random(len(users)) < 0.9, home, rng.integers(n_contexts, size=len(users))
    )
    table = rate * rng.lognormal(0.0, 0.3, (n_contexts, n_actions))
    table[:, TARGET] = rate / 2
    greedy = rng.integers(n_actions, size=n_contexts)
    is_greedy = rng.random(len(users)) >= epsilon
    actions = np.where(is_greedy, greedy[contexts], rng.integers(n_actions, size=len(users)))
    propensities = epsilon / n_actions + (1.0 - epsilon) * (actions == greedy[contexts])
    rewards = (rng.random(len(users)) < table[contexts, actions]).astype(float)
    targets = (
        rng.permutation(n_contexts) % n_actions if own_targets else np.full(n_contexts, TARGET)
    )
    rewards[is_bad[users] & (actions == targets[contexts])] = 1.0
    return Log(users, contexts, actions, rewards, propensities, table, is_bad)
