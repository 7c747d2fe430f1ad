"""Measure coverage and widths of a method's intervals.

A setting specifies rewards, tastes, design, sizes and the attack; its true means are drawn once,
its logs many times. Colluders are exactly the stated share. The stated facts about rewards are
true: their range if they have one, otherwise their deviation, or nothing. The stated joint coverage
of all actions of a context is .9; coverage is counted per cell and per context. Widths are medians
over cells: in units of rewards, relative to the minimum for any method if colluders mimic honest
users ("limit": mean of the largest minus that of the smallest share 1 - alpha), and relative to the
sampling interval of an oracle that knows the honest users.

Run ``python benchmarks/interval_coverage.py`` for a table, with ``--json FILE`` to keep the rows,
``--logs 20`` for fewer logs, ``--only WORD`` for the settings whose name contains the word,
``--method`` for another method, ``--random 100 --seed 1`` for random settings instead of those
listed here.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from scipy import special, stats

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.design import RewardBound, design_of_log
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import guard_intervals
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally

STATED = 0.9
CONFIDENCE = 0.999
"""A setting fails if its p-value under the stated coverage is below one in a thousand."""

TASTE = 10.0
"""Good users' rates are Beta(10·p, 10·(1 - p)) for the default ``likeness`` of 10. Other means have
a log-normal factor of deviation .5, or normal differences of deviation .3."""


INTERVALS = "intervals"
"""Stands for the intervals without a method's estimates; those of ``paper`` are the same."""

UNEVEN = 0.8
"""Share of users who get the first action in uneven assignments."""

LARGE = {"buyers": (0.04, 100.0), "wholesale": (0.03, 25.0), "jackpot": (0.002, 1000.0)}
"""Share and size of rare large rewards. Buyers: 0 or 1, but 0 or 100 for 4 % of the users.
Wholesale: baskets around 20, but 25 times as much for 3 % of the users. Jackpot: 0 or 1, but 1,000
in .2 % of the plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All settings of a log except its seed."""

    rewards: str = "bernoulli"
    base: float = 0.5
    n_users: int = 1000
    n_contexts: int = 5
    n_actions: int = 5
    plays: int = 20
    alpha: float = 0.2
    design: str = "sticky"
    attack: str = "none"
    has_tastes: bool = False
    likeness: float = TASTE
    zipf: float = 0.0
    has_heavy_users: bool = False
    fans: float = 0.0
    stated: str = "law"

    @property
    def name(self) -> str:
        """Return the name of the setting."""
        words = [
            f"{self.rewards} {self.base:g}",
            f"{self.n_users}x{self.plays}",
            f"S{self.n_contexts} A{self.n_actions}",
            self.design,
            f"alpha {self.alpha:g}",
            self.attack,
        ]
        words += [f"tastes {self.likeness:g}"] * self.has_tastes + [
            "heavy users"
        ] * self.has_heavy_users
        words += [f"fans {self.fans:g}"] * (self.fans > 0)
        words += ["nothing stated"] * (self.stated == "nothing")
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one setting.

    ``cells`` and ``contexts`` are the covered shares, contexts with all of their cells;
    ``worst_cell`` is the lowest coverage of a cell. Widths are medians over cells and logs,
    including infinite ones; ``no_bound`` is their share, and ``zero_width`` that of intervals of
    width zero. ``limit`` and ``oracle`` are the widths to compare with.
    """

    setting: str
    n_logs: int
    cells: float
    worst_cell: float
    contexts: float
    width: float
    limit: float
    oracle: float
    no_bound: float
    zero_width: float
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the results are consistent with the stated coverage."""
        fewest = stats.binom.ppf(1.0 - CONFIDENCE, self.n_logs, STATED) / self.n_logs
        least = min(self.cells, self.worst_cell, self.contexts)
        return bool(least >= fewest and self.zero_width == 0)


def means_of(setting: Setting) -> FloatArray:
    """Return the good users' mean rewards; shape (n_contexts, n_actions)."""
    rng = generator(0, "coverage", "means", str(setting.n_contexts), str(setting.n_actions))
    spread = rng.uniform(0.6, 1.4, (setting.n_contexts, setting.n_actions))
    return setting.base * spread


def true_means(setting: Setting, means: FloatArray) -> FloatArray:
    """Return the good users' mean rewards, including large rewards and fans."""
    share, size = LARGE.get(setting.rewards, (0.0, 1.0))
    if setting.rewards == "jackpot":
        return np.asarray((1.0 - share) * means + share * size)
    return np.asarray((1.0 - setting.fans) * means * (1.0 + share * (size - 1.0)) + setting.fans)


def bound_of(setting: Setting, means: FloatArray) -> RewardBound:
    """Return the stated bound: the range if there is one, otherwise the largest deviation."""
    if setting.stated == "nothing":
        return RewardBound()
    if setting.rewards in ("bernoulli", "buyers", "jackpot"):
        return RewardBound(low=0.0, high=LARGE.get(setting.rewards, (0.0, 1.0))[1])
    share, size = LARGE.get(setting.rewards, (0.0, 1.0))
    spread = math.exp(0.25) if setting.has_tastes else 1.0  # mean square of the users' factors
    if setting.rewards in ("normal", "student"):
        taste = 0.3**2 * setting.has_tastes
        variance = _deviations(setting, means) ** 2 + taste
    else:
        squares = _deviations(setting, means) ** 2 + means**2
        if setting.rewards == "counts":
            squares = means + means**2 * spread
        else:
            squares = squares * spread * (1.0 + share * (size**2 - 1.0))
        variance = squares - true_means(setting, means) ** 2
    return RewardBound(deviation=float(np.sqrt(variance.max())) * (1.0 + 1e-9))


def draw(setting: Setting, means: FloatArray, seed: int) -> tuple[Tallies, BoolArray]:
    """Simulate one log; return its tallies and a mask of the colluders."""
    rng = generator(seed, "coverage", setting.name)
    L, S, A = setting.n_users, setting.n_contexts, setting.n_actions
    nu = np.arange(1, S + 1, dtype=np.float64) ** -setting.zipf
    lengths = np.full(L, setting.plays)
    if setting.has_heavy_users:
        lengths = np.ceil(setting.plays * rng.lognormal(-0.5, 1.0, L)).astype(np.int64)
    users = np.repeat(np.arange(L), lengths)
    contexts = rng.choice(S, p=nu / nu.sum(), size=len(users))
    is_bad = np.zeros(L, dtype=np.bool_)
    if setting.attack != "none":
        is_bad[rng.permutation(L)[: round(setting.alpha * L)]] = True
    lies = is_bad[users]
    if setting.attack == "flood":
        contexts[lies] = S // 2
    weights = None
    if setting.design == "sticky":
        actions = rng.integers(A, size=(L, S))[users, contexts]
    elif setting.design == "uneven":  # sticky, and most users get the first action
        first = rng.random((L, S)) < UNEVEN
        actions = np.where(first, 0, rng.integers(A, size=(L, S)))[users, contexts]
    elif setting.design == "uniform":
        actions = rng.integers(A, size=len(users))
    else:  # propensities: half uniform, half one favourite for each context
        favourite = rng.integers(A, size=S)[contexts]
        actions = np.where(
            rng.random(len(users)) < 0.5, favourite, rng.integers(A, size=len(users))
        )
        weights = 1.0 / (0.5 / A + 0.5 * (actions == favourite)) / A
    own = means[contexts, actions]
    if setting.has_tastes:
        own = _tasted(setting, rng, users, contexts * A + actions, own)
    if setting.fans:
        own = np.where((rng.random(L) < setting.fans)[users], 1.0, own)
    rewards = _rewards(setting, rng, own)
    if setting.rewards in LARGE:
        share, size = LARGE[setting.rewards]
        if setting.rewards == "jackpot":
            rewards = np.where(rng.random(len(users)) < share, size, rewards)
        else:
            rewards = rewards * np.where((rng.random(L) < share)[users], size, 1.0)
    if lies.any():
        pairs, plays = _pairs_of_cells(users, contexts * A + actions)
        reported = _lies(setting, rng, means, contexts, actions, pairs, plays)
        rewards = np.where(lies, reported, rewards)
    tallies = tally(
        users, contexts, actions, rewards, n_users=L, n_contexts=S, n_actions=A, weights=weights
    )
    return tallies, is_bad


def _tasted(
    setting: Setting, rng: np.random.Generator, users: IntArray, cells: IntArray, own: FloatArray
) -> FloatArray:
    """Return individual means for each user and cell, around the common ones."""
    _, first, inverse = np.unique(
        users * (setting.n_contexts * setting.n_actions) + cells,
        return_index=True,
        return_inverse=True,
    )
    base = own[first]
    if setting.rewards in ("bernoulli", "buyers", "jackpot"):
        drawn = rng.beta(setting.likeness * base, setting.likeness * (1.0 - base))
    elif setting.rewards in ("normal", "student"):
        drawn = base + 0.3 * rng.standard_normal(len(base))
    else:
        drawn = base * rng.lognormal(-0.125, 0.5, len(base))
    return np.asarray(drawn[inverse])


def _rewards(setting: Setting, rng: np.random.Generator, own: FloatArray) -> FloatArray:
    if setting.rewards in ("bernoulli", "buyers", "jackpot"):
        return (rng.random(own.shape) < own).astype(float)
    if setting.rewards == "wholesale":
        return np.asarray(own * rng.lognormal(-0.02, 0.2, own.shape))
    if setting.rewards == "normal":
        return own + rng.standard_normal(own.shape)
    if setting.rewards == "student":
        return own + rng.standard_t(2.5, own.shape)
    if setting.rewards == "counts":
        return rng.poisson(own).astype(float)
    assert setting.rewards == "revenue"  # one in five buys, log-normal baskets
    bought = rng.random(own.shape) < 0.2
    return np.asarray(bought * own / 0.2 * rng.lognormal(-0.5, 1.0, own.shape))


def _deviations(setting: Setting, means: FloatArray) -> FloatArray:
    """Return the deviation of one reward of a good user."""
    if setting.rewards in ("bernoulli", "buyers", "jackpot"):
        return np.asarray(np.sqrt(means * (1.0 - means)))
    if setting.rewards == "wholesale":
        return np.asarray(means * np.sqrt(math.exp(0.04) - 1.0))
    if setting.rewards == "normal":
        return np.ones_like(means)
    if setting.rewards == "student":
        return np.full_like(means, np.sqrt(5.0))
    if setting.rewards == "counts":
        return np.asarray(np.sqrt(means))
    return np.asarray(means * np.sqrt(math.e / 0.2 - 1.0))


def _pairs_of_cells(users: IntArray, cells: IntArray) -> tuple[IntArray, IntArray]:
    """Return the (user, cell) pair of each event, and the number of events of each pair."""
    _, inverse, counts = np.unique(
        users * (cells.max() + 1) + cells, return_inverse=True, return_counts=True
    )
    return np.asarray(inverse), np.asarray(counts[inverse])


def _lies(
    setting: Setting,
    rng: np.random.Generator,
    means: FloatArray,
    contexts: IntArray,
    actions: IntArray,
    pairs: IntArray,
    plays: IntArray,
) -> FloatArray:
    """Return the rewards of colluders: low for the best action, high for others."""
    ranked = np.argsort(-means, axis=1)
    at_best = actions == ranked[contexts, 0]
    at_target = actions == ranked[contexts, 1]
    side = at_target.astype(float) - at_best
    means_here = means[contexts, actions]
    deviations = _deviations(setting, means)[contexts, actions]
    is_binary = setting.rewards in ("bernoulli", "buyers", "jackpot")
    if setting.attack == "mask":
        # All report the common rate, so that honest users with other rates seem to be outliers.
        if not is_binary:
            return means_here
        order = np.argsort(pairs, kind="stable")
        numbers = np.empty(len(pairs), np.int64)
        numbers[order] = np.arange(len(pairs)) - np.searchsorted(pairs[order], pairs[order])
        return (numbers < np.rint(means_here * plays)).astype(float)
    if setting.attack in ("push", "flood"):
        far = means_here + side * 10.0 * deviations
        if is_binary:
            far = (side > 0).astype(float)
        elif setting.rewards in ("counts", "revenue", "wholesale"):
            far = np.maximum(np.rint(far), 0.0)
        return np.where(side != 0, far, _rewards(setting, rng, means_here))
    if setting.attack == "extreme":
        return np.where(side != 0, 1e6 * side, _rewards(setting, rng, means_here))
    if setting.attack == "balance":
        # Members' means are in the lower tail, so that the skewed distribution looks symmetric.
        depths = rng.uniform(1.0, 4.0, int(pairs.max()) + 1)[pairs]
        low = means_here - depths * 0.8 * deviations / np.sqrt(plays)
        return np.where(at_best, low, _rewards(setting, rng, means_here))
    if setting.attack == "trim-edge":
        # Members' means are at the quantile up to which 1.5 times their share is trimmed.
        side = np.where(at_best, -1.0, 1.0)
        alpha, trimmed = setting.alpha, 1.5 * setting.alpha
        edge = special.ndtri(1.0 - (trimmed - alpha) / (1.0 - alpha))
        shift = side * edge * deviations / np.sqrt(plays)
    else:
        assert setting.attack == "hide-in-covariance"
        shift = side * 0.5 * deviations
    if is_binary:
        return _rewards(setting, rng, np.clip(means_here + shift, 0.0, 1.0))
    if setting.rewards == "counts":
        return _rewards(setting, rng, np.maximum(means_here + shift, 0.0))
    return _rewards(setting, rng, means_here) + shift


def measure(
    setting: Setting, *, n_logs: int, method: str = INTERVALS, stated: float | None = None
) -> Row:
    """Learn from many logs of a setting and count covered cells.

    The learner assumes the true share of colluders unless another one is given.
    """
    alpha = setting.alpha if stated is None else stated
    means = means_of(setting)
    truth, rewards = true_means(setting, means), bound_of(setting, means)
    covered, widths, is_met, limits, oracles = [], [], [], [], []
    seconds = 0.0
    for seed in range(n_logs):
        tallies, is_bad = draw(setting, means, seed)
        start = time.perf_counter()
        design = replace(design_of_log(tallies, "auto"), rewards=rewards)
        if method == INTERVALS:
            guard = guard_intervals(tallies, design, alpha=alpha)
            low, high = guard.low, guard.high
        else:
            low, high = METHODS[method](tallies, design, alpha=alpha).interval
        seconds += time.perf_counter() - start
        is_met.append(~np.isnan(low))
        covered.append(((low <= truth) & (truth <= high)) | ~is_met[-1])
        widths.append(high - low)
        limit, oracle = _compared(tallies, is_bad, alpha)
        limits.append(limit)
        oracles.append(oracle)
    known = np.array(is_met)
    return Row(
        setting=setting.name,
        n_logs=n_logs,
        cells=float(np.mean(covered)),
        worst_cell=float(np.mean(covered, axis=0).min()),
        contexts=float(np.all(covered, axis=2).mean()),
        width=float(np.median(np.array(widths)[known])),
        limit=float(np.nanmedian(limits)),
        oracle=float(np.nanmedian(oracles)),
        no_bound=float(np.isinf(np.array(widths)[known]).mean()),
        zero_width=float((np.array(widths)[known] <= 0).mean()),
        seconds=seconds / n_logs,
    )


def _compared(tallies: Tallies, is_bad: BoolArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the minimum width for any method and the oracle's width; (n_contexts, n_actions)."""
    good = ~is_bad[np.repeat(np.arange(tallies.n_users), np.diff(tallies.indptr))]
    values, cells = tallies.sums[good] / tallies.counts[good], tallies.cells[good]
    order = np.lexsort((values, cells))
    parts = np.split(values[order], np.searchsorted(cells[order], np.arange(1, tallies.n_cells)))
    z = special.ndtri(1.0 - (1.0 - STATED) / tallies.n_actions / 2.0)
    limits, oracles = np.full((2, tallies.n_cells), np.nan)
    for cell, part in enumerate(parts):
        if len(part) > 1:
            kept = max(math.floor((1.0 - alpha) * len(part)), 1)
            limits[cell] = part[-kept:].mean() - part[:kept].mean()
            oracles[cell] = 2.0 * z * part.std(ddof=1) / math.sqrt(len(part))
    return limits, oracles


MOST_EVENTS = 100_000
"""Approximate number of events of a random setting."""

MASKED = {"n_contexts": 1, "n_actions": 3, "design": "uniform"}


def settings() -> Iterator[Setting]:
    """Yield the settings: every kind of reward, design, shape, taste and attack."""
    attacks = ("none", "push", "trim-edge", "flood", "hide-in-covariance")
    for base in (0.005, 0.02, 0.1, 0.5):
        for attack in attacks:
            yield Setting(base=base, attack=attack)
        yield Setting(base=base, has_tastes=True)
        yield Setting(base=base, has_tastes=True, attack="push")
        yield Setting(base=base, design="propensities")
    # Users with very large and skewed differences.
    for base in (0.02, 0.1, 0.3):
        for alpha in (0.02, 0.2):
            for attack in ("none", "push", "trim-edge"):
                yield Setting(
                    base=base,
                    n_contexts=1,
                    n_actions=3,
                    n_users=1500,
                    alpha=alpha,
                    attack=attack,
                    has_tastes=True,
                    likeness=2.0,
                )
    # With so many users, small tastes matter more than chance.
    for base, likeness, plays in ((0.1, 40.0, 30), (0.3, 6.0, 12), (0.02, 140.0, 90)):
        for alpha in (0.05, 0.2):
            for attack in ("none", "push"):
                yield Setting(
                    base=base,
                    n_contexts=1,
                    n_actions=3,
                    n_users=6000,
                    plays=plays,
                    alpha=alpha,
                    design="uniform",
                    attack=attack,
                    has_tastes=True,
                    likeness=likeness,
                )
    for rewards, base in (("normal", 0.5), ("student", 0.5), ("counts", 1.0), ("revenue", 1.0)):
        for attack in (*attacks, "extreme"):
            yield Setting(rewards=rewards, base=base, attack=attack)
        # Many plays and users: skewed means without ties.
        yield Setting(
            rewards=rewards, base=base, attack="balance", n_contexts=1, n_users=4000, plays=60
        )
        yield Setting(rewards=rewards, base=base, has_tastes=True, attack="push")
        yield Setting(rewards=rewards, base=base, design="propensities")
        yield Setting(rewards=rewards, base=base, design="uniform", alpha=0.05, attack="push")
    # More contexts than actions; cases in which earlier intervals failed.
    many = {"n_contexts": 40, "n_actions": 5, "plays": 40, "zipf": 1.0}
    for base in (0.05, 0.5):
        for design in ("sticky", "uniform"):
            for attack in ("none", "push", "flood"):
                yield Setting(base=base, design=design, attack=attack, alpha=0.1, **many)  # type: ignore[arg-type]
    yield Setting(rewards="normal", design="uniform", attack="push", alpha=0.1, **many)  # type: ignore[arg-type]
    yield Setting(base=0.02, n_contexts=1, plays=10)
    yield Setting(base=0.5, n_contexts=1, alpha=0.3, attack="trim-edge")
    yield Setting(rewards="normal", n_contexts=1, alpha=0.3, attack="trim-edge")
    yield Setting(base=0.5, n_contexts=5, n_actions=10, plays=40, n_users=2000, attack="push")
    yield Setting(base=0.5, n_contexts=1, n_users=2000, attack="push")
    yield Setting(base=0.1, has_heavy_users=True, attack="push")
    yield Setting(base=0.01, n_users=20_000)
    for attack in ("none", "push", "flood"):
        yield Setting(base=0.3, design="uneven", n_actions=2, zipf=1.5, alpha=0.1, attack=attack)
    # Rare large honest rewards, with and without a stated bound; honest fans among similar users;
    # cells with very many visitors.
    one = {"n_contexts": 1, "n_actions": 3, "n_users": 3000}
    for rewards, base in (("buyers", 0.1), ("wholesale", 20.0), ("jackpot", 0.1)):
        for attack in ("none", "push"):
            for stated in ("law", "nothing"):
                yield Setting(rewards=rewards, base=base, attack=attack, stated=stated, **one)  # type: ignore[arg-type]
    for attack in ("none", "mask", "push"):
        yield Setting(base=0.46, fans=0.01, attack=attack, plays=72, n_users=6000, **MASKED)  # type: ignore[arg-type]
    yield Setting(base=0.3, n_contexts=1, n_actions=2, n_users=60_000, plays=4, attack="push")


def random_settings(n_settings: int, seed: int) -> Iterator[Setting]:
    """Yield random settings from the intended range of the intervals."""
    rng = generator(seed, "coverage", "settings")

    def between(low: float, high: float, digits: int = 2) -> float:
        return float(f"{low * (high / low) ** rng.random():.{digits}g}")

    bases = {"bernoulli": (0.005, 0.5), "normal": (0.5, 0.5), "student": (0.5, 0.5)}
    bases |= {"buyers": (0.01, 0.5), "wholesale": (5.0, 50.0), "jackpot": (0.01, 0.5)}
    laws = ["bernoulli"] * 4 + ["normal", "student", "counts", "revenue", *LARGE]
    attacks = ("none", "push", "trim-edge", "flood", "hide-in-covariance", "mask")
    others = (*attacks, "extreme", "balance")
    for _ in range(n_settings):
        rewards = str(rng.choice(laws))
        has_range = rewards in ("bernoulli", "buyers", "jackpot")
        n_users = int(between(200, 20_000))
        yield Setting(
            rewards=rewards,
            base=between(*bases.get(rewards, (0.2, 3.0))),
            n_users=n_users,
            n_contexts=int(rng.choice([1, 2, 3, 5, 10, 30])),
            n_actions=int(rng.choice([2, 3, 5, 10])),
            plays=min(int(between(4, 80)), max(4, MOST_EVENTS // n_users)),
            alpha=between(0.01, 0.3),
            design=str(rng.choice(["sticky", "sticky", "uniform", "propensities"])),
            attack=str(rng.choice(attacks if has_range else others)),
            has_tastes=bool(rng.random() < 0.5),
            likeness=between(1.5, 40),
            zipf=float(rng.choice([0.0, 1.0])),
            has_heavy_users=bool(rng.random() < 0.5),
            fans=0.01 if rewards == "bernoulli" and rng.random() < 0.3 else 0.0,
        )


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    lines = ["  cells  worst  contx   width  /limit  /oracle  no bound  zero  s/log  setting"]
    lines += [
        f"{' ' if row.holds else '!'} {row.cells:.3f}  {row.worst_cell:.3f}  {row.contexts:.3f}"
        f"  {row.width:6.3f}  {row.width / max(row.limit, 1e-12):6.2f}"
        f"  {row.width / max(row.oracle, 1e-12):7.1f}  {row.no_bound:8.3f}"
        f"  {row.zero_width:.3f}  {row.seconds:.2f}  {row.setting}"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--only", default="", help="only settings whose name contains this")
    parser.add_argument("--method", default=INTERVALS, choices=[INTERVALS, *METHODS])
    parser.add_argument("--random", type=int, help="number of random settings")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random settings")
    parser.add_argument("--json", type=Path, help="file for the rows")
    arguments = parser.parse_args()
    chosen = settings()
    if arguments.random is not None:
        chosen = random_settings(arguments.random, arguments.seed)
    rows = []
    for setting in chosen:
        if arguments.only in setting.name:
            rows.append(measure(setting, n_logs=arguments.logs, method=arguments.method))
            print(table(rows[-1:]).splitlines()[1] if rows[1:] else table(rows), flush=True)
    if arguments.json:
        document = {"method": arguments.method, "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    n_failed = sum(not row.holds for row in rows)
    print(f"{len(rows) - n_failed} of {len(rows)} settings hold.")


if __name__ == "__main__":
    main()
