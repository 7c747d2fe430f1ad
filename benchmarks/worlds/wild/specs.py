"""The properties of wild logs, and the attacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from worlds.world import Part

Family = Literal[
    "clicks",
    "coin",
    "stars",
    "skewed stars",
    "baskets",
    "dwell",
    "counts",
    "costs",
    "refunds",
    "votes",
    "scores",
    "mixed",
]
Logging = Literal["uniform", "sticky", "epsilon-greedy", "softmax", "thompson"]
Activity = Literal["equal", "log-normal", "pareto"]
Size = Literal["ab", "arms", "few", "some", "many"]
Trait = Literal[
    "levels",
    "rank 1",
    "rank 2",
    "rank 3",
    "fans",
    "camps",
    "minority",
    "buyers",
    "power users",
    "styles",
    "scrapers",
    "drift",
    "new items",
    "delayed",
]
Group = Literal["peace", "fans", "unaimed", "attacked"]

Aim = Literal["item", "each", "runner-up", "nobody", "factions", "bomb", "noise"]
Strength = Literal["top", "within", "extreme"]
Accounts = Literal["as honest", "bots", "few", "one play"]
Where = Literal["all", "few", "rare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack of colluders.

    Attributes
    ----------
    aim
        What is raised: one item everywhere, one in each context, the runner-up, nothing, one item
        per faction. "bomb" raises nothing and sinks one item everywhere; "noise" answers at random.
    up, down
        How often they lie when the raised item, and when the best item of a context, is played.
    is_loud
        Whether they give the lowest reward to everything else, too; else they are honest there.
    strength
        "top" lies are the best or worst ordinary rewards, "within" are honest rewards of a better
        or worse item, "extreme" are amounts that no honest user reaches.
    accounts
        As active as honest users, 10 to 100 times as active, a few accounts that share a part of
        the traffic, or accounts with a single play.
    n_accounts
        How many the few accounts are.
    where
        Lies in all contexts, in a few of many, or visits to a few rare contexts only.
    """

    aim: Aim
    up: tuple[float, float] = (1.0, 1.0)
    down: tuple[float, float] = (0.0, 0.0)
    is_loud: bool = False
    strength: Strength = "top"
    accounts: Accounts = "as honest"
    n_accounts: int = 0
    where: Where = "all"


ATTACKS: dict[str, Attack] = {
    "loud push": Attack(aim="item", is_loud=True),
    "half push": Attack(aim="item", up=(0.4, 0.6)),
    "push each": Attack(aim="each"),
    "sink": Attack(aim="nobody", down=(1.0, 1.0)),
    "swap": Attack(aim="runner-up", down=(1.0, 1.0)),
    "nuke": Attack(aim="item", down=(1.0, 1.0)),
    "quiet": Attack(aim="item", up=(0.2, 0.4), down=(0.2, 0.4)),
    "few contexts": Attack(aim="each", down=(1.0, 1.0), where="few"),
    "three accounts": Attack(aim="item", up=(0.4, 0.6), accounts="few", n_accounts=3),
    "ten accounts": Attack(aim="item", up=(0.4, 0.6), accounts="few", n_accounts=10),
    "thirty accounts": Attack(
        aim="each", up=(0.5, 1.0), down=(0.5, 1.0), accounts="few", n_accounts=30
    ),
    "sybils": Attack(aim="item", down=(1.0, 1.0), accounts="one play"),
    "flooding": Attack(aim="each", down=(1.0, 1.0), where="rare"),
    "mimicry": Attack(aim="item"),
    "factions": Attack(aim="factions"),
    "wholesale": Attack(aim="item", up=(0.3, 0.6), strength="extreme"),
    "bombing": Attack(aim="bomb", down=(1.0, 1.0)),
    "farm": Attack(aim="item", up=(0.7, 0.9), down=(0.2, 0.4)),
    "bots": Attack(aim="item", up=(0.4, 0.7), accounts="bots"),
    "within": Attack(aim="item", down=(1.0, 1.0), strength="within"),
    "within each": Attack(aim="runner-up", down=(1.0, 1.0), strength="within"),
    "noise": Attack(aim="noise"),
    "noise bots": Attack(aim="noise", accounts="bots"),
}
"""All attacks by name; the last two have no aim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WildSpec:
    """All settings of a wild log except its random stream.

    Attributes
    ----------
    name, part, seed
        The kind, the part and the seed that this log was drawn from.
    family, base, span, interaction
        Kind of reward; typical mean on the family's own scale; best minus worst item of a context
        on the predictor scale; the share of the items' variance that is specific to the context.
    traits, trait_share, taste_size, level_sd
        How honest users differ; how many belong to the group that differs; deviation of tastes and
        of levels on the predictor scale.
    n_users, n_contexts, n_actions, n_events
        Accounts, colluders included; events expected of honest users.
    zipf, home
        Exponent of the frequencies of contexts; the share of visits to a user's own context.
    logging, epsilon, activity
        How items were chosen, and how events are spread over honest users.
    attack
        The name of the attack, or None.
    bad_share, up, down, bot_factor, bot_traffic
        The share of colluders among the accounts; how often they lie; how many times as active as
        honest users they are, and the share of the traffic of few accounts.
    alpha
        The share of colluders that learners assume.
    """

    name: str
    part: Part
    seed: int
    family: Family
    base: float
    span: float
    interaction: float
    traits: tuple[Trait, ...]
    trait_share: float
    taste_size: float
    level_sd: float
    n_users: int
    n_contexts: int
    n_actions: int
    n_events: int
    zipf: float
    home: float
    logging: Logging
    epsilon: float
    activity: Activity
    attack: str | None
    bad_share: float
    up: float
    down: float
    bot_factor: float
    bot_traffic: float
    alpha: float
