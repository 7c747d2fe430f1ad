"""The kinds of wild logs, and the ranges of their numbers in each part."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from unswayed.randomness import generator
from worlds.wild.specs import ATTACKS, Activity, Family, Group, Logging, Size, Trait, WildSpec
from worlds.world import Part

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of wild log; its numbers are drawn anew for each part and seed.

    ``share`` is the range of the share of colluders, unless the attack determines their number.
    """

    family: Family
    logging: Logging
    activity: Activity
    size: Size
    _: KW_ONLY
    traits: tuple[Trait, ...] = ()
    is_home: bool = False
    attack: str | None = None
    share: Range = (0.05, 0.2)

    @property
    def name(self) -> str:
        """The name, which describes the kind."""
        words: list[str] = [self.family, self.logging, self.activity, self.size]
        words += ["home"] if self.is_home else []
        return ", ".join([" ".join(words), *self.traits, self.attack or "peace"])

    @property
    def group(self) -> Group:
        """Whether it is attacked, attacked without an aim, or not; fans are a separate group."""
        if self.attack is not None:
            return "unaimed" if ATTACKS[self.attack].aim == "noise" else "attacked"
        return "fans" if "fans" in self.traits else "peace"

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags by which results are grouped."""
        home = ("home",) if self.is_home else ()
        attack = (self.attack,) if self.attack else ()
        first = (self.group, self.family, self.logging, self.activity, self.size)
        return (*first, *home, *self.traits, *attack)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Menu:
    """The ranges of one part."""

    n_users: tuple[int, int]
    traffic: Range
    shapes: dict[Size, tuple[tuple[int, int], tuple[int, int]]]
    span: Range
    zipf: Range
    home: Range
    epsilon: Range
    level_sd: Range
    taste_size: Range
    overstated: Range
    """The assumed share of colluders, relative to the true one."""


_MENUS: dict[Part, _Menu] = {
    "development": _Menu(
        n_users=(2_500, 5_000),
        traffic=(0.7, 1.1),
        shapes={
            "ab": ((1, 1), (2, 2)),
            "arms": ((1, 1), (8, 16)),
            "few": ((3, 7), (4, 9)),
            "some": ((20, 40), (5, 10)),
            "many": ((100, 120), (3, 5)),
        },
        span=(0.9, 1.3),
        zipf=(0.2, 0.9),
        home=(0.85, 0.95),
        epsilon=(0.2, 0.4),
        level_sd=(0.3, 0.6),
        taste_size=(0.3, 0.6),
        overstated=(1.0, 1.8),
    ),
    "validation": _Menu(
        n_users=(2_000, 6_500),
        traffic=(0.6, 1.2),
        shapes={
            "ab": ((1, 1), (2, 2)),
            "arms": ((1, 1), (6, 18)),
            "few": ((2, 8), (3, 10)),
            "some": ((18, 50), (4, 12)),
            "many": ((90, 140), (3, 6)),
        },
        span=(0.8, 1.4),
        zipf=(0.0, 1.1),
        home=(0.75, 0.97),
        epsilon=(0.1, 0.5),
        level_sd=(0.25, 0.7),
        taste_size=(0.25, 0.7),
        overstated=(1.0, 2.0),
    ),
    "holdout": _Menu(
        n_users=(2_000, 8_000),
        traffic=(0.6, 1.3),
        shapes={
            "ab": ((1, 1), (2, 2)),
            "arms": ((1, 1), (5, 20)),
            "few": ((2, 9), (3, 12)),
            "some": ((15, 60), (4, 14)),
            "many": ((100, 160), (2, 6)),
        },
        span=(0.75, 1.5),
        zipf=(0.0, 1.2),
        home=(0.7, 0.98),
        epsilon=(0.1, 0.6),
        level_sd=(0.2, 0.7),
        taste_size=(0.2, 0.7),
        overstated=(1.0, 2.0),
    ),
}

_EVENTS: dict[Size, Range] = {
    "ab": (40_000, 60_000),
    "arms": (45_000, 70_000),
    "few": (45_000, 70_000),
    "some": (70_000, 120_000),
    "many": (100_000, 140_000),
}
_BASES: dict[Family, Range] = {
    "clicks": (0.01, 0.08),
    "coin": (0.35, 0.65),
    "stars": (2.9, 3.6),
    "skewed stars": (4.4, 4.9),
    "baskets": (0.04, 0.1),
    "dwell": (10.0, 90.0),
    "counts": (0.3, 2.0),
    "costs": (0.5, 8.0),
    "refunds": (0.05, 0.12),
    "votes": (-0.2, 0.4),
    "scores": (-1.0, 1.0),
    "mixed": (0.04, 0.08),
}
_SPANS: dict[Family, Range] = {
    "clicks": (0.5, 1.0),
    "coin": (0.25, 0.7),
    "stars": (0.3, 0.7),
    "skewed stars": (0.35, 0.8),
    "baskets": (0.5, 1.0),
    "dwell": (0.25, 0.5),
    "counts": (0.3, 0.7),
    "costs": (0.25, 0.5),
    "refunds": (0.5, 1.1),
    "votes": (0.8, 1.4),
    "scores": (0.25, 0.6),
    "mixed": (0.7, 1.2),
}
"""Range of the predictor from worst to best item, before the factor of the part."""
_TRAIT_SHARES: dict[Trait, Range] = {
    "fans": (0.05, 0.15),
    "camps": (0.3, 0.6),
    "minority": (0.05, 0.2),
    "power users": (0.01, 0.03),
    "scrapers": (0.03, 0.12),
    "drift": (0.3, 0.6),
}

_PEACE = (
    Kind("clicks", "uniform", "equal", "some"),
    Kind("clicks", "epsilon-greedy", "pareto", "some", traits=("levels",)),
    Kind("coin", "sticky", "log-normal", "few", traits=("rank 1",)),
    Kind("skewed stars", "uniform", "log-normal", "some", traits=("styles",)),
    Kind("stars", "sticky", "pareto", "few", traits=("styles", "rank 2")),
    Kind("baskets", "uniform", "log-normal", "few", traits=("buyers",)),
    Kind("baskets", "thompson", "pareto", "some"),
    Kind("dwell", "epsilon-greedy", "log-normal", "some", traits=("levels",)),
    Kind("dwell", "sticky", "equal", "few", traits=("rank 2",)),
    Kind("counts", "uniform", "log-normal", "few", traits=("power users",)),
    Kind("costs", "softmax", "equal", "some", traits=("levels",)),
    Kind("refunds", "uniform", "log-normal", "few", traits=("buyers",)),
    Kind("votes", "uniform", "pareto", "some", traits=("rank 1",)),
    Kind("scores", "uniform", "log-normal", "many", traits=("rank 3",)),
    Kind("mixed", "uniform", "equal", "some", traits=("levels",)),
    Kind("clicks", "uniform", "equal", "few", traits=("minority",)),
    Kind("stars", "sticky", "log-normal", "some", traits=("minority",)),
    Kind("coin", "sticky", "equal", "ab", traits=("levels",)),
    Kind("clicks", "thompson", "log-normal", "arms"),
    Kind("clicks", "uniform", "log-normal", "few", traits=("drift",)),
    Kind("clicks", "uniform", "pareto", "few", traits=("new items",)),
    Kind("baskets", "uniform", "equal", "few", traits=("delayed",)),
    Kind("clicks", "sticky", "log-normal", "some", traits=("scrapers",)),
    Kind("counts", "softmax", "pareto", "many", traits=("levels",), is_home=True),
    Kind("coin", "uniform", "equal", "some", traits=("camps",)),
    Kind("clicks", "uniform", "equal", "some", traits=("fans",)),
    Kind("skewed stars", "uniform", "log-normal", "few", traits=("fans",)),
    Kind("baskets", "sticky", "log-normal", "few", traits=("fans",)),
)

_UNAIMED = (
    Kind("clicks", "uniform", "equal", "some", attack="noise"),
    Kind("stars", "sticky", "log-normal", "few", traits=("styles",), attack="noise"),
    Kind("baskets", "uniform", "log-normal", "few", attack="noise bots"),
    Kind("dwell", "epsilon-greedy", "pareto", "some", attack="noise"),
)

_ATTACKED = (
    # One item is promoted in all contexts.
    Kind("clicks", "uniform", "equal", "some", attack="loud push"),
    Kind("coin", "sticky", "log-normal", "few", attack="loud push"),
    Kind("dwell", "epsilon-greedy", "pareto", "some", attack="loud push"),
    Kind("clicks", "epsilon-greedy", "equal", "some", attack="half push"),
    Kind(
        "votes",
        "uniform",
        "log-normal",
        "some",
        traits=("levels",),
        attack="half push",
        share=(0.03, 0.1),
    ),
    Kind("clicks", "thompson", "log-normal", "arms", attack="half push"),
    Kind("baskets", "uniform", "log-normal", "few", traits=("buyers",), attack="mimicry"),
    Kind("counts", "uniform", "pareto", "some", traits=("rank 1",), attack="mimicry"),
    Kind("clicks", "softmax", "pareto", "many", is_home=True, attack="mimicry", share=(0.02, 0.08)),
    Kind(
        "skewed stars",
        "uniform",
        "log-normal",
        "some",
        traits=("styles",),
        attack="farm",
        share=(0.1, 0.25),
    ),
    Kind("clicks", "sticky", "equal", "some", traits=("minority",), attack="farm"),
    Kind("mixed", "uniform", "equal", "some", traits=("levels",), attack="farm"),
    # A different item is promoted in each context.
    Kind("clicks", "uniform", "equal", "some", attack="push each"),
    Kind(
        "stars",
        "sticky",
        "log-normal",
        "some",
        traits=("rank 2",),
        attack="push each",
        share=(0.15, 0.3),
    ),
    Kind("costs", "epsilon-greedy", "equal", "few", attack="swap", share=(0.1, 0.25)),
    # The best items are demoted.
    Kind("coin", "uniform", "equal", "some", attack="sink", share=(0.1, 0.3)),
    Kind(
        "dwell", "sticky", "log-normal", "few", traits=("levels",), attack="sink", share=(0.15, 0.3)
    ),
    Kind("coin", "sticky", "equal", "ab", attack="swap", share=(0.1, 0.3)),
    Kind(
        "scores",
        "uniform",
        "log-normal",
        "some",
        traits=("rank 1",),
        attack="swap",
        share=(0.08, 0.2),
    ),
    Kind("refunds", "uniform", "pareto", "few", attack="swap", share=(0.05, 0.15)),
    Kind("stars", "uniform", "equal", "some", traits=("styles",), attack="nuke", share=(0.08, 0.2)),
    Kind("counts", "sticky", "log-normal", "many", attack="nuke"),
    Kind(
        "skewed stars",
        "softmax",
        "pareto",
        "few",
        traits=("styles",),
        attack="bombing",
        share=(0.08, 0.2),
    ),
    Kind(
        "stars",
        "uniform",
        "log-normal",
        "arms",
        traits=("levels",),
        attack="bombing",
        share=(0.1, 0.25),
    ),
    # Lies in some of the events, or within the range of honest rewards.
    Kind("clicks", "softmax", "log-normal", "some", attack="quiet", share=(0.1, 0.2)),
    Kind("coin", "uniform", "pareto", "few", traits=("rank 1",), attack="quiet", share=(0.15, 0.3)),
    Kind(
        "dwell", "uniform", "equal", "some", traits=("rank 1",), attack="within", share=(0.1, 0.25)
    ),
    Kind(
        "scores",
        "sticky",
        "log-normal",
        "few",
        traits=("levels",),
        attack="within each",
        share=(0.15, 0.3),
    ),
    Kind("baskets", "epsilon-greedy", "log-normal", "some", attack="within", share=(0.1, 0.25)),
    # Few contexts are attacked.
    Kind("clicks", "uniform", "equal", "some", attack="few contexts"),
    Kind(
        "stars",
        "uniform",
        "pareto",
        "many",
        traits=("levels",),
        attack="few contexts",
        share=(0.15, 0.3),
    ),
    Kind(
        "clicks",
        "uniform",
        "log-normal",
        "some",
        is_home=True,
        attack="flooding",
        share=(0.02, 0.06),
    ),
    Kind("costs", "sticky", "pareto", "many", attack="flooding", share=(0.02, 0.06)),
    # Few busy accounts, bots, and throw-away accounts.
    Kind("clicks", "uniform", "log-normal", "some", attack="three accounts"),
    Kind("counts", "epsilon-greedy", "pareto", "some", attack="ten accounts"),
    Kind("coin", "uniform", "log-normal", "few", traits=("power users",), attack="thirty accounts"),
    Kind("clicks", "uniform", "equal", "few", attack="sybils", share=(0.2, 0.3)),
    Kind("clicks", "sticky", "pareto", "arms", attack="sybils", share=(0.2, 0.3)),
    Kind("clicks", "epsilon-greedy", "log-normal", "some", traits=("scrapers",), attack="bots"),
    Kind("dwell", "softmax", "pareto", "some", is_home=True, attack="bots"),
    # Several coalitions, and amounts above those of all honest users.
    Kind(
        "clicks",
        "uniform",
        "log-normal",
        "some",
        traits=("drift",),
        attack="factions",
        share=(0.1, 0.25),
    ),
    Kind("stars", "thompson", "equal", "few", attack="factions", share=(0.15, 0.3)),
    Kind(
        "baskets",
        "uniform",
        "pareto",
        "few",
        traits=("new items",),
        attack="wholesale",
        share=(0.02, 0.06),
    ),
    Kind("refunds", "sticky", "log-normal", "arms", attack="wholesale", share=(0.02, 0.05)),
)

KINDS: tuple[Kind, ...] = (*_PEACE, *_UNAIMED, *_ATTACKED)
"""All kinds of wild logs, first those without an attack."""


def wild_spec(kind: Kind, part: Part, seed: int) -> WildSpec:
    """Draw the numbers of a log of a kind; parts and seeds have streams of their own."""
    menu = _MENUS[part]
    rng = generator(seed, "wild spec", part, kind.name)

    def between(bounds: Range) -> float:
        return float(f"{rng.uniform(*bounds):.3g}")

    def scaled(bounds: Range) -> float:
        """Draw log-uniformly if possible, otherwise uniformly."""
        low, high = bounds
        if low <= 0:
            return between(bounds)
        return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.3g}")

    def whole(bounds: tuple[int, int]) -> int:
        return int(rng.integers(*bounds, endpoint=True))

    contexts, actions = menu.shapes[kind.size]
    n_users = round(whole(menu.n_users), -1)
    n_events = round(between(_EVENTS[kind.size]) * between(menu.traffic))
    base = scaled(_BASES[kind.family])
    span = between(_SPANS[kind.family]) * between(menu.span)
    named = [_TRAIT_SHARES[trait] for trait in kind.traits if trait in _TRAIT_SHARES]
    trait_share = between(named[0]) if named else 0.0
    narrow = 0.6 if kind.family in ("stars", "skewed stars", "scores") else 1.0
    has_levels, has_taste = "levels" in kind.traits, any("rank" in t for t in kind.traits)
    bot_factor = scaled((10.0, 100.0))
    bot_traffic = between((0.08, 0.12))
    bad_share = up = down = 0.0
    alpha = between((0.05, 0.2))
    if kind.attack is not None:
        attack = ATTACKS[kind.attack]
        up, down = between(attack.up), between(attack.down)
        bad_share = between(kind.share)
        if attack.accounts == "few":
            bad_share = attack.n_accounts / n_users
        if attack.accounts == "bots":
            bad_share = between((0.1, 0.3)) / bot_factor
        alpha = min(0.4, max(0.05, bad_share * between(menu.overstated)))
    return WildSpec(
        name=kind.name,
        part=part,
        seed=seed,
        family=kind.family,
        base=base,
        span=span,
        interaction=between((0.3, 0.7)),
        traits=kind.traits,
        trait_share=trait_share,
        taste_size=between(menu.taste_size) * narrow if has_taste else 0.0,
        level_sd=between(menu.level_sd) * narrow if has_levels else 0.0,
        n_users=n_users,
        n_contexts=whole(contexts),
        n_actions=whole(actions),
        n_events=n_events,
        zipf=between(menu.zipf),
        home=between(menu.home) if kind.is_home else 0.0,
        logging=kind.logging,
        epsilon=between(menu.epsilon),
        activity=kind.activity,
        attack=kind.attack,
        bad_share=bad_share,
        up=up,
        down=down,
        bot_factor=bot_factor,
        bot_traffic=bot_traffic,
        alpha=alpha,
    )
