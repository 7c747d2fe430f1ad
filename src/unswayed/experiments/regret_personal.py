"""Regret when good users differ: the common policy, one's own, or both.

The size of tastes grows from 0 to twice the gap; S = A = 4, 200 users with 500 interactions
each, 10% colluders.
"""

from __future__ import annotations

from unswayed.arrays import FloatArray
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import Point, Sweep, regret_in_arena, world
from unswayed.simulation.settings import PAPER_GAP

TASTES = tuple(share * PAPER_GAP for share in (0.0, 1.0, 2.0))
OURS, COMMON, ALONE = "epochs-personal", "epochs", "independent-ucb"

_POINTS = tuple(
    Point(
        x=taste,
        settings=world(
            contexts=4, actions=4, users=200, interactions=500, alpha=0.1, perturbation=taste
        ),
        attacks=("push",),
    )
    for taste in TASTES
)

SWEEPS = {
    "regret-personal": Sweep(
        id="regret-personal",
        points=_POINTS,
        quick=_POINTS,
        algorithms=(OURS, COMMON, ALONE),
        measure=regret_in_arena,
    )
}


X_LABEL = "size of tastes eps_0"
Y_LABEL = "regret of a good user, mean"
MOST_PAID = 1.25
"""Ours: what learning tastes may cost where there are none, as a factor."""


def _paid_without_tastes(results: Results) -> dict[str, FloatArray]:
    ours, common = results.curve(OURS), results.curve(COMMON)
    none = float(ours.xs[0])
    return {
        f"1.25 epochs minus ours at eps_0={none:g}": MOST_PAID * common.at(none) - ours.at(none)
    }


def _gained_at_the_largest(results: Results) -> dict[str, FloatArray]:
    ours = results.curve(OURS)
    largest = float(ours.xs[-1])
    return {
        f"half of {name} minus ours at eps_0={largest:g}": results.curve(name).at(largest) / 2.0
        - ours.at(largest)
        for name in (COMMON, ALONE)
    }


def _gained_over_users_alone(results: Results) -> dict[str, FloatArray]:
    ours, alone = results.curve(OURS), results.curve(ALONE)
    return {f"alone minus ours at eps_0={x:g}": alone.at(x) - ours.at(x) for x in ours.xs}


ANALYSES = {
    "regret-personal": Analysis(
        title="Tastes: regret of good users who differ by up to eps_0",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=(
            Panel(
                title="S = A = 4, 500 interactions per user, 10% colluders who push",
                x_label=X_LABEL,
                y_label=Y_LABEL,
                marks=((PAPER_GAP, "the gap"),),
            ),
        ),
        judges=(
            compared(
                "without-tastes-little-is-paid",
                "Where users do not differ, learning tastes costs at most a quarter more.",
                _paid_without_tastes,
            ),
            compared(
                "large-tastes-are-learned",
                "At twice the gap ours loses less than half of the common policy, and of users "
                "alone.",
                _gained_at_the_largest,
            ),
            compared(
                "better-than-users-alone",
                "Whatever the size of tastes, ours loses less than users who learn alone.",
                _gained_over_users_alone,
            ),
        ),
    )
}
