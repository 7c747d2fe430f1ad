"""Measure how often the intervals of a method hold, and how wide they are.

A setting fixes rewards, tastes, design, sizes and the attack; its true means are drawn once, its
logs many times. Colluders are exactly the stated share. Intervals are stated to hold with
probability .9 for all actions of a context at once; coverage is counted per cell and per context.
Widths are medians over cells, in units of a reward and of the gap between the two best actions.

Run ``python benchmarks/interval_coverage.py`` for a table, with ``--json FILE`` to keep the rows,
``--logs 20`` for fewer logs, ``--only WORD`` for the settings whose name has the word, ``--method``
for another method, ``--random 100 --seed 1`` for settings that are drawn at random instead of those
that are listed here.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import special, stats

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.design import design_of_log
from unswayed.learners.methods import METHODS
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally

STATED = 0.9
CONFIDENCE = 0.999
"""A setting fails if so few logs are covered only once in a thousand times at the stated share."""

TASTE = 10.0
"""Rates of good users are Beta(10·p, 10·(1 - p)), unless ``likeness`` is not 10; other means are
spread by a log-normal factor of deviation .5, or by .3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All that makes a log but its seed."""

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

    @property
    def name(self) -> str:
        """Return the setting in words."""
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
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured in one setting.

    ``cells`` and ``contexts`` are the shares covered, the latter with all of their cells;
    ``worst_cell`` is the least covered cell. Widths are medians over cells and logs, infinite ones
    included; ``no_bound`` is their share and ``zero_width`` that of intervals that are points.
    ``gap`` is the median distance of the two best actions.
    """

    setting: str
    n_logs: int
    cells: float
    worst_cell: float
    contexts: float
    width: float
    gap: float
    no_bound: float
    zero_width: float
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the stated share is consistent with what was seen."""
        fewest = stats.binom.ppf(1.0 - CONFIDENCE, self.n_logs, STATED) / self.n_logs
        least = min(self.cells, self.worst_cell, self.contexts)
        return bool(least >= fewest and self.zero_width == 0)


def means_of(setting: Setting) -> FloatArray:
    """Return the good users' mean rewards; shape (n_contexts, n_actions)."""
    rng = generator(0, "coverage", "means", str(setting.n_contexts), str(setting.n_actions))
    spread = rng.uniform(0.6, 1.4, (setting.n_contexts, setting.n_actions))
    return setting.base * spread


def draw(setting: Setting, means: FloatArray, seed: int) -> Tallies:
    """Simulate one log."""
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
    rewards = _rewards(setting, rng, own)
    if lies.any():
        pairs, plays = _pairs_of_cells(users, contexts * A + actions)
        reported = _lies(setting, rng, means, contexts, actions, pairs, plays)
        rewards = np.where(lies, reported, rewards)
    return tally(
        users, contexts, actions, rewards, n_users=L, n_contexts=S, n_actions=A, weights=weights
    )


def _tasted(
    setting: Setting, rng: np.random.Generator, users: IntArray, cells: IntArray, own: FloatArray
) -> FloatArray:
    """Return means of the users' own, one for each user and cell, around the common ones."""
    _, first, inverse = np.unique(
        users * (setting.n_contexts * setting.n_actions) + cells,
        return_index=True,
        return_inverse=True,
    )
    base = own[first]
    if setting.rewards == "bernoulli":
        drawn = rng.beta(setting.likeness * base, setting.likeness * (1.0 - base))
    elif setting.rewards in ("normal", "student"):
        drawn = base + 0.3 * rng.standard_normal(len(base))
    else:
        drawn = base * rng.lognormal(-0.125, 0.5, len(base))
    return np.asarray(drawn[inverse])


def _rewards(setting: Setting, rng: np.random.Generator, own: FloatArray) -> FloatArray:
    if setting.rewards == "bernoulli":
        return (rng.random(own.shape) < own).astype(float)
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
    if setting.rewards == "bernoulli":
        return np.asarray(np.sqrt(means * (1.0 - means)))
    if setting.rewards == "normal":
        return np.ones_like(means)
    if setting.rewards == "student":
        return np.full_like(means, np.sqrt(5.0))
    if setting.rewards == "counts":
        return np.asarray(np.sqrt(means))
    return np.asarray(means * np.sqrt(math.e / 0.2 - 1.0))


def _pairs_of_cells(users: IntArray, cells: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each event a number of its user and cell, and how often that user met it."""
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
    """Return what colluders report: less of the best action, more of the runner-up or others."""
    ranked = np.argsort(-means, axis=1)
    at_best = actions == ranked[contexts, 0]
    at_target = actions == ranked[contexts, 1]
    side = at_target.astype(float) - at_best
    means_here = means[contexts, actions]
    deviations = _deviations(setting, means)[contexts, actions]
    if setting.attack in ("push", "flood"):
        far = means_here + side * 10.0 * deviations
        if setting.rewards == "bernoulli":
            far = (side > 0).astype(float)
        elif setting.rewards in ("counts", "revenue"):
            far = np.maximum(np.rint(far), 0.0)
        return np.where(side != 0, far, _rewards(setting, rng, means_here))
    if setting.attack == "extreme":
        return np.where(side != 0, 1e6 * side, _rewards(setting, rng, means_here))
    if setting.attack == "balance":
        # User means in the lower tail, which make skewed ones look symmetric.
        depths = rng.uniform(1.0, 4.0, int(pairs.max()) + 1)[pairs]
        low = means_here - depths * 0.8 * deviations / np.sqrt(plays)
        return np.where(at_best, low, _rewards(setting, rng, means_here))
    if setting.attack == "trim-edge":
        # User means at the quantile that trimming half as many again at each end keeps.
        side = np.where(at_best, -1.0, 1.0)
        alpha, trimmed = setting.alpha, 1.5 * setting.alpha
        edge = special.ndtri(1.0 - (trimmed - alpha) / (1.0 - alpha))
        shift = side * edge * deviations / np.sqrt(plays)
    else:
        assert setting.attack == "hide-in-covariance"
        shift = side * 0.5 * deviations
    if setting.rewards == "bernoulli":
        return _rewards(setting, rng, np.clip(means_here + shift, 0.0, 1.0))
    if setting.rewards == "counts":
        return _rewards(setting, rng, np.maximum(means_here + shift, 0.0))
    return _rewards(setting, rng, means_here) + shift


def measure(
    setting: Setting, *, n_logs: int, method: str = "paper", stated: float | None = None
) -> Row:
    """Learn from many logs of a setting and count the cells that are covered.

    The learner assumes the true share of colluders, unless another one is stated.
    """
    alpha = setting.alpha if stated is None else stated
    means = means_of(setting)
    learn = METHODS[method]
    covered, widths, is_met = [], [], []
    start = time.perf_counter()
    for seed in range(n_logs):
        tallies = draw(setting, means, seed)
        design = design_of_log(tallies, "auto")
        estimates = learn(tallies, design, alpha=alpha)
        half = estimates.sampling_errors + estimates.bias_bounds
        low, high = getattr(
            estimates, "interval", (estimates.mean_rewards - half, estimates.mean_rewards + half)
        )
        is_met.append(~np.isnan(estimates.mean_rewards))
        covered.append(((low <= means) & (means <= high)) | ~is_met[-1])
        widths.append(high - low)
    seconds = time.perf_counter() - start
    ranked = np.sort(means, axis=1)
    known = np.array(widths)[np.array(is_met)]
    return Row(
        setting=setting.name,
        n_logs=n_logs,
        cells=float(np.mean(covered)),
        worst_cell=float(np.mean(covered, axis=0).min()),
        contexts=float(np.all(covered, axis=2).mean()),
        width=float(np.median(known)),
        gap=float(np.median(ranked[:, -1] - ranked[:, -2])),
        no_bound=float(np.isinf(known).mean()),
        zero_width=float((known <= 0).mean()),
        seconds=seconds / n_logs,
    )


def settings() -> Iterator[Setting]:
    """Yield the settings: every kind of reward, design, shape, taste and attack."""
    attacks = ("none", "push", "trim-edge", "flood", "hide-in-covariance")
    for base in (0.005, 0.02, 0.1, 0.5):
        for attack in attacks:
            yield Setting(base=base, attack=attack)
        yield Setting(base=base, has_tastes=True)
        yield Setting(base=base, has_tastes=True, attack="push")
        yield Setting(base=base, design="propensities")
    # Users who differ very much, and to one side.
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
    # So many users that tastes which hardly show cost more than chance.
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
    # More contexts than actions; what the independent check of the old intervals had found.
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


def random_settings(n_settings: int, seed: int) -> Iterator[Setting]:
    """Yield settings drawn at random from everything that the intervals are meant for."""
    rng = generator(seed, "coverage", "settings")

    def between(low: float, high: float, digits: int = 2) -> float:
        return float(f"{low * (high / low) ** rng.random():.{digits}g}")

    bases = {"bernoulli": (0.005, 0.5), "normal": (0.5, 0.5), "student": (0.5, 0.5)}
    attacks = ("none", "push", "trim-edge", "flood", "hide-in-covariance")
    others = (*attacks, "extreme", "balance")
    for _ in range(n_settings):
        # Half of them binary, where most is assumed.
        rewards = str(rng.choice(["bernoulli"] * 4 + ["normal", "student", "counts", "revenue"]))
        yield Setting(
            rewards=rewards,
            base=between(*bases.get(rewards, (0.2, 3.0))),
            n_users=int(between(200, 20_000)),
            n_contexts=int(rng.choice([1, 2, 3, 5, 10, 30])),
            n_actions=int(rng.choice([2, 3, 5, 10])),
            plays=int(between(4, 80)),
            alpha=between(0.01, 0.3),
            design=str(rng.choice(["sticky", "sticky", "uniform", "propensities"])),
            attack=str(rng.choice(attacks if rewards == "bernoulli" else others)),
            has_tastes=bool(rng.random() < 0.5),
            likeness=between(1.5, 40),
            zipf=float(rng.choice([0.0, 1.0])),
            has_heavy_users=bool(rng.random() < 0.5),
        )


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    lines = ["  cells  worst  contx   width   /gap  no bound  zero  s/log  setting"]
    lines += [
        f"{' ' if row.holds else '!'} {row.cells:.3f}  {row.worst_cell:.3f}  {row.contexts:.3f}"
        f"  {row.width:6.3f}  {row.width / row.gap:5.1f}   {row.no_bound:.3f}"
        f"  {row.zero_width:.3f}  {row.seconds:.2f}  {row.setting}"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--only", default="", help="settings whose name has this")
    parser.add_argument("--method", default="paper", choices=list(METHODS))
    parser.add_argument("--random", type=int, help="so many settings drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the random settings")
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
