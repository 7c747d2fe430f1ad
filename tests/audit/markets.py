"""Small review markets with groups of paid reviewers, for tests of audits."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from unswayed.audit.lockstep import Ratings, ratings_of


class Market(NamedTuple):
    """Reviews, and the paid accounts among them."""

    users: np.ndarray
    items: np.ndarray
    stars: np.ndarray
    times: np.ndarray
    n_users: int
    n_items: int
    is_paid: np.ndarray

    def ratings(self, *, with_times: bool = False) -> Ratings:
        """Return the ratings in the form that lockstep takes."""
        return ratings_of(
            self.users,
            self.items,
            self.stars,
            self.times if with_times else None,
            n_users=self.n_users,
            n_items=self.n_items,
        )

    def table(self) -> pa.Table:
        """Return the market as a log."""
        return pa.table(
            {
                "user": [f"user {code}" for code in self.users],
                "action": [f"item {code}" for code in self.items],
                "reward": self.stars,
                "time": (1.7e9 + self.times).astype("datetime64[s]"),
            }
        )


def market(
    rng: np.random.Generator,
    *,
    n_honest: int = 1_500,
    n_groups: int = 10,
    group_size: int = 15,
    n_targets: int = 10,
    n_items: int = 3_000,
    burst: float | None = None,
) -> Market:
    """Draw a market: popular items, taste groups, and paid groups with targets of their own."""
    weight = (1.0 + rng.permutation(n_items)) ** -0.8
    home = np.arange(n_items) % 20
    users, items = [], []
    for user in range(n_honest):
        n = 1 + rng.poisson(7)
        own = np.flatnonzero(home == user % 20)
        inside = rng.random(n) < 0.5
        chosen = rng.choice(n_items, p=weight / weight.sum(), size=n)
        near = rng.choice(own, p=weight[own] / weight[own].sum(), size=n)
        items += np.where(inside, near, chosen).tolist()
        users += [user] * n
    n_honest_rows = len(users)
    for group in range(n_groups):
        targets = rng.choice(n_items, size=n_targets, replace=False)
        for member in range(group_size):
            done = targets[rng.random(n_targets) < 0.5]
            users += [n_honest + group * group_size + member] * len(done)
            items += done.tolist()
    who, what = np.array(users), np.array(items)
    stars = np.clip(np.rint(3.9 + rng.standard_normal(len(who))), 1, 5)
    stars[n_honest_rows:] = 5.0
    times = 3e7 * rng.random(len(who))
    if burst is not None:
        starts = 3e7 * rng.random(n_items)
        paid = np.arange(len(who)) >= n_honest_rows
        times[paid] = starts[what[paid]] + burst * rng.random(int(paid.sum()))
    n_users = n_honest + n_groups * group_size
    return Market(who, what, stars, times, n_users, n_items, np.arange(n_users) >= n_honest)
