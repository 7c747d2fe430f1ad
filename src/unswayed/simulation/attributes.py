"""Logs of users with attributes, honest or attacked, with a known truth, and learners for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Literal

import numpy as np
import pyarrow as pa

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.events import Columns, read_events
from unswayed.events.attributes import AttributeColumn
from unswayed.events.reading import read_attributes
from unswayed.learners.features.advice import cross_fitted_advice
from unswayed.learners.features.encoding import Rows, encoded, fitted_features
from unswayed.learners.features.trees import Grower, Growth
from unswayed.names import find
from unswayed.policy.partition import Feature, Partition
from unswayed.randomness import generator
from unswayed.robust_mcb import RobustMCB
from unswayed.simulation.simulate import Row, repeated
from unswayed.simulation.vowpal_wabbit import actions_of as vowpal_wabbit_actions

Truth = Literal["none", "piecewise", "linear", "smooth"]
Rewards = Literal["clicks", "stars", "baskets"]
Attack = Literal["peace", "push", "segment", "forged", "quiet", "sink"]

ATTACKS: tuple[Attack, ...] = ("peace", "push", "segment", "forged", "quiet", "sink")
TRUTHS: tuple[Truth, ...] = ("piecewise", "linear", "smooth")
N_TESTED = 20_000
"""Fresh honest visits on which policies are scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of log."""

    truth: Truth = "piecewise"
    rewards: Rewards = "clicks"
    attack: Attack = "peace"
    rate: float = 0.05  # approximate mean of clicks and purchases
    is_greedy: bool = False
    is_uneven: bool = False  # honest users differ in activity and in their click rate
    n_users: int = 3_000
    events_per_user: int = 20
    n_attributes: int = 6
    n_actions: int = 5
    bots: float = 0.1

    @property
    def name(self) -> str:
        """A description of the kind, which names it."""
        words = [self.attack, self.truth, self.rewards, "greedy" if self.is_greedy else "uniform"]
        words += ["uneven"] * self.is_uneven
        size = f"{self.n_users}u x {self.events_per_user} {self.n_attributes}d {self.n_actions}a"
        return " ".join([*words, size, f"{self.rate:g}"])


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A log, its forged events, and the rewards of fresh honest visits."""

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
        """Return the share of (best − random) that actions attain on the fresh visits."""
        best, random = self.means.max(axis=1).mean(), self.means.mean()
        reached = self.means[np.arange(len(actions)), actions].mean()
        return float((reached - random) / (best - random))

    def without_bots(self) -> World:
        """Return the same log of honest users alone."""
        kept = self.log.filter(pa.array(~self.is_bot))
        return replace(self, log=kept, is_bot=np.zeros(len(kept), np.bool_))


class _Attributes:
    """Distributions of attributes; half of them belong to users, half to visits."""

    def __init__(self, kind: Kind, rng: np.random.Generator) -> None:
        self.names = [f"x{place}" for place in range(kind.n_attributes)]
        # Every other attribute is a number; the others are categories with few or many levels.
        self.n_levels = [(0, 3, 0, 8, 0, 30)[place % 6] for place in range(kind.n_attributes)]
        self.shares = [rng.dirichlet(np.full(max(n, 1), 2.0)) for n in self.n_levels]

    def draw(self, users: IntArray, n_users: int, rng: np.random.Generator) -> list[FloatArray]:
        """Return the attributes of visits, as numbers and codes of levels."""
        columns = []
        for place, (n_levels, shares) in enumerate(zip(self.n_levels, self.shares, strict=True)):
            is_of_user = place % 4 < 2
            size = n_users if is_of_user else len(users)
            drawn = rng.choice(n_levels, size, p=shares) if n_levels else rng.standard_normal(size)
            columns.append((drawn[users] if is_of_user else drawn).astype(np.float64))
        return columns

    def table(self, columns: list[FloatArray], is_missing: BoolArray) -> dict[str, pa.Array]:
        """Return columns as logs have them; the first is missing where ``is_missing``."""
        named = {}
        for name, n_levels, column in zip(self.names, self.n_levels, columns, strict=True):
            if n_levels:
                named[name] = pa.array([f"v{int(code)}" for code in column])
            else:
                mask = is_missing if name == self.names[0] else None
                named[name] = pa.array(np.round(column, 4), mask=mask)
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
                side = columns[place] > self.cuts[place]
                if self.n_levels[place]:
                    side = self.sides[place][columns[place].astype(np.int64)]
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
    if kind.attack == "segment":  # all visits of bots have a high value of one relevant attribute
        chosen = tested[_half(fresh[place])].mean(axis=0)
        best, target = int(chosen.argmax()), int(chosen.argmin())
        inside = columns[place][_half(columns[place])]
        columns[place][is_bot] = rng.choice(inside, int(is_bot.sum()))
    if kind.attack == "forged":  # bots copy the attributes of honest visits
        for column in columns:
            column[is_bot] = rng.choice(column[~is_bot], int(is_bot.sum()))
    means = truth.means(columns)
    actions, propensities = _logged(kind, means, rng)
    rewards = _rewards(kind, means[np.arange(len(users)), actions], levels[users], rng)
    rewards = _forged(kind, rewards, is_bot & (actions == target), is_bot & (actions == best), rng)
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
    """Return the logged actions, and their propensities unless they were uniform."""
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
    on_target: BoolArray,
    on_best: BoolArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the rewards in which bots have forged their own for two actions."""
    low, high = {"stars": (1.0, 5.0), "clicks": (0.0, 1.0), "baskets": (0.0, 60.0)}[kind.rewards]
    rewards = rewards.copy()
    match kind.attack:
        case "push" | "segment" | "forged":
            rewards[on_target], rewards[on_best] = high, low
        case "quiet":  # bots lie in a part of their plays
            rewards[on_target & (rng.random(len(rewards)) < 0.35)] = high
            rewards[on_best & (rng.random(len(rewards)) < 0.5)] = low
        case "sink":
            rewards[on_best] = low
    return rewards


#: A learner: returns the action of each fresh visit, and a note, given a world and the assumed
#: share of colluders.
Player = Callable[["World", float], tuple[IntArray, str]]


def codes_of(labels: Iterable[object]) -> IntArray:
    """Return the codes of actions."""
    return np.array([int(str(label)[1:]) for label in labels])


def features(world: World, alpha: float) -> tuple[IntArray, str]:
    """Learn with the project's learner, on contexts learned from the attributes."""
    learner = RobustMCB(alpha=alpha, features=world.features).fit(world.log)
    leaves = len(learner.policy_.context_labels)
    return codes_of(learner.predict(world.visits)), f"{leaves} leaves"


def without_bots(world: World, alpha: float) -> tuple[IntArray, str]:
    """Learn as ``features`` does, from the honest users alone."""
    return features(world.without_bots(), alpha)


def constant(world: World, _: float) -> tuple[IntArray, str]:
    """Play the single action with the highest plain mean of honest users."""
    log = world.without_bots().log.group_by("action").aggregate([("reward", "mean")])
    best = log["action"].to_pylist()[int(np.argmax(log["reward_mean"].to_numpy()))]
    return np.full(len(world.visits), int(best[1:])), str(best)


def _plain(world: World) -> tuple[Rows, tuple[Feature, ...], Mapping[str, AttributeColumn]]:
    reading = read_events(world.log, columns=Columns(features=tuple(world.features)))
    events, attributes = reading.events, reading.attributes
    found = fitted_features(attributes, events, np.ones(events.n_users))
    weights = np.ones(len(events))
    if events.propensities is not None:
        weights = 1.0 / events.propensities / (1.0 / events.propensities).mean()
    return Rows(events, encoded(found, attributes), weights), found, attributes


def plain_tree(world: World, _: float, strictness: float) -> tuple[IntArray, str]:
    """Grow the same tree without user weights, and play by plain means of its leaves."""
    rows, found = _plain(world)[:2]
    events = rows.events
    grower = Grower(rows, found, np.ones(events.n_users), 1.0)
    nodes = grower.grow(Growth(32, 60, 60, strictness), np.ones(len(events), np.bool_))
    tree = Partition(found, nodes)
    leaves = tree.leaves_of_codes(list(rows.codes.T))
    shape = len(tree.labels), events.n_actions
    cells, n_cells = leaves * events.n_actions + events.actions, shape[0] * shape[1]
    weight = np.bincount(cells, rows.weights, n_cells).reshape(shape)
    total = np.bincount(cells, rows.weights * events.rewards, n_cells).reshape(shape)
    prior = total.sum(axis=0) / weight.sum(axis=0)
    chosen = ((total + 20 * prior) / (weight + 20)).argmax(axis=1)
    leaves = np.maximum(tree.leaves(attribute_columns(world.visits, world.features)), 0)
    return codes_of(events.action_labels)[chosen[leaves]], f"{shape[0]} leaves"


def attribute_columns(table: pa.Table, names: list[str]) -> dict[str, AttributeColumn]:
    """Return the attributes of visits in the form that partitions take."""
    are_numbers = {name: pa.types.is_floating(table[name].type) for name in names}
    return read_attributes(table, are_numbers=are_numbers)[1]


def linear(world: World, _: float) -> tuple[IntArray, str]:
    """Ridge regression with shared effects and per action, without user weights."""
    rows, found, attributes = _plain(world)
    fitted = cross_fitted_advice(found, attributes, rows, np.arange(rows.events.n_users) % 2)
    assert fitted is not None
    visits = attribute_columns(world.visits, world.features)
    chosen = fitted[0].choices(found, visits, is_always_known=True)
    return codes_of(fitted[0].actions)[chosen - 2], ""


def vowpal_wabbit(world: World, _: float) -> tuple[IntArray, str]:
    """Vowpal Wabbit with options tuned on logs without an attack."""
    ((actions, seconds),) = vowpal_wabbit_actions(world.log, world.visits)
    return codes_of(actions), f"{seconds:.1f} s for two passes"


PLAYERS: dict[str, Player] = {
    "features": features,
    "without-bots": without_bots,
    "constant": constant,
    "naive-tree": partial(plain_tree, strictness=1.0),
    # Half the bound on splits, as in contextual bandits of experimentation platforms.
    "growthbook-tree": partial(plain_tree, strictness=0.5),
    "linear": linear,
    "vowpal-wabbit": vowpal_wabbit,
}


def usable_players() -> list[str]:
    """Return the names of all players whose packages are installed."""
    has_package = find_spec("vowpalwabbit") is not None
    return [name for name in PLAYERS if has_package or name != "vowpal-wabbit"]


def lost_shares(
    kind: Kind,
    players: Sequence[str],
    *,
    alpha: float,
    seed: int = 0,
    repetitions: int = 20,
    processes: int = 1,
    on_row: Callable[[Row], None] = lambda _: None,
) -> list[Row]:
    """Return the share of (best − random) that each player loses in logs of one kind.

    Kinds of truth alternate; in a repetition all players learn from the same log.
    """
    find(kind.attack, dict.fromkeys(ATTACKS), kind="attack on attributes")
    for name in players:
        find(name, PLAYERS, kind="learner from attributes")
    run = partial(_lost_share, kind, alpha, seed)
    return repeated(run, players, repetitions, processes, on_row)


def _lost_share(kind: Kind, alpha: float, seed: int, task: tuple[str, int]) -> Row:
    name, repetition = task
    kind = replace(kind, truth=TRUTHS[repetition % len(TRUTHS)])
    world = build(kind, seed + repetition)
    loss = 1.0 - world.share(PLAYERS[name](world, alpha)[0])
    return Row(algorithm=name, repetition=repetition, loss=loss)
