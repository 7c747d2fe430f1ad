"""Orders of arrivals that respect the paper's bound c_L on their imbalance.

The paper (Assumption on arrivals) requires max_i n_i(t) / min_i n_i(t) <= c_L for all t >= L. At t
= L the smallest count must be 1, so each user is among the first L arrivals once; at t = L + 1
somebody has come twice, so c_L is at least 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat

import numpy as np

from unswayed.arrays import BoolArray, IntArray
from unswayed.compiled import compiled
from unswayed.errors import InputError, option
from unswayed.names import find

SMALLEST_LIMIT = 2.0  # The smallest possible c_L, see the module's docstring
# Ours: standard deviation of log activities; the busiest tenth of the users has 60% of the visits
ACTIVITY_SPREAD = 1.5


class Order(StrEnum):
    """The order in which users arrive."""

    ROUND_ROBIN = "round-robin"
    RANDOM = "random"
    BURSTY = "bursty"
    HEAVY_TAILED = "heavy-tailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """An order of arrivals and its bound c_L.

    Round robin serves users in turn. Random draws each arrival uniformly among the users that c_L
    allows. Bursty repeats a random user as long as c_L allows it. In the heavy-tailed order, every
    user comes once and then according to log-normal activities; like real logs, it respects no
    bound, and eager users have no effect.
    """

    order: Order = Order.ROUND_ROBIN
    limit: float = SMALLEST_LIMIT

    def __post_init__(self) -> None:
        if not (np.isfinite(self.limit) and self.limit >= SMALLEST_LIMIT):
            raise InputError(
                f"the arrival limit c_L is {self.limit}: it must be at least 2, because as soon "
                "as one user has come twice and another once the ratio is 2."
            )

    @classmethod
    def parsed(cls, text: str) -> Arrivals:
        """Return the arrivals for a text such as "bursty:3".

        >>> Arrivals.parsed("bursty:3")
        Arrivals(order=<Order.BURSTY: 'bursty'>, limit=3.0)
        """
        name, colon, limit = text.partition(":")
        order = find(name, {order.value: order for order in Order}, kind="arrivals")
        try:
            number = float(limit) if colon else SMALLEST_LIMIT
        except ValueError:
            raise InputError(
                f"{option('--arrivals')} is '{text}': what follows the colon must be a number."
            ) from None
        return cls(order=order, limit=number)

    def rounds(
        self,
        *,
        n_users: int,
        n_rounds: int,
        rng: np.random.Generator,
        is_eager: BoolArray | None = None,
    ) -> Iterator[IntArray]:
        """Yield ``n_rounds`` arrays of ``n_users`` arrivals each.

        Eager users, a mask of shape (n_users,), come before all others whenever c_L allows it.
        """
        in_turn = self.order is Order.ROUND_ROBIN
        if is_eager is None and in_turn:
            yield from repeat(np.arange(n_users), n_rounds)
        elif self.order is Order.HEAVY_TAILED:
            yield from _by_activity(n_users, n_rounds, rng)
        else:
            yield np.arange(n_users) if in_turn else rng.permutation(n_users)
            counts = np.ones(n_users, np.int64)
            eager = np.flatnonzero(np.zeros(0) if is_eager is None else is_eager)
            code = list(Order).index(self.order)
            # The next user in turn, or the user of the current burst; kept from round to round.
            cursor = 0
            for _ in range(n_rounds - 1):
                users, cursor = _one_round(counts, eager, self.limit, code, cursor, rng)
                yield users


def _by_activity(n_users: int, n_rounds: int, rng: np.random.Generator) -> Iterator[IntArray]:
    activities = np.cumsum(rng.lognormal(0.0, ACTIVITY_SPREAD, n_users))
    yield rng.permutation(n_users)
    for _ in range(n_rounds - 1):
        places = rng.random(n_users) * activities[-1]
        yield np.minimum(np.searchsorted(activities, places), n_users - 1)


_IN_TURN, _AT_RANDOM = 0, 1  # Indices of orders in ``Order``


@compiled
def _one_round(
    counts: IntArray,
    eager: IntArray,
    limit: float,
    order: int,
    cursor: int,
    rng: np.random.Generator,
) -> tuple[IntArray, int]:
    """Serve as many arrivals as there are users and update ``counts``, all of them positive.

    A user may come if its count plus one is within ``limit`` times the smallest count. Users with
    the smallest count may always come, so the searches below terminate.
    """
    n_users = counts.size
    users = np.empty(n_users, np.int64)
    smallest = counts.min()
    n_smallest = (counts == smallest).sum()
    next_eager = 0  # past the end: no eager user may come until the smallest count increases
    for arrival in range(n_users):
        cap = limit * smallest
        while next_eager < eager.size and counts[eager[next_eager]] + 1 > cap:
            next_eager += 1
        if next_eager < eager.size:
            user = eager[next_eager]
        elif order == _IN_TURN:
            while counts[cursor] + 1 > cap:
                cursor = (cursor + 1) % n_users
            user = cursor
            cursor = (cursor + 1) % n_users
        else:
            if order == _AT_RANDOM:
                cursor = int(rng.random() * n_users)
            while counts[cursor] + 1 > cap:
                cursor = int(rng.random() * n_users)
            user = cursor
        users[arrival] = user
        n_smallest -= counts[user] == smallest
        counts[user] += 1
        if n_smallest == 0:
            smallest = counts.min()
            n_smallest = (counts == smallest).sum()
            next_eager = 0
    return users, cursor
