"""When epochs end, and how much is explored in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unswayed.errors import InputError

#: Ours: plays of every (context, action) in epoch 0; two means of as many rewards with deviation
#: 0.5 differ by chance by 0.09, a third of the paper's gap.
FIRST_PLAYS_PER_CELL = 64.0

#: Ours: the same for each later epoch, so that 500 interactions cost about what UCB1 explores.
PLAYS_PER_CELL = 24.0

#: Ours: a user with fewer plays shows nothing that goes together across cells.
FEWEST_FIRST_PLAYS = 4

#: Ours: how much more is explored after an epoch in which a coalition was found.
ALARM_FACTOR = 2.0

#: Ours: the most by which doubt about a context's decision raises its exploration.
MOST_DOUBT = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Epochs by the age of the campaign, in interactions per user.

    Epoch 0 lasts until age ``first`` and everybody explores. Each later epoch ends at ``growth``
    times the age at which it began, and explores each (context, action) about ``plays_per_cell``
    times: exploration grows with the logarithm of the age, and no end need be known.

    Parameters
    ----------
    first
        Interactions per user in epoch 0.
    growth
        Above 1; infinite for a single epoch of exploration and a policy for ever after.
    plays_per_cell
        Exploring plays of each context and action in a later epoch, all users together.
    longest
        The most interactions per user in one epoch; infinite by default.

    Examples
    --------
    >>> schedule = Schedule(first=4)
    >>> [schedule.end(epoch) for epoch in range(4)], schedule.epoch_at(9)
    ([4, 8, 16, 32], 2)
    >>> [Schedule(first=4, longest=10).end(epoch) for epoch in range(5)]
    [4, 8, 16, 26, 36]
    """

    first: int
    growth: float = 2.0
    plays_per_cell: float = PLAYS_PER_CELL
    longest: float = math.inf

    def __post_init__(self) -> None:
        if self.first < 1:
            raise InputError(f"first is {self.first}: epoch 0 needs at least 1 interaction.")
        if not self.growth > 1.0:
            raise InputError(f"growth is {self.growth}: it must be above 1.")
        if not (math.isfinite(self.plays_per_cell) and self.plays_per_cell >= 0):
            raise InputError(f"plays_per_cell is {self.plays_per_cell}: it must be 0 or larger.")
        if not self.longest >= 1:
            raise InputError(f"longest is {self.longest}: an epoch needs at least 1 interaction.")

    def end(self, epoch: int) -> float:
        """Return the age at which an epoch ends; infinite if it never does."""
        if epoch == 0:
            return self.first
        if math.isinf(self.growth):
            return math.inf
        end: float = self.first
        for number in range(1, epoch + 1):
            grown = math.ceil(self.first * self.growth**number)
            if grown - end > self.longest:
                return end + (epoch - number + 1) * self.longest
            end = grown
        return end

    def length(self, epoch: int) -> float:
        """Return how many interactions per user an epoch has."""
        return self.end(epoch) - (self.end(epoch - 1) if epoch else 0)

    def epoch_at(self, age: float) -> int:
        """Return the epoch that runs at an age."""
        epoch = 0
        while age >= self.end(epoch):
            epoch += 1
        return epoch

    def explorer_share(
        self,
        epoch: int,
        *,
        n_users: int,
        n_actions: int,
        context_probability: float,
        doubt: float = 0.0,
        is_alarmed: bool = False,
    ) -> float:
        """Return the share of a context's plays that explore, so that its cells get theirs.

        Rare contexts need a larger share for as many plays: they explore as long as they must,
        and cost little, because they are rare.

        Parameters
        ----------
        doubt
            How many times too wide the intervals are to tell the best action from the next. It
            takes the square of it as many plays to narrow them.
        """
        if epoch == 0:
            return 1.0
        factor = min(max(doubt**2, 1.0), MOST_DOUBT) * (ALARM_FACTOR if is_alarmed else 1.0)
        wanted = self.plays_per_cell * factor * n_actions
        plays = self.length(epoch) * n_users * context_probability
        return 1.0 if plays <= wanted else wanted / plays


def planned_schedule(*, n_users: int, n_contexts: int, n_actions: int) -> Schedule:
    """Return the schedule for a campaign of this size.

    >>> planned_schedule(n_users=2000, n_contexts=50, n_actions=5).first
    8
    """
    plays = FIRST_PLAYS_PER_CELL * n_contexts * n_actions / n_users
    return Schedule(first=max(FEWEST_FIRST_PLAYS, math.ceil(plays)))
