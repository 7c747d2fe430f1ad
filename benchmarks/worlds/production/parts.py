"""The production-like logs of each part of the benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from unswayed.randomness import generator
from worlds.production.specs import (
    ACTIVITIES,
    ATTACKS,
    BOT_ACTIVITIES,
    BOT_SHARES,
    LOGGINGS,
    REWARD_KINDS,
    TASTES,
    Activity,
    Attack,
    Logging,
    ProductionSpec,
    RewardKind,
    Tastes,
)
from worlds.world import Part

# Number of random logs, in addition to the known kinds below.
N_PEACEFUL = 13
N_ATTACKED = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class _Menu:
    """The choices of a part: numbers are drawn from ranges, and all elements of lists occur."""

    n_users: tuple[int, int]
    shapes: tuple[tuple[int, int], ...]
    n_actions: tuple[int, ...]
    equal_events: tuple[int, int]
    heavy_median: tuple[int, ...]
    bimodal_events: tuple[int, int]
    bases: dict[RewardKind, tuple[float, float]]
    ratio: tuple[float, float]


_MENUS: dict[Part, _Menu] = {
    "development": _Menu(
        n_users=(11_000, 13_000),
        shapes=((10, 3), (4, 2), (10, 3), (25, 4), (10, 3), (1, 1)),
        n_actions=(12, 8, 20, 6),
        equal_events=(18, 22),
        heavy_median=(4,),
        bimodal_events=(90, 110),
        bases={
            "clicks": (0.008, 0.03),
            "baskets": (0.025, 0.05),
            "stars": (3.2, 3.8),
            "dwell": (20.0, 60.0),
            "counts": (0.3, 1.5),
        },
        ratio=(1.8, 2.8),
    ),
    "validation": _Menu(
        n_users=(9_000, 14_000),
        shapes=((9, 3), (5, 2), (12, 2), (22, 4), (8, 4), (1, 1)),
        n_actions=(10, 7, 18, 14),
        equal_events=(15, 28),
        heavy_median=(4, 5),
        bimodal_events=(80, 130),
        bases={
            "clicks": (0.006, 0.045),
            "baskets": (0.02, 0.05),
            "stars": (3.0, 4.0),
            "dwell": (10.0, 120.0),
            "counts": (0.2, 2.0),
        },
        ratio=(1.6, 3.0),
    ),
    "holdout": _Menu(
        n_users=(8_000, 16_000),
        shapes=((11, 3), (3, 2), (14, 2), (20, 5), (7, 4), (1, 1)),
        n_actions=(11, 6, 16, 9),
        equal_events=(14, 30),
        heavy_median=(3, 4, 6),
        bimodal_events=(70, 140),
        bases={
            "clicks": (0.005, 0.05),
            "baskets": (0.02, 0.05),
            "stars": (2.8, 4.1),
            "dwell": (5.0, 200.0),
            "counts": (0.2, 2.0),
        },
        ratio=(1.5, 3.0),
    ),
}


# Kinds of logs on which learners failed early: rewards, activity, logging, attack and share of
# bots.
_KNOWN: tuple[tuple[RewardKind, Activity, Logging, Attack, float], ...] = (
    ("clicks", "equal", "uniform", "none", 0.0),
    ("clicks", "heavy", "uniform", "none", 0.0),
    ("clicks", "heavy", "epsilon-greedy", "none", 0.0),
    ("baskets", "equal", "uniform", "none", 0.0),
    ("clicks", "equal", "uniform", "push", 0.05),
    ("clicks", "equal", "epsilon-greedy", "farm", 0.05),
    ("clicks", "heavy", "uniform", "farm", 0.05),
    ("clicks", "heavy", "epsilon-greedy", "push", 0.05),
    ("clicks", "heavy", "softmax", "quiet", 0.05),
    ("baskets", "equal", "uniform", "push", 0.05),
    ("dwell", "heavy", "epsilon-greedy", "farm", 0.05),
    ("clicks", "heavy", "softmax", "push", 0.2),
    ("clicks", "equal", "uniform", "targets", 0.2),
    # Strong attacks on other kinds of rewards, and response styles without an attack.
    ("stars", "heavy", "softmax", "none", 0.0),
    ("stars", "heavy", "uniform", "farm", 0.1),
    ("counts", "bimodal", "epsilon-greedy", "push", 0.1),
)


def production_specs(part: Part) -> list[ProductionSpec]:
    """Return the logs of a part, the peaceful ones first.

    First the known kinds, with bots of 20 to 80 events and an assumed share of .1. The properties
    of the others are drawn without replacement: each column of choices is repeated and shuffled, so
    every choice occurs and combinations are random.
    """
    dealers = _Dealer(part, "peaceful", N_PEACEFUL), _Dealer(part, "attacked", N_ATTACKED)
    drawn = [_known(part, *kind) for kind in _KNOWN]
    drawn += [dealer.spec(i) for dealer in dealers for i in range(dealer.size)]
    return _named(sorted(drawn, key=lambda spec: spec.attack != "none"))


def _known(
    part: Part,
    rewards: RewardKind,
    activity: Activity,
    logging: Logging,
    attack: Attack,
    bot_share: float,
) -> ProductionSpec:
    """Return a log of a known kind, with the sizes of the part and no further properties."""
    dealer = _Dealer(part, f"{rewards} {activity} {logging} {attack}", 1)
    return replace(
        dealer.spec(0),
        rewards=rewards,
        base=dealer.between(0.01, 0.02) if rewards == "clicks" else dealer.base(rewards),
        level_sd=0.0,
        tastes="none",
        activity=activity,
        events_per_user=dealer.events(activity),
        n_countries=_MENUS[part].shapes[0][0],
        n_devices=_MENUS[part].shapes[0][1],
        n_actions=_MENUS[part].n_actions[0],
        is_roaming=False,
        logging=logging,
        epsilon=0.3,
        greedy="best" if dealer.rng.random() < 0.5 else "mediocre",
        has_propensities=activity != "equal" or logging != "uniform",
        n_new=0,
        n_withdrawn=0,
        attack=attack,
        bot_share=bot_share,
        bot_activity="20-80",
        lie_probability=0.4 if attack == "quiet" else 1.0,
        is_inflated=False,
        alpha=0.1,
    )


class _Dealer:
    """Draws the properties of a number of logs."""

    def __init__(self, part: Part, stream: str, size: int) -> None:
        self.part, self.size, self.is_peaceful = part, size, stream == "peaceful"
        self.menu = _MENUS[part]
        self.rng = generator(0, "production specs", part, stream)
        deal = self._deal
        self.rewards = deal(("clicks", *REWARD_KINDS))
        self.activity = deal(ACTIVITIES)
        self.logging = deal(LOGGINGS)
        self.has_levels = deal((True, False))
        self.tastes = deal(TASTES if self.is_peaceful else ("none", *TASTES))
        self.shapes = deal(self.menu.shapes)
        self.n_actions = deal(self.menu.n_actions)
        self.is_roaming = deal((False, False, False, True))
        self.greedy = deal(("best", "mediocre"))
        self.epsilon = deal((0.3, 0.1))
        self.has_propensities = deal((True, False))
        self.moving = deal(((0, 0), (2, 0), (0, 0), (0, 2), (0, 0), (1, 1)))
        self.attack = deal(ATTACKS)
        self.bot_share = deal(BOT_SHARES)
        self.bot_activity = deal(BOT_ACTIVITIES)
        self.alpha = deal((0.1, 0.1, 0.1, 0.05, 0.1, 0.2))
        self.is_inflated = deal((False, True))

    def _deal(self, choices: Sequence[Any]) -> list[Any]:
        """Return ``size`` choices, each about equally often, in random order."""
        cards = [choices[i % len(choices)] for i in range(self.size)]
        return [cards[i] for i in self.rng.permutation(self.size)]

    def between(self, low: float, high: float) -> float:
        """Return a number between two, with three digits."""
        return float(f"{self.rng.uniform(low, high):.3g}")

    def base(self, rewards: RewardKind) -> float:
        """Return a typical mean reward."""
        return self.between(*self.menu.bases[rewards])

    def events(self, activity: Activity) -> int:
        """Return the choices of ``events_per_user``."""
        if activity == "heavy":
            return int(self.rng.choice(self.menu.heavy_median))
        bounds = self.menu.equal_events if activity == "equal" else self.menu.bimodal_events
        return int(self.rng.integers(*bounds, endpoint=True))

    def spec(self, i: int) -> ProductionSpec:
        """Return the ``i``-th log, without a name."""
        rewards: RewardKind = self.rewards[i]
        activity: Activity = self.activity[i]
        tastes: Tastes = self.tastes[i]
        attack: Attack = "none" if self.is_peaceful else self.attack[i]
        n_countries, n_devices = self.shapes[i]
        if attack in ("targets", "few") and n_countries == 1:  # these attacks need several
            n_countries, n_devices = self.menu.shapes[0]
        n_new, n_withdrawn = self.moving[i]
        bot_share = self.bot_share[i]
        if self.bot_activity[i] == "100x":
            # Limit lies to a few hundred thousand: use few bots if honest accounts are active.
            bot_share = min(bot_share, 0.01 if activity == "equal" else 0.05)
        return ProductionSpec(
            name="",
            part=self.part,
            rewards=rewards,
            base=self.base(rewards),
            ratio=self.between(*self.menu.ratio),
            interaction=self.between(0.3, 0.7),
            level_sd=self.between(0.3, 0.5) if self.has_levels[i] else 0.0,
            tastes=tastes,
            taste_size=0.0 if tastes in ("none", "minority") else self.between(0.3, 0.6),
            minority=self.between(0.05, 0.2) if tastes == "minority" else 0.0,
            n_users=round(int(self.rng.integers(*self.menu.n_users)), -2),
            n_countries=n_countries,
            n_devices=n_devices,
            n_actions=self.n_actions[i],
            is_roaming=self.is_roaming[i],
            activity=activity,
            events_per_user=self.events(activity),
            logging=self.logging[i],
            epsilon=self.epsilon[i],
            greedy=self.greedy[i],
            has_propensities=self.has_propensities[i] or n_new + n_withdrawn > 0,
            n_new=n_new,
            n_withdrawn=n_withdrawn,
            attack=attack,
            bot_share=0.0 if self.is_peaceful else bot_share,
            bot_activity=self.bot_activity[i],
            lie_probability=self.between(0.3, 0.5) if attack == "quiet" else 1.0,
            is_inflated=self.is_inflated[i] and rewards == "baskets" and attack != "sink",
            # Learners assume less than the true share, namely 10%, only if 20% are bots.
            alpha=self.alpha[i] if bot_share <= self.alpha[i] else 0.1,
        )


def _named(specs: list[ProductionSpec]) -> list[ProductionSpec]:
    """Return the specs with descriptive names; equal names are numbered."""
    seen: Counter[str] = Counter()
    named = []
    for spec in specs:
        name = _name(spec)
        seen[name] += 1
        named.append(replace(spec, name=name if seen[name] == 1 else f"{name} #{seen[name]}"))
    return named


def _name(spec: ProductionSpec) -> str:
    rate = f"{spec.base:.1%}" if spec.rewards in ("clicks", "baskets") else f"{spec.base:g}"
    words = [spec.rewards, rate, spec.activity, spec.logging]
    if spec.logging in ("epsilon-greedy", "changing"):
        words.append(f"{spec.epsilon:g}")
    if spec.logging in ("epsilon-greedy", "changing", "shrinking"):
        words.append(spec.greedy)
    words.append(f"{spec.n_contexts}x{spec.n_actions}")
    marks: tuple[tuple[bool, str], ...] = (
        (spec.is_roaming, "roaming"),
        (spec.level_sd > 0, "levels"),
        (spec.tastes == "minority", f"minority {spec.minority:.0%}"),
        (spec.tastes not in ("none", "minority"), spec.tastes),
        (spec.n_new > 0, "new"),
        (spec.n_withdrawn > 0, "withdrawn"),
        (spec.attack == "none", "peace"),
        (spec.attack != "none", f"{spec.attack} {spec.bot_share:.0%} {spec.bot_activity}"),
        (spec.attack != "none" and spec.is_inflated, "inflated"),
        (spec.alpha != 0.1, f"told {spec.alpha:g}"),
    )
    return " ".join([*words, *(word for is_so, word in marks if is_so)])
