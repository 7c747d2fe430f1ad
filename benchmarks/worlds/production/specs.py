"""The properties of a production-like log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from worlds.world import Part

RewardKind = Literal["clicks", "baskets", "stars", "dwell", "counts"]
Activity = Literal["equal", "heavy", "bimodal"]
Logging = Literal["uniform", "epsilon-greedy", "softmax", "changing", "shrinking"]
Attack = Literal[
    "none", "push", "farm", "quiet", "sink", "targets", "camouflage", "two", "late", "few"
]
Tastes = Literal["none", "rank 1", "rank 2", "rank 3", "skewed", "minority"]
BotActivity = Literal["1x", "5x", "20-80", "100x"]

REWARD_KINDS: tuple[RewardKind, ...] = ("clicks", "baskets", "stars", "dwell", "counts")
ACTIVITIES: tuple[Activity, ...] = ("equal", "heavy", "bimodal")
LOGGINGS: tuple[Logging, ...] = ("uniform", "epsilon-greedy", "softmax", "changing", "shrinking")
ATTACKS: tuple[Attack, ...] = (
    "push",
    "farm",
    "quiet",
    "sink",
    "targets",
    "camouflage",
    "two",
    "late",
    "few",
)
TASTES: tuple[Tastes, ...] = ("none", "rank 1", "rank 2", "rank 3", "skewed", "minority")
BOT_ACTIVITIES: tuple[BotActivity, ...] = ("20-80", "1x", "5x", "100x")
BOT_SHARES = (0.05, 0.01, 0.1, 0.2, 0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductionSpec:
    """All settings of a production-like log except its seed.

    Attributes
    ----------
    rewards, base, ratio, interaction
        Kind of reward; the typical mean reward (the conversion rate for baskets); best over worst
        item within a context (stars: they differ by .6 (ratio - 1)); the share of the items'
        variance that is specific to the context.
    level_sd
        Standard deviation of the users' own level, on the log or logit scale. Stars and dwell
        times always have levels of their own, and stars response styles: own spreads, too.
    tastes, taste_size, minority
        How honest users differ in preferences: not at all, by factors times loadings of the items
        that add ``taste_size`` (a standard deviation) to a cell, or as a minority of this share
        with preferences of its own.
    n_users, n_countries, n_devices, n_actions, is_roaming
        Accounts, bots included; contexts are countries times devices. Roaming users visit all
        contexts, the others are at home in one country and mostly use one device.
    activity, events_per_user
        "equal": as many events each; "heavy": Pareto with this median, at most 3,000; "bimodal":
        most users have one event, the others as many as this.
    logging, epsilon, greedy, has_propensities
        How the platform chose items; which item is greedy; whether uniform play logs propensities.
    n_new, n_withdrawn
        Items played only from 85% of the time on, and only in the first half.
    attack, bot_share, bot_activity, lie_probability, is_inflated
        What bots do, how many of the accounts they are, how active, how often they lie where they
        lie, and whether they report baskets of twice the ordinary size.
    alpha
        The share of bots that learners assume.
    """

    name: str
    part: Part
    rewards: RewardKind
    base: float
    ratio: float
    interaction: float
    level_sd: float = 0.0
    tastes: Tastes = "none"
    taste_size: float = 0.0
    minority: float = 0.0
    n_users: int = 12_000
    n_countries: int = 10
    n_devices: int = 3
    n_actions: int = 12
    is_roaming: bool = False
    activity: Activity = "equal"
    events_per_user: int = 20
    logging: Logging = "uniform"
    epsilon: float = 0.3
    greedy: Literal["best", "mediocre"] = "best"
    has_propensities: bool = True
    n_new: int = 0
    n_withdrawn: int = 0
    attack: Attack = "none"
    bot_share: float = 0.0
    bot_activity: BotActivity = "20-80"
    lie_probability: float = 1.0
    is_inflated: bool = False
    alpha: float = 0.1

    @property
    def n_contexts(self) -> int:
        """Number of contexts, S."""
        return self.n_countries * self.n_devices
