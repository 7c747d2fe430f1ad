"""Who pays for exploration: regret of each good user when it is spread, and when a share explores.

    python benchmarks/explorers.py --out docs/images

Draws the distribution over good users and writes its quantiles beside it.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib as mpl
import numpy as np

from unswayed.arrays import FloatArray
from unswayed.reports.style import GREY, STYLE, look_of, new_figure, save
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import run_regret
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings

ALGORITHMS = ("epochs", "epochs-share", "naive-ucb")
QUANTILES = np.linspace(0.0, 1.0, 101)
MOST = 3.0
"""What is asked: nobody above three times the median."""


def regrets(algorithm: str) -> FloatArray:
    """Return the regret of each good user without an attack."""
    settings = Settings(
        contexts=10,
        actions=10,
        users=2000,
        interactions=500,
        alpha=0.1,
        attack="honest",
        algorithms=(algorithm,),
    )
    return run_regret(
        settings.instance(0),
        make_attack("honest"),
        find_algorithm(algorithm).make,
        settings.crowd(),
        algorithm=algorithm,
        seed=0,
        path=(0,),
    ).by_user


def main() -> None:
    """Run, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path())
    folder = parser.parse_args().out
    found = {algorithm: regrets(algorithm) for algorithm in ALGORITHMS}
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=7.4, height=4.2)
        for algorithm, by_user in found.items():
            look = look_of(algorithm)
            ax.plot(
                100 * QUANTILES,
                np.quantile(by_user, QUANTILES),
                color=look.colour,
                linestyle=look.dashes,
                linewidth=2,
                label=look.label,
            )
        limit = MOST * float(np.median(found["epochs"]))
        ax.axhline(limit, color=GREY, linewidth=1, linestyle=":")
        ax.annotate(
            "three times the median of epochs",
            (0, limit),
            xytext=(0, 3),
            textcoords="offset points",
            color=GREY,
            fontsize=9,
        )
        ax.set(xlabel="share of good users, %", ylabel="regret in 500 interactions, at most")
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.9))
        figure.suptitle(
            "Who pays for exploration", x=0.01, horizontalalignment="left", fontweight="bold"
        )
    save(figure, folder, "epochs-spread")
    with (folder / "epochs-spread.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["quantile", *found])
        for share in QUANTILES:
            rows.writerow(
                [f"{share:.2f}", *(f"{np.quantile(x, share):.4f}" for x in found.values())]
            )
    for algorithm, by_user in found.items():
        print(
            f"{algorithm}: mean {by_user.mean():.2f}, median {np.median(by_user):.2f}, "
            f"95% {np.quantile(by_user, 0.95):.2f}, worst {by_user.max():.2f}"
        )


if __name__ == "__main__":
    main()
