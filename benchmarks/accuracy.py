"""Compare learners by their losses under attack, over many worlds and seeds.

Run ``python benchmarks/accuracy.py`` for tables, with ``--json`` for one JSON document, ``--quick``
for a fixed random third of each family (but all hard worlds). ``--alpha-factor 0.5,1,2,auto`` lets
learners assume half, all or twice the true share, or an estimate from the data. ``--figure NAME``
draws the losses to ``NAME.svg`` and ``NAME.png``. Only ``--part holdout`` was not used to choose
constants. The families real and uneven replay ratings from packages that must be installed first.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from unswayed.learners.methods import METHODS
from unswayed.learners.unknown_fraction import estimate_fraction
from unswayed.randomness import generator
from unswayed.reports.style import STYLE, look_of, new_figure, save
from worlds import PARTS, Spec, World, build, specs
from worlds.replays import HOW_TO_INSTALL, is_installed

QUICK_DIVISOR = 3
LEAST_PER_FAMILY = 3
LARGEST_STATED_SHARE = 0.49
WORSE_THAN_NAIVE = 0.005
REPLAYED = ("real", "uneven")
Factor = float | Literal["auto"]


@dataclass(frozen=True, slots=True)
class Row:
    """Result of one learner in one world; ``stated`` is the factor on the true share, or auto."""

    family: str
    world: str
    seed: int
    learner: str
    alpha_factor: Factor
    stated: float
    truth: float
    suboptimality: float
    naive: float
    oracle: float
    seconds: float


def measure(spec: Spec, seed: int, learners: list[str], factors: list[Factor]) -> list[Row]:
    """Return the results of all learners in one world, for each factor on the stated share."""
    world = build(spec, seed)
    naive, oracle = world.suboptimality(world.naive()), world.suboptimality(world.oracle())
    rows = []
    for name in learners:
        for factor in factors:
            start = time.perf_counter()
            alpha = _stated(world, factor)
            loss = world.suboptimality(world.decided(world.learn(name, alpha)))
            seconds = time.perf_counter() - start
            rows.append(
                Row(
                    family=spec.family,
                    world=spec.name,
                    seed=seed,
                    learner=name,
                    alpha_factor=factor,
                    stated=alpha,
                    truth=float(world.is_bad.mean()),
                    suboptimality=loss,
                    naive=naive,
                    oracle=oracle,
                    seconds=seconds,
                )
            )
    return rows


def _stated(world: World, factor: Factor) -> float:
    if factor == "auto":
        return estimate_fraction(world.tallies).chosen
    return min(factor * world.alpha, LARGEST_STATED_SHARE)


def _factor(text: str) -> Factor:
    return "auto" if text == "auto" else float(text)


def random_third(chosen: list[Spec]) -> list[Spec]:
    """Return a third of each family, at least three worlds, drawn by a fixed seed, in order.

    It is random because designs and shares alternate in the list: every third world has the same
    design.
    """
    kept: list[Spec] = []
    for family in dict.fromkeys(spec.family for spec in chosen):
        ours = [spec for spec in chosen if spec.family == family]
        size = max(LEAST_PER_FAMILY, round(len(ours) / QUICK_DIVISOR))
        drawn = generator(0, "quick", family).permutation(len(ours))[:size]
        kept += [ours[i] for i in sorted(drawn)]
    return kept


def summary(rows: list[Row]) -> list[dict[str, object]]:
    """Return the means and worst cases by family, learner and factor on the stated share."""
    summary: list[dict[str, object]] = []
    for family in dict.fromkeys(row.family for row in rows):
        ours = [row for row in rows if row.family == family]
        for learner, factor in dict.fromkeys((row.learner, row.alpha_factor) for row in ours):
            some = [r for r in ours if (r.learner, r.alpha_factor) == (learner, factor)]
            losses = np.array([row.suboptimality for row in some])
            naive = np.array([row.naive for row in some])
            summary.append(
                {
                    "family": family,
                    "learner": learner,
                    "alpha factor": factor,
                    "worlds": len(some),
                    "mean": float(losses.mean()),
                    "naive": float(naive.mean()),
                    "oracle": float(np.mean([row.oracle for row in some])),
                    "stderr": float(losses.std(ddof=1) / np.sqrt(len(some)))
                    if len(some) > 1
                    else None,
                    "covered": sum(row.stated >= row.truth for row in some),
                    "worst": float(losses.max()),
                    "worst world": some[int(losses.argmax())].world,
                    "worse than naive": int((losses > naive + WORSE_THAN_NAIVE).sum()),
                    "seconds": float(np.mean([row.seconds for row in some])),
                }
            )
    return summary


def draw(rows: list[Row]) -> Figure:
    """Plot the losses by family and learner: every world, the mean, and the worst one circled.

    The scale is linear below a thousandth and logarithmic above.
    """
    first = rows[0].alpha_factor
    rows = [row for row in rows if row.alpha_factor == first]
    families = list(dict.fromkeys(row.family for row in rows))
    names = list(dict.fromkeys(row.learner for row in rows))
    columns = ["naive-mean", *names, "oracle"]
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=2.0 + 1.7 * len(families), height=4.6)
        for number, name in enumerate(columns):
            look = look_of(name)
            for place, family in enumerate(families):
                ours = [row for row in rows if row.family == family]
                if name in names:
                    losses = [row.suboptimality for row in ours if row.learner == name]
                else:
                    losses = [
                        row.oracle if name == "oracle" else row.naive
                        for row in ours
                        if row.learner == names[0]
                    ]
                at = place + 0.8 * ((number + 0.5) / len(columns) - 0.5)
                aside = at + 0.1 * (np.linspace(-0.5, 0.5, len(losses)) if len(losses) > 1 else 0)
                ax.scatter(aside, losses, s=6, color=look.colour, alpha=0.35, linewidths=0)
                ax.scatter(
                    at,
                    np.mean(losses),
                    s=70,
                    marker=look.marker,
                    color=look.colour,
                    label=None if place else look.label,
                )
                ax.scatter(at, max(losses), s=60, facecolors="none", edgecolors=look.colour)
        ax.set_yscale("symlog", linthresh=1e-3)
        ax.set_ylim(bottom=-1e-4)
        ax.set_xticks(range(len(families)), families)
        ax.set_ylabel("suboptimality for good users")
        ax.set_title("mean, worlds, and the worst in a ring", loc="left", fontsize=11)
        figure.legend(loc="outside lower center", ncols=len(columns), frameon=False, fontsize=10)
    return figure


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use a random third of each family")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", choices=PARTS, default="holdout")
    parser.add_argument("--family", choices=("loud", "hard", "hidden", "rated", *REPLAYED))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--learners", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument(
        "--alpha-factor",
        type=lambda text: [_factor(part) for part in text.split(",")],
        default=[1.0],
        help="factors on the stated share, or auto, separated by commas",
    )
    parser.add_argument("--figure", type=Path, help="plot to NAME.svg and NAME.png")
    arguments = parser.parse_args()
    chosen = [s for s in specs(arguments.part) if arguments.family in (None, s.family)]
    if not is_installed():
        if arguments.family in REPLAYED:
            parser.error(HOW_TO_INSTALL)
        print(f"Replays are left out. {HOW_TO_INSTALL}", file=sys.stderr)
        chosen = [s for s in chosen if s.family not in REPLAYED]
    if arguments.quick:
        chosen = random_third(chosen)
    rows: list[Row] = []
    for spec in chosen:
        for seed in arguments.seeds:
            new = measure(spec, seed, arguments.learners, arguments.alpha_factor)
            rows += new
            if not arguments.json:
                for row in new:
                    print(
                        f"{row.world:<64} {row.learner:<9} x{row.alpha_factor} "
                        f"{row.suboptimality:.4f} "
                        f"naive {row.naive:.4f} oracle {row.oracle:.4f} {row.seconds:5.1f} s",
                        flush=True,
                    )
    if arguments.figure:
        save(draw(rows), arguments.figure.parent, arguments.figure.name)
    if arguments.json:
        document = {"summary": summary(rows), "rows": [asdict(row) for row in rows]}
        print(json.dumps(document, indent=1))
        return
    for line in summary(rows):
        print(
            "  ".join(
                f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in line.items()
            )
        )


if __name__ == "__main__":
    main()
