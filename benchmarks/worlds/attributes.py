"""Logs of users with attributes, honest or attacked, with a known truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.randomness import generator
from worlds.world import Part

Truth = Literal["none", "piecewise", "linear", "smooth"]
Rewards = Literal["clicks", "stars", "baskets"]
Attack = Literal["peace", "push", "segment", "forged", "quiet", "sink"]

ATTACKS: tuple[Attack, ...] = ("peace", "push", "segment", "forged", "quiet", "sink")
LOUD = ("push", "segment", "forged")
N_TESTED = 20_000
"""Fresh honest visits on which policies are scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of log.

    ``rate`` is about the mean of clicks and purchases. In ``is_uneven`` logs some honest users are
    far more active than others, and some click more than others, whatever they are shown.
    """

    truth: Truth = "piecewise"
    rewards: Rewards = "clicks"
    attack: Attack = "peace"
    rate: float = 0.05
    is_greedy: bool = False
    is_uneven: bool = False
    n_users: int = 3_000
    events_per_user: int = 20
    n_attributes: int = 6
    n_actions: int = 5
    bots: float = 0.1

    @property
    def name(self) -> str:
        """Return what distinguishes the kind."""
        words = [self.attack, self.truth, self.rewards, "greedy" if self.is_greedy else "uniform"]
        words += ["uneven"] * self.is_uneven
        size = f"{self.n_users}u x {self.events_per_user} {self.n_attributes}d {self.n_actions}a"
        return " ".join([*words, size, f"{self.rate:g}"])


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A log, who forged it, and what fresh honest visits would bring."""

    kind: Kind
    log: pa.Table
    is_bot: BoolArray
    visits: pa.Table
    means: FloatArray

    @property
    def features(self) -> list[str]:
        """Names of the attributes."""
        return list(self.visits.column_names)

    def share(self, actions: IntArray) -> float:
        """Return the share of (best − random) that actions reach on the fresh visits."""
        best, random = self.means.max(axis=1).mean(), self.means.mean()
        return float(
            (self.means[np.arange(len(actions)), actions].mean() - random) / (best - random)
        )

    def without_bots(self) -> World:
        """Return the same log of honest users alone."""
        kept = self.log.filter(pa.array(~self.is_bot))
        return replace(self, log=kept, is_bot=np.zeros(len(kept), np.bool_))


MOST_EVENTS = 250_000
"""In one log, so that a table takes minutes."""


def kinds(part: Part, seed: int) -> list[Kind]:
    """Return kinds of logs whose numbers are drawn anew for each part and seed.

    Each attack meets each truth; users, attributes, actions and rates are log-uniform.
    """
    rng = generator(seed, "kinds with attributes", part)

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def drawn(truth: Truth, attack: Attack) -> Kind:
        n_users = int(between(1_000, 50_000))
        families: tuple[Rewards, ...] = ("clicks", "clicks", "stars", "baskets")
        return Kind(
            truth=truth,
            attack=attack,
            rewards=families[int(rng.integers(len(families)))],
            rate=round(between(0.01, 0.1), 3),
            is_greedy=bool(rng.random() < 0.5),
            is_uneven=bool(rng.random() < 0.5),
            n_users=n_users,
            events_per_user=int(min(between(4, 40), MOST_EVENTS / n_users)),
            n_attributes=int(between(2, 21)),
            n_actions=int(between(2, 31)),
            bots=round(between(0.03, 0.1), 3),
        )

    truths: tuple[Truth, ...] = ("piecewise", "linear", "smooth")
    return [drawn(truth, attack) for attack in ATTACKS for truth in truths] + [
        drawn("none", "peace"),
        drawn("none", "push"),
    ]


class _Attributes:
    """How attributes are distributed: half belong to users, half to visits."""

    def __init__(self, kind: Kind, rng: np.random.Generator) -> None:
        self.names = [f"x{place}" for place in range(kind.n_attributes)]
        # A number, then categories of few and many levels, and so on.
        self.n_levels = [
            0 if place % 2 == 0 else (3, 8, 30)[place // 2 % 3]
            for place in range(kind.n_attributes)
        ]
        self.shares = [rng.dirichlet(np.full(max(n, 1), 2.0)) for n in self.n_levels]
        self.is_of_user = [place % 4 < 2 for place in range(kind.n_attributes)]

    def draw(self, users: IntArray, n_users: int, rng: np.random.Generator) -> list[FloatArray]:
        """Return the attributes of visits; numbers and codes of levels."""
        columns = []
        for n_levels, shares, is_of_user in zip(
            self.n_levels, self.shares, self.is_of_user, strict=True
        ):
            size = n_users if is_of_user else len(users)
            drawn = (
                rng.standard_normal(size) if n_levels == 0 else rng.choice(n_levels, size, p=shares)
            )
            columns.append((drawn[users] if is_of_user else drawn).astype(np.float64))
        return columns

    def table(self, columns: list[FloatArray], is_missing: BoolArray) -> dict[str, pa.Array]:
        """Return columns as a log has them; one visit in twenty lacks the first."""
        named = {}
        for place, (name, column) in enumerate(zip(self.names, columns, strict=True)):
            mask = is_missing if place == 0 else np.zeros(len(column), np.bool_)
            if self.n_levels[place] == 0:
                named[name] = pa.array(np.round(column, 4), mask=mask)
            else:
                named[name] = pa.array([f"v{int(code)}" for code in column])
        return named


class _Truth:
    """Mean rewards of actions, a function of the attributes."""

    def __init__(self, kind: Kind, attributes: _Attributes, rng: np.random.Generator) -> None:
        self.kind, self.n_levels = kind, attributes.n_levels
        d, n_actions = len(self.n_levels), kind.n_actions
        self.base = rng.normal(0.0, 0.3, n_actions)
        used = rng.permutation(d)[: max(2, min(d, 4))]
        self.used = used.tolist()
        self.cuts = rng.normal(0.0, 0.5, d)
        self.sides = [rng.random(max(n, 1)) < 0.5 for n in self.n_levels]
        self.effects = rng.normal(0.0, 1.0, (2 ** min(3, len(used)), n_actions))
        self.slopes = rng.normal(0.0, 1.0, (d, n_actions))
        self.of_levels = [rng.normal(0.0, 1.0, (max(n, 1), n_actions)) for n in self.n_levels]
        self.phases = rng.uniform(0.0, 2 * np.pi, (d, n_actions))

    def utilities(self, columns: list[FloatArray]) -> FloatArray:
        """Return the utility of each action, shape (n_visits, n_actions)."""
        n, truth = len(columns[0]), self.kind.truth
        result = np.tile(self.base, (n, 1))
        if truth == "none":
            return result * 2.0
        if truth == "piecewise":
            region = np.zeros(n, np.int64)
            for place in self.used[: int(np.log2(len(self.effects)))]:
                codes = columns[place].astype(np.int64)
                is_number = self.n_levels[place] == 0
                side = columns[place] > self.cuts[place] if is_number else self.sides[place][codes]
                region = 2 * region + side
            return result + self.effects[region]
        scale = 1.0 / np.sqrt(len(self.used))
        for place in self.used:
            column = columns[place]
            if self.n_levels[place]:
                result += scale * self.of_levels[place][column.astype(np.int64)]
            elif truth == "linear":
                result += scale * np.outer(column, self.slopes[place])
            else:
                result += scale * 1.4 * np.sin(1.5 * column[:, None] + self.phases[place])
        return result

    def means(self, columns: list[FloatArray]) -> FloatArray:
        """Return the mean reward of each action."""
        utilities = self.utilities(columns)
        if self.kind.rewards == "stars":
            return 3.0 + 1.2 * np.tanh(0.5 * utilities)
        return self.kind.rate * np.exp(0.7 * utilities.clip(-3.0, 2.5)) / 1.6 + 0.1 * self.kind.rate


def build(kind: Kind, seed: int) -> World:
    """Return a log of a kind."""
    rng = generator(seed, "attributes", kind.name)
    attributes = _Attributes(kind, rng)
    truth = _Truth(kind, attributes, rng)
    activity = rng.gamma(1.0, 1.0, kind.n_users) if kind.is_uneven else np.ones(kind.n_users)
    levels = rng.gamma(4.0, 0.25, kind.n_users) if kind.is_uneven else np.ones(kind.n_users)
    plays = rng.poisson(kind.events_per_user * activity).clip(2)
    users = np.repeat(np.arange(kind.n_users), plays)
    is_bot = users < kind.bots * kind.n_users * (kind.attack != "peace")
    columns = attributes.draw(users, kind.n_users, rng)
    fresh = attributes.draw(np.arange(N_TESTED), N_TESTED, rng)
    tested = truth.means(fresh)
    best, target = int(tested.mean(axis=0).argmax()), int(tested.mean(axis=0).argmin())
    place = truth.used[0]
    if kind.attack == "segment":  # all visits of bots are in one half of the attribute that matters
        chosen = tested[_half(fresh[place])].mean(axis=0)
        best, target = int(chosen.argmax()), int(chosen.argmin())
        inside = columns[place][_half(columns[place])]
        columns[place][is_bot] = rng.choice(inside, int(is_bot.sum()))
    if kind.attack == "forged":  # attributes as of anybody else, visit by visit
        for column in columns:
            column[is_bot] = rng.choice(column[~is_bot], int(is_bot.sum()))
    means = truth.means(columns)
    actions, propensities = _logged(kind, means, rng)
    rewards = _rewards(kind, means[np.arange(len(users)), actions], levels[users], rng)
    rewards = _forged(kind, rewards, is_bot, actions, best, target, rng)
    log = {
        "user": pa.array([f"u{code}" for code in rng.permutation(kind.n_users)[users]]),
        **attributes.table(columns, rng.random(len(users)) < 0.05),
        "action": pa.array([f"a{code:02d}" for code in actions]),
        "reward": pa.array(rewards),
    }
    if propensities is not None:
        log["propensity"] = pa.array(propensities)
    visits = pa.table(attributes.table(fresh, rng.random(N_TESTED) < 0.05))
    return World(kind, pa.table(log), is_bot, visits, tested)


def _half(column: FloatArray) -> BoolArray:
    return column >= np.median(column)


def _logged(
    kind: Kind, means: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, FloatArray | None]:
    """Return logged actions, and their propensities unless play was uniform."""
    n, n_actions = means.shape
    actions: IntArray = np.asarray(rng.integers(n_actions, size=n))
    if not kind.is_greedy:
        return actions, None
    guess = (means + rng.normal(0.0, means.std(), n_actions)).argmax(axis=1)
    actions = np.where(rng.random(n) < 0.6, guess, actions)
    return actions, np.where(actions == guess, 0.6 + 0.4 / n_actions, 0.4 / n_actions)


def _rewards(
    kind: Kind, means: FloatArray, levels: FloatArray, rng: np.random.Generator
) -> FloatArray:
    if kind.rewards == "stars":
        noise = rng.normal(levels - 1.0, 1.0)
        return np.rint(means + noise).clip(1.0, 5.0)
    bought = (rng.random(len(means)) < means * levels).astype(np.float64)
    if kind.rewards == "baskets":
        bought *= np.round(rng.lognormal(3.0, 0.8, len(means)), 2)
    return bought


def _forged(
    kind: Kind,
    rewards: FloatArray,
    is_bot: BoolArray,
    actions: IntArray,
    best: int,
    target: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the rewards that bots report beside those of honest users."""
    low, high = {"stars": (1.0, 5.0), "clicks": (0.0, 1.0), "baskets": (0.0, 60.0)}[kind.rewards]
    on_target, on_best = is_bot & (actions == target), is_bot & (actions == best)
    rewards = rewards.copy()
    match kind.attack:
        case "push" | "segment" | "forged":
            rewards[on_target], rewards[on_best] = high, low
        case "quiet":  # every third play of the target, and no play of the best, is praised
            rewards[on_target & (rng.random(len(rewards)) < 0.35)] = high
            rewards[on_best & (rng.random(len(rewards)) < 0.5)] = low
        case "sink":
            rewards[on_best] = low
    return rewards
