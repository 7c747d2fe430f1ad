"""Measure how far learners are from the limit of all methods, as a ratio of gaps.

There are two sticky arms and 3,000 users with 20 plays in each context. The *limit* is the largest
gap at which a coalition of the given share can make the world look like the one with exchanged
arms to every method (``unswayed.limits``). The largest gap at which the worst of twelve attacks
makes half of a learner's decisions wrong is divided by it. The ratio of a perfect method is 1.

Run ``python benchmarks/distance.py`` for a table, with ``--worlds clicks`` for some of the worlds,
``--runs 4`` for fewer runs, ``--json FILE`` to keep the rows and ``--figure NAME`` to draw them;
``--from FILE`` reads rows instead of measuring.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy import optimize, stats

from unswayed.arrays import BoolArray, FloatArray
from unswayed.limits import normal_total_variation, two_sided_adversaries
from unswayed.randomness import generator
from unswayed.reports.style import STYLE, label_ends, look_of, new_figure, save
from worlds import World

N_USERS, PLAYS = 3000, 20
ALPHAS = (0.05, 0.1, 0.2, 0.3)
LEARNERS = ("naive-mean", "paper", "bounded", "oracle")
RATIOS = (4.0, 3.4, 2.8, 2.3, 2.0, 1.7, 1.5, 1.3, 1.15, 1.0, 0.85, 0.7)
"""Ratios to try, in descending order: the first at which an attack succeeds is reported."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of world: contexts, the rate between both arms, and the similarity of tastes."""

    n_contexts: int
    base: float
    likeness: float = np.inf

    def law(self, rate: float) -> FloatArray:
        """Return the probabilities of a good user's successes in one context."""
        counts = np.arange(PLAYS + 1)
        if np.isinf(self.likeness):
            return np.asarray(stats.binom.pmf(counts, PLAYS, rate))
        a, b = self.likeness * rate, self.likeness * (1.0 - rate)
        return np.asarray(stats.betabinom.pmf(counts, PLAYS, a, b))


KINDS = {
    "one context": Kind(1, 0.5),
    "ten contexts": Kind(10, 0.5),
    "clicks": Kind(1, 0.02),
    "tastes": Kind(1, 0.5, 10.0),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The largest ratio at which an attack succeeded, and which attack; 0 if none did."""

    world: str
    alpha: float
    learner: str
    limit: float
    ratio: float
    attack: str


def limit(kind: Kind, alpha: float) -> float:
    """Return the largest gap at which an exchange of the arms can be hidden.

    A share alpha can hide it if the total variation between a user's successes in both worlds is at
    most alpha/(1 - alpha). Several contexts are combined by a normal approximation, in which
    squared separations add up.
    """

    def distance(gap: float) -> float:
        up, down = (kind.law(kind.base + side * gap / 2.0) for side in (1.0, -1.0))
        one = 0.5 * float(np.abs(up - down).sum())
        separation = 2.0 * float(stats.norm.ppf((1.0 + min(one, 1.0 - 1e-12)) / 2.0))
        return float(normal_total_variation(separation * np.sqrt(kind.n_contexts)))

    most = 2.0 * min(kind.base, 1.0 - kind.base) * 0.999
    visible = alpha / (1.0 - alpha)
    if distance(most) <= visible:
        return most
    return float(optimize.brentq(lambda gap: distance(gap) - visible, 1e-9, most))


SHIFTS, CONSTANTS = (0.5, 1.0, 1.5, 2.0, 3.0), (1.0, 1.5, 2.5)
"""Sizes of attacks in standard deviations of a user's mean: colluders draw rewards with a shifted
rate, or all report the same number of successes."""

ATTACKS = (
    *("nuke", "push", "half-hearted", "hide"),
    *(f"shift {size:g}" for size in SHIFTS),
    *(f"all at {size:g}" for size in CONSTANTS),
)


def reported(
    attack: str, kind: Kind, gap: float, alpha: float, rng: np.random.Generator, is_best: BoolArray
) -> FloatArray:
    """Return the successes that colluders report; shape (n_colluders, n_contexts)."""
    side = np.where(is_best, -1.0, 1.0)
    rates = kind.base - side * gap / 2.0
    loud = np.where(is_best, 0.0, float(PLAYS))
    deviations = np.sqrt(rates * (1.0 - rates) / PLAYS)
    word, _, size = attack.rpartition(" ")
    if attack == "nuke":
        return loud
    if attack == "push":
        return np.where(is_best, rng.binomial(PLAYS, rates), loud)
    if attack == "half-hearted":
        return np.asarray(rng.binomial(PLAYS // 2, rates) + loud / 2.0)
    if attack == "hide":  # attains the limit if all users have the same rate
        pair = two_sided_adversaries(gap, PLAYS, alpha, base=kind.base - gap / 2.0)
        down, up = (
            coalition.counts.draw(is_best.size, rng).reshape(is_best.shape)
            for coalition in (pair.better, pair.ordinary)
        )
        return np.where(is_best, down, up).astype(np.float64)
    moved = np.clip(rates + side * float(size) * deviations, 0.0, 1.0)
    if word == "shift":
        return rng.binomial(PLAYS, moved).astype(np.float64)
    return np.asarray(np.rint(PLAYS * moved))


def attacked(kind: Kind, gap: float, alpha: float, attack: str, seed: int) -> World:
    """Return a log in which users keep one arm per context and a share alpha colludes."""
    rng = generator(seed, "distance", attack)
    shape = (N_USERS, kind.n_contexts)
    best = rng.integers(2, size=kind.n_contexts)
    arms = rng.integers(2, size=shape)
    is_best = arms == best
    rates = kind.base + np.where(is_best, 0.5, -0.5) * gap
    if np.isfinite(kind.likeness):
        rates = rng.beta(kind.likeness * rates, kind.likeness * (1.0 - rates))
    ones = rng.binomial(PLAYS, rates).astype(float)
    n_bad = round(alpha * N_USERS)
    ones[:n_bad] = reported(attack, kind, gap, alpha, rng, is_best[:n_bad])
    users, contexts, plays = (axis.ravel() for axis in np.indices((*shape, PLAYS)))
    means = np.full((kind.n_contexts, 2), kind.base - gap / 2.0)
    means[np.arange(kind.n_contexts), best] += gap
    return World(
        users=users,
        contexts=contexts,
        actions=arms[users, contexts],
        rewards=(plays < ones[users, contexts]).astype(float),
        alpha=alpha,
        true_means=means,
        context_probabilities=np.full(kind.n_contexts, 1.0 / kind.n_contexts),
        is_bad=np.arange(N_USERS) < n_bad,
    )


def wrong_share(world: World, learner: str) -> float:
    """Return the share of contexts that a learner decides wrongly."""
    if learner == "naive-mean":
        chosen = world.naive()
    elif learner == "oracle":
        chosen = world.oracle()
    else:
        chosen = world.decided(world.learn(learner))
    return float((chosen != world.optimal()).mean())


def turned(kind: Kind, gap: float, alpha: float, attack: str, learner: str, n_runs: int) -> bool:
    """Return whether half of the decisions are wrong; stop as soon as the result is certain."""
    wrong = 0.0
    for run in range(n_runs):
        wrong += wrong_share(attacked(kind, gap, alpha, attack, run), learner)
        if wrong + (n_runs - 1 - run) < n_runs / 2.0:
            return False
    return wrong >= n_runs / 2.0


def measure(name: str, alpha: float, learner: str, n_runs: int) -> Row:
    """Return the ratio of a learner to the limit in one world."""
    kind = KINDS[name]
    smallest = limit(kind, alpha)
    widest = 2.0 * min(kind.base, 1.0 - kind.base)
    for ratio in RATIOS:
        if ratio * smallest < widest:
            for attack in ATTACKS:
                if turned(kind, ratio * smallest, alpha, attack, learner, n_runs):
                    return Row(name, alpha, learner, smallest, ratio, attack)
    return Row(name, alpha, learner, smallest, 0.0, "none")


def draw(rows: list[Row]) -> Figure:
    """Plot ratios against alpha, with one panel for each world."""
    names = list(dict.fromkeys(row.world for row in rows))
    n_rows = 2 if len(names) == 4 else 1
    columns = len(names) // n_rows
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(
            width=4.4 * columns + 1.0, height=3.6 * n_rows + 0.6, panels=len(names), rows=n_rows
        )
        for number, (ax, name) in enumerate(zip(axes, names, strict=True)):
            ends = []
            for learner in LEARNERS:
                ours = [row for row in rows if (row.world, row.learner) == (name, learner)]
                if not ours:
                    continue
                look, ratios = look_of(learner), [row.ratio for row in ours]
                ax.plot([row.alpha for row in ours], ratios, color=look.colour, marker=look.marker)
                ends.append((ratios[-1], look.label, look.colour))
            ax.axhline(1.0, color="black", linewidth=1, linestyle=":")
            ax.set_title(name, loc="left", fontsize=11)
            ax.set_ylim(0.0, RATIOS[0] + 0.2)
            if number >= len(names) - columns:
                ax.set_xlabel("share of colluders")
            if number % columns == 0:
                ax.set_ylabel("gap that is turned, over the limit")
            label_ends(ax, ends)
    return figure


def main() -> None:
    """Parse the command line, measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=LEARNERS)
    parser.add_argument("--alphas", nargs="+", type=float, default=list(ALPHAS))
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument(
        "--from", dest="known", type=Path, nargs="+", help="read rows from such files"
    )
    parser.add_argument("--figure", type=Path, help="draw NAME.svg and NAME.png")
    arguments = parser.parse_args()
    rows = []
    if arguments.known:
        rows = [
            Row(**row)
            for path in arguments.known
            for row in json.loads(path.read_text(encoding="utf-8"))
        ]
    else:
        for name in arguments.worlds:
            for learner in arguments.learners:
                for alpha in arguments.alphas:
                    rows.append(measure(name, alpha, learner, arguments.runs))
                    row = rows[-1]
                    print(
                        f"{name:<13} {learner:<11} alpha {alpha:<5g} limit {row.limit:.4f}"
                        f"  {row.ratio:.2f}  {row.attack}",
                        flush=True,
                    )
    if arguments.json:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    if arguments.figure:
        save(draw(rows), arguments.figure.parent, arguments.figure.name)


if __name__ == "__main__":
    main()
