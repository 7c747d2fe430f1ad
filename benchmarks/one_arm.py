"""Compute the largest bias that a share of colluders can cause for one arm in one context.

Good users' means are the quantiles of a normal distribution with deviation one, so there is no
sampling error; all colluders report the same number, the most harmful one. The result is the bias
of each estimator as a function of alpha, and its log-log slope: 1 means proportional to alpha, one
half is the rate that the paper proves.

A decision between two arms is subject to twice the bias: the best one is lowered and the runner-up
raised. The last rows are the largest gaps that such a coalition reverses, by bisection; groups have
20,000 users.

Run ``python benchmarks/one_arm.py``, with ``--json FILE`` to keep the rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray
from unswayed.estimators import trim_count, trimmed_mean

Estimator = Callable[[FloatArray, float], float]

ALPHAS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
N_POINTS = 100_000
PLACES = np.concatenate([np.linspace(0.02, 6.0, 300), [1e6]])
GROUP = 20_000
FAILURE = 0.01
"""Probability that a group has more colluders than are trimmed: .1 divided by ten cells."""


@dataclass(frozen=True, slots=True)
class Row:
    """Largest bias of one estimator at one share, in deviations of a good user's mean."""

    estimator: str
    alpha: float
    bias: float
    place: float


def median(points: FloatArray, alpha: float) -> float:  # noqa: ARG001 - one signature for all
    """Return the median."""
    return float(np.median(points))


def trimming(points: FloatArray, alpha: float) -> float:
    """Return the mean after trimming one and a half times the share at each end."""
    return trimmed_mean(points, alpha=alpha, n_trimmed=int(1.5 * alpha * points.size)).estimate


def paper(points: FloatArray, alpha: float) -> float:
    """Return the mean after trimming as many points at each end as may collude, as in "paper"."""
    return trimmed_mean(points, alpha=alpha, failure_probability=FAILURE).estimate


def root(points: FloatArray, alpha: float) -> float:
    """Return the mean of points clipped at 1/sqrt(alpha), as for bounded variance alone."""
    middle = float(np.median(points))
    reach = 1.0 / np.sqrt(alpha)
    return float(np.clip(points, middle - reach, middle + reach).mean())


ESTIMATORS: dict[str, Estimator] = {
    "median": median,
    "trimming at 1.5 alpha": trimming,
    "trimming as the learner does": paper,
    "clipping at 1/sqrt(alpha)": root,
}


def contaminated(n_points: int, alpha: float, place: float) -> FloatArray:
    """Return normal quantiles, with a share of the points replaced by one value."""
    n_bad = round(alpha * n_points)
    n_good = n_points - n_bad
    good = special.ndtri((np.arange(n_good) + 0.5) / n_good)
    return np.concatenate([good, np.full(n_bad, place)])


def worst(estimator: Estimator, alpha: float, n_points: int = N_POINTS) -> tuple[float, float]:
    """Return the largest bias over the values of colluders, and that value."""
    biases = [estimator(contaminated(n_points, alpha, x), alpha) for x in PLACES]
    at = int(np.argmax(biases))
    return float(biases[at]), float(PLACES[at])


def slope(alphas: FloatArray, biases: FloatArray) -> float:
    """Return the slope of log bias over log alpha."""
    return float(np.polyfit(np.log(alphas), np.log(biases), 1)[0])


def largest_turned_gap(estimator: Estimator, alpha: float) -> float:
    """Return the largest gap between two arms that the coalition reverses."""
    _, place = worst(estimator, alpha, GROUP)
    moved = contaminated(GROUP, alpha, place)
    low, high = 0.0, 4.0
    for _ in range(30):
        gap = (low + high) / 2.0
        is_turned = estimator(moved, alpha) > estimator(gap - moved, alpha)
        low, high = (gap, high) if is_turned else (low, gap)
    return low


def measure() -> list[Row]:
    """Return the worst bias of every estimator at every share."""
    return [
        Row(name, alpha, *worst(estimator, alpha))
        for name, estimator in ESTIMATORS.items()
        for alpha in ALPHAS
    ]


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the rows")
    arguments = parser.parse_args()
    rows = measure()
    print("worst bias in deviations    " + "".join(f"{a:>9g}" for a in ALPHAS) + "    slope")
    for name in ESTIMATORS:
        biases = np.array([row.bias for row in rows if row.estimator == name])
        shown = "".join(f"{bias:9.4f}" for bias in biases)
        print(f"{name:<28}{shown}{slope(np.array(ALPHAS), biases):9.2f}")
    for name, estimator in (("median", median), ("as the learner does", paper)):
        gaps = np.array([largest_turned_gap(estimator, alpha) for alpha in ALPHAS])
        shown = "".join(f"{gap:9.4f}" for gap in gaps)
        print(f"{'gap turned, ' + name:<31}{shown[3:]}{slope(np.array(ALPHAS), gaps):9.2f}")
    n_cut = trim_count(GROUP, alpha=0.16, failure_probability=FAILURE)
    print(f"Groups of {GROUP:,}; at alpha .16 the learner trims {n_cut / GROUP:.3f} at each end.")
    if arguments.json:
        document = {"rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
