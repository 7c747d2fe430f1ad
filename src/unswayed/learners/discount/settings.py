"""The numbers that decide who is looked at, who is accused and what is believed, of all stages.

What belongs to one computation alone (steps of EM, starts, ranges of variances) stands beside it.
"Development" and "validation" are parts of ``benchmarks/accuracy.py`` (laboratory) and
``benchmarks/production.py``; no number was chosen by a holdout.
"""

from __future__ import annotations

from typing import NamedTuple

SAMPLE_ENTRIES = 300_000
"""Searches look at random users with about this many entries; all users are judged by what they
find. Beyond it cost grows and what is found does not: development, 125,000 users."""

MIN_REPEATS = 50.0
"""Repeated plays of a cell needed to estimate the variance between users."""

RIVALS = 3
"""Actions per context that compete for the decision; a coalition must move one of them."""


class Trial(NamedTuple):
    """How accusations of a stage are held against chance.

    Attributes
    ----------
    rounds
        Coalitions that are looked for, one after another.
    nulls
        Logs without a coalition that are searched in the same way.
    margin, clear_gain
        A gain must exceed ``margin`` times the largest gain of the nulls by ``clear_gain`` nats.
    """

    rounds: int
    nulls: int
    margin: float
    clear_gain: float

    def is_beyond(self, gain: float, null_gain: float) -> bool:
        """Return whether a gain is clearly more than what chance gives."""
        return gain > self.needed(null_gain)

    def needed(self, null_gain: float) -> float:
        """Return the gain that is just not enough."""
        return self.margin * max(null_gain, 0.0) + self.clear_gain


LOUD = Trial(rounds=5, nulls=2, margin=2.0, clear_gain=20.0)
"""In 72 peaceful production logs (development and validation, two seeds each) what is louder than a
taste gains up to 17 nats where nulls gain 3: the honest model is not quite true."""

MEAN = Trial(rounds=5, nulls=1, margin=1.15, clear_gain=5.0)
"""The null draws from the log itself and needs little margin; close calls get three nulls more."""

TASTES = Trial(rounds=4, nulls=4, margin=1.5, clear_gain=10.0)
"""Honest tastes have heavier tails than the null's: development replays of real ratings."""

MASS_MARGIN = 1.25
"""While it is searched, a coalition has at most this many times the stated share of the users."""

MASS_EXCESS = 1.1
"""A fit whose coalition stays this far above the limit is void."""

FULL = 0.95
"""A coalition with this share of its largest mass may be larger, and is fitted with more room."""

ROOM, LARGEST_ROOM = 2.5, 0.45
"""Then it has up to 2.5 times the stated share, at most .45: better than to trust a share that was
understated. Quiet ones are then believed only if they clearly aim at decisions."""

CLEAR_ALIGNMENT = 4.5
"""Accused users who favour standing decisions by this many deviations aim at them. Honest tails
reached up to 3 on development replays of real ratings, and 4 where many contexts could be picked
from."""

AIM_LEVEL = 0.1
"""Error rate of the last test of a quiet accusation: that its pull meets the decisions by chance.
It looks two ways, at half of it each. Of five true coalitions in development worlds with six to
twenty contexts that push actions four pass, at a fifth of it two; ones that sink the best action of
two contexts pass only by the second way."""
