"""Families of worlds, each in three parts that differ in sizes and gaps.

Constants of learners are chosen on the development part. The validation part was used as well: one
of its worlds without an attack changed constants of an earlier learner. The holdout part was
created later and is used for reports only. The hard worlds were added to all parts even later and
are also used for reports only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

from worlds.building import Spec
from worlds.world import Part

LOUD_SIZES: dict[Part, list[dict[str, Any]]] = {
    "development": [
        {"n_contexts": 50, "n_actions": 10, "n_users": 3000, "plays": 60},
        {"n_contexts": 200, "n_actions": 5, "n_users": 4000, "plays": 60, "zipf": 1.0},
        {"n_contexts": 20, "n_actions": 5, "n_users": 2000, "plays": 40},
    ],
    "validation": [
        {"n_contexts": 40, "n_actions": 8, "n_users": 2500, "plays": 60, "zipf": 0.5},
        {"n_contexts": 10, "n_actions": 20, "n_users": 2000, "plays": 60},
        {"n_contexts": 100, "n_actions": 5, "n_users": 4000, "plays": 50, "zipf": 0.8},
    ],
    "holdout": [
        {"n_contexts": 60, "n_actions": 6, "n_users": 3000, "plays": 50, "zipf": 0.7},
        {"n_contexts": 8, "n_actions": 12, "n_users": 1800, "plays": 50},
        {"n_contexts": 30, "n_actions": 7, "n_users": 2500, "plays": 45, "zipf": 0.3},
    ],
}
LOUD_ATTACKS: list[dict[str, Any]] = [
    {"attack": "push"},
    {"attack": "nuke"},
    {"attack": "swap", "gap": 0.25},
    {"attack": "push", "target": "any"},
    {"attack": "push", "strength": 0.5},
    {"attack": "flood"},
    {"attack": "flip"},
    {"attack": "focus"},
    {"attack": "extreme", "strength": 5.0, "rewards": "normal"},
    {"attack": "cauchy", "rewards": "normal"},
]
HARD_SIZES: dict[Part, dict[str, int]] = {
    "development": {"n_users": 2000, "plays": 30},
    "validation": {"n_users": 2500, "plays": 35},
    "holdout": {"n_users": 2200, "plays": 32},
}
# Lies that are hard to detect: one cell per user and few plays in each; the largest coalition with
# half of the lies missing; and lies in the most frequent contexts only.
HARD_WORLDS: list[tuple[float, str, dict[str, Any]]] = [
    (0.2, "uniform", {"attack": "push", "n_contexts": 1, "n_actions": 50}),
    (0.33, "sticky", {"attack": "push", "strength": 0.5, "n_contexts": 20, "n_actions": 5}),
    (
        0.2,
        "sticky",
        {"attack": "focus", "hot": "frequent", "n_contexts": 200, "n_actions": 5, "zipf": 1.0},
    ),
]
HIDDEN_SIZES: dict[Part, list[dict[str, Any]]] = {
    "development": [
        {"n_contexts": 20, "n_actions": 5, "n_users": 4000, "plays": 80, "gap": 0.05},
        {"n_contexts": 10, "n_actions": 8, "n_users": 4000, "plays": 60, "gap": 0.07},
    ],
    "validation": [
        {"n_contexts": 15, "n_actions": 6, "n_users": 4000, "plays": 70, "gap": 0.06},
        {"n_contexts": 25, "n_actions": 4, "n_users": 3500, "plays": 80, "gap": 0.05},
    ],
    "holdout": [
        {"n_contexts": 12, "n_actions": 7, "n_users": 4000, "plays": 65, "gap": 0.06},
        {"n_contexts": 30, "n_actions": 4, "n_users": 3800, "plays": 75, "gap": 0.04},
    ],
}
HIDDEN_ATTACKS: list[dict[str, Any]] = [
    {"attack": "shift", "strength": 0.15},
    {"attack": "shift", "strength": 0.25},
    {"attack": "shift", "strength": 0.5},
    {"attack": "private", "strength": 0.4},
    {"attack": "sub-coalitions", "strength": 0.4},
    {"attack": "late", "strength": 0.5},
    {"attack": "replay"},
    {"attack": "lockstep", "strength": 0.3},
    {"attack": "shift up", "strength": 0.3},
    {"attack": "balanced", "strength": 0.4},
]
TASTES = {
    "idiosyncratic": 0.15,
    "rank two": 0.12,
    "minority": 0.1,
    "minority for runner-up": 0.1,
    "skewed": 0.1,
}
RATED_SIZES: dict[Part, list[dict[str, Any]]] = {
    "development": [
        {"n_contexts": 20, "n_actions": 10, "n_users": 2500, "plays": 60, "zipf": 0.8},
        {"n_contexts": 50, "n_actions": 6, "n_users": 2000, "plays": 60, "zipf": 0.5},
        {"n_contexts": 10, "n_actions": 20, "n_users": 3000, "plays": 40, "zipf": 1.0},
    ],
    "validation": [
        {"n_contexts": 25, "n_actions": 8, "n_users": 2500, "plays": 50, "zipf": 0.8},
        {"n_contexts": 12, "n_actions": 12, "n_users": 2500, "plays": 60, "zipf": 0.5},
        {"n_contexts": 40, "n_actions": 5, "n_users": 2000, "plays": 50, "zipf": 1.0},
    ],
    "holdout": [
        {"n_contexts": 30, "n_actions": 7, "n_users": 2200, "plays": 55, "zipf": 0.6},
        {"n_contexts": 15, "n_actions": 10, "n_users": 2800, "plays": 50, "zipf": 0.9},
        {"n_contexts": 35, "n_actions": 6, "n_users": 2400, "plays": 60, "zipf": 0.4},
    ],
}
ATTACKS_ON_RATINGS: list[dict[str, Any]] = [
    {"attack": "none"},
    {"attack": "push"},
    {"attack": "push", "target": "any"},
    {"attack": "nuke"},
    {"attack": "average", "target": "any"},
    {"attack": "bandwagon", "target": "any"},
    {"attack": "spammers", "target": "any"},
    {"attack": "focus", "target": "any"},
    {"attack": "shift", "strength": 0.35},
]
RATED_ATTACKS: list[dict[str, Any]] = [
    *ATTACKS_ON_RATINGS,
    {"attack": "sub-coalitions", "strength": 0.5},
    {"attack": "flood"},
    {"attack": "shift", "strength": 0.6},
]

# Parts of a source share no items, or no people; selves and habits are in one part each.
REAL_SOURCES: dict[Part, list[dict[str, Any]]] = {
    "development": [
        {"source": "movies/development", "n_contexts": 8, "n_actions": 10, "plays": 60},
        {"source": "moods/development", "n_contexts": 6, "n_actions": 10, "plays": 40},
    ],
    "validation": [
        {"source": "movies/validation", "n_contexts": 6, "n_actions": 12, "plays": 50},
        {"source": "moods/validation", "n_contexts": 8, "n_actions": 8, "plays": 50},
        {"source": "selves/validation", "n_contexts": 5, "n_actions": 5, "plays": 25},
    ],
    "holdout": [
        {"source": "movies/holdout", "n_contexts": 10, "n_actions": 7, "plays": 45},
        {"source": "moods/holdout", "n_contexts": 10, "n_actions": 6, "plays": 45},
        {"source": "habits/holdout", "n_contexts": 8, "n_actions": 7, "plays": 40},
    ],
}
REAL_ATTACKS: list[dict[str, Any]] = [
    *ATTACKS_ON_RATINGS,
    {"attack": "shift", "strength": 0.6, "target": "any"},
    {"attack": "sub-coalitions", "strength": 0.6, "target": "any"},
    {"attack": "flood"},
    {"attack": "lockstep", "strength": 0.5, "target": "any"},
    {"attack": "push", "strength": 0.6, "target": "any"},
    {"attack": "shift", "strength": 0.8},
    {"attack": "none", "design": "uniform"},
]
UNEVEN_SIZES: dict[Part, list[dict[str, Any]]] = {
    "development": [
        {"source": "lectures/development", "n_contexts": 7, "n_actions": 15, "plays": 20}
    ],
    "validation": [],
    "holdout": [{"source": "lectures/holdout", "n_contexts": 7, "n_actions": 12, "plays": 25}],
}
UNEVEN_ATTACKS: list[dict[str, Any]] = [
    {"attack": "none"},
    {"attack": "none", "rewards": "likes"},
    {"attack": "none", "design": "uniform"},
    {"attack": "none", "rewards": "likes", "design": "uniform"},
    {"attack": "push", "target": "any"},
    {"attack": "bandwagon", "target": "any", "design": "uniform"},
    {"attack": "shift", "strength": 0.6, "target": "any", "rewards": "likes"},
    {"attack": "push", "target": "any", "rewards": "likes", "design": "uniform"},
]
MOST_USERS = 4000


def specs(part: Part) -> list[Spec]:
    """Return the worlds of one part."""
    families = (_loud, _hard, _hidden, _rated, _real, _uneven)
    return [spec for family in families for spec in family(part)]


def _loud(part: Part) -> Iterator[Spec]:
    shares, designs = cycle((0.05, 0.1, 0.2, 0.3, 0.33)), cycle(("sticky", "uniform", "mixed"))
    kinds = cycle(("binary", "binary", "normal", "normal"))
    for size in LOUD_SIZES[part]:
        for attack in LOUD_ATTACKS:
            settings = {"rewards": next(kinds), **size, **attack}
            yield _spec("loud", part, next(shares), next(designs), settings)


def _hard(part: Part) -> Iterator[Spec]:
    for share, design, settings in HARD_WORLDS:
        yield _spec(
            "hard", part, share, design, {"rewards": "binary", **HARD_SIZES[part], **settings}
        )


def _hidden(part: Part) -> Iterator[Spec]:
    sizes, designs = cycle(HIDDEN_SIZES[part]), cycle(("sticky", "uniform", "mixed"))
    shares = cycle((0.1, 0.1, 0.2, 0.2, 0.3, 0.3))
    common = {"noise": 0.35, "spread": 0.15}
    for attack in HIDDEN_ATTACKS:
        for rewards in ("binary", "normal"):
            settings = {**common, **next(sizes), **attack, "rewards": rewards}
            yield _spec("hidden", part, next(shares), next(designs), settings)
    heavy = cycle((True, False, False, False))
    for tastes, taste_size in TASTES.items():
        for attack in (
            {"attack": "none"},
            {"attack": "push"},
            {"attack": "shift", "strength": 0.4},
        ):
            for rewards in ("binary", "normal"):
                settings = {
                    **common,
                    **next(sizes),
                    **attack,
                    "rewards": rewards,
                    "tastes": tastes,
                    "taste_size": taste_size,
                    "has_heavy_users": next(heavy),
                }
                yield _spec("hidden", part, 0.15, next(designs), settings)
    many_arms = {"n_contexts": 1, "n_actions": 50, "n_users": 2000, "plays": 30}
    for rewards in ("binary", "normal"):
        for attack_name in ("none", "push"):
            settings = {**many_arms, "rewards": rewards, "attack": attack_name}
            yield _spec("hidden", part, 0.2, "sticky", settings)


def _rated(part: Part) -> Iterator[Spec]:
    sizes, designs = cycle(RATED_SIZES[part]), cycle(("sticky", "sticky", "uniform", "mixed"))
    shares = cycle((0.2, 0.2, 0.2, 0.3, 0.3, 0.3, 0.1, 0.1, 0.1, 0.33, 0.33, 0.33))
    heavy = cycle((False, False, True, False, False))
    for kind in ("stars", "scale", "likes"):
        for attack in RATED_ATTACKS:
            settings = {**next(sizes), **attack, "rewards": kind, "has_heavy_users": next(heavy)}
            yield _spec("rated", part, next(shares), next(designs), settings)


def _real(part: Part) -> Iterator[Spec]:
    shares = cycle((0.2, 0.3, 0.25, 0.15, 0.33, 0.2, 0.3, 0.33, 0.25, 0.3, 0.2))
    designs = cycle(("sticky", "uniform", "sticky", "mixed", "uniform"))
    kinds = cycle(("stars", "stars", "likes"))
    for source in REAL_SOURCES[part]:
        for attack in REAL_ATTACKS:
            kind = "likes" if source["source"].startswith("habits") else next(kinds)
            settings = {"n_users": MOST_USERS, **source, **attack, "rewards": kind}
            design = settings.pop("design", next(designs))
            yield _spec("real", part, next(shares), design, settings)


def _uneven(part: Part) -> Iterator[Spec]:
    """Yield worlds in which contexts and actions depend on the user in ways unknown to learners."""
    for size in UNEVEN_SIZES[part]:
        for attack in UNEVEN_ATTACKS:
            settings = {"n_users": MOST_USERS, "rewards": "stars", **size, **attack}
            yield _spec("uneven", part, 0.2, settings.pop("design", "sticky"), settings)


def _spec(family: str, part: Part, alpha: float, design: Any, settings: dict[str, Any]) -> Spec:
    words = [
        settings["attack"],
        str(settings.get("strength", "")),
        settings.get("target", ""),
        settings.get("hot", ""),
        settings.get("tastes", ""),
        settings.get("source", "").split("/")[0],
        settings["rewards"],
        f"S{settings['n_contexts']}",
        f"A{settings['n_actions']}",
        f"alpha {alpha}",
        design,
    ]
    name = f"{family}/{part[:3]}: " + " ".join(word for word in words if word)
    return Spec(name=name, family=family, alpha=alpha, design=design, **settings)
