"""Points of Figures 2 and 3, of the slope with gaps to scale, and of attacks that know it all."""

from __future__ import annotations

import math
from typing import Any

from unswayed.experiments.sweeps import (
    OWN_SHARE,
    Point,
    Sweep,
    suboptimality_in_arena,
    with_own,
    world,
)

PER_VISIT = "paper-per-visit"
"""Robust MCB by Section 3.1: a user's value in a cell is the mean over their visits to it."""

ASSUMED = 0.1
"""The paper's: "we set our algorithm to be run with alpha = 0.1"."""

N_USERS = 2303
"""SA·log(SA)/0.2 at S = A = 10, as in Figure 2, whatever the true share."""

TRUTH_VARIES, BELIEF_VARIES = "assumed 0.1", "true 0.1"

SCALED_GAP = (0.3, 30)
"""The slope is tested at gaps of 0.3·sqrt(30 L/T): the paper's gap at the paper's T/L."""

FREQUENT, RARE = "S = A = 10", "S = 40, A = 5"
KNOWING = ("trim-edge", "hide-in-covariance", "id-grinding")
"""Attacks that know the algorithm: just inside the trimming, within the filter's threshold, and
with names that would fall into one group if the assignment were not keyed."""

LITERAL = "paper-literal"
"""Robust MCB as printed, which differs from ``paper`` beyond as many contexts as actions."""

COMPARED = with_own("paper", "naive-ucb", "independent-ucb", "oracle")


def _along(name: str, values: tuple[float, ...], *, series: str = "", **fixed: Any) -> list[Point]:
    """Return a point for each value of one setting."""
    return [
        Point(x=value, series=series, settings=world(**fixed, **{name: value})) for value in values
    ]


def _sweep(
    name: str, points: list[Point], quick: tuple[int, ...], algorithms: tuple[str, ...] = COMPARED
) -> Sweep:
    return Sweep(
        id=name,
        points=tuple(points),
        quick=tuple(points[number] for number in quick),
        algorithms=algorithms,
        measure=suboptimality_in_arena,
        own_share=OWN_SHARE,
    )


def _knowing(series: str, values: tuple[int, ...], **fixed: Any) -> list[Point]:
    points = _along("interactions", values, series=series, **fixed)
    return [
        Point(x=point.x, series=series, settings=point.settings, attacks=KNOWING)
        for point in points
    ]


SWEEPS = {
    sweep.id: sweep
    for sweep in (
        _sweep(
            "figure-2a",
            _along("contexts", (2, 5, 10, 20, 40)),
            (2, 3),
            (*COMPARED, LITERAL),
        ),
        _sweep("figure-2b", _along("actions", (2, 5, 10, 20, 40)), (2, 3)),
        _sweep(
            "figure-2c",
            _along("interactions", (10, 15, 20, 25, 30, 40, 50, 60, 120)),
            (1, 4),
            with_own("paper", "naive-ucb", "independent-ucb", "oracle", PER_VISIT),
        ),
        _sweep(
            "figure-2d",
            _along(
                "alpha",
                (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
                contexts=2,
                actions=5,
                users=500,
                interactions=500,
            ),
            (2, 4),
            with_own(
                *("paper", "naive-ucb", "independent-ucb"),
                *("liu", "barbar", "active-arm-elimination", "oracle"),
            ),
        ),
        _sweep(
            "figure-3a",
            _along("users", (125, 250, 500, 1000, 2000, 4000, 8000), contexts=20, interactions=50),
            (0, 3, 4),
        ),
        _sweep(
            "figure-3b",
            _along(
                "alpha",
                (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
                series=TRUTH_VARIES,
                assumed_alpha=ASSUMED,
                users=N_USERS,
            )
            + _along(
                "assumed_alpha",
                (0.0, 0.05, 0.1, 0.15, 0.2, 0.3),
                series=BELIEF_VARIES,
                alpha=ASSUMED,
                users=N_USERS,
            ),
            (2, 4, 8, 11),
        ),
        _sweep("figure-3c", _along("perturbation", (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)), (0, 2)),
        _sweep(
            "slope",
            [
                Point(
                    x=interactions,
                    settings=world(
                        interactions=interactions,
                        gap=SCALED_GAP[0] * math.sqrt(SCALED_GAP[1] / interactions),
                    ),
                )
                for interactions in (15, 30, 60, 120, 240)
            ],
            (0, 1),
            with_own("paper", "oracle", PER_VISIT),
        ),
        _sweep(
            "knowing-attack",
            _knowing(FREQUENT, (10, 20, 40, 80))
            + _knowing(RARE, (10, 20, 40), contexts=40, actions=5),
            (1, 4),
        ),
    )
}
