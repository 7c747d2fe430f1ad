"""Regret where the world changes: what forgetting gains, and what it costs elsewhere.

Worlds that stay or turn over halfway, with and without colluders, and worlds that turn little by
little; S = A = 4, 200 users with 500 interactions each.
"""

from __future__ import annotations

from unswayed.arrays import FloatArray
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import Point, Sweep, regret_in_arena, world
from unswayed.simulation.instances import Drift

INTERACTIONS, USERS, SIZE = 500, 200, 4
ALPHAS = (0.0, 0.1)
OURS, KEEPING, POOLED = "epochs-forget", "epochs", "naive-ucb"


_POINTS = tuple(
    Point(
        x=alpha,
        series=drift.value,
        settings=world(
            contexts=SIZE,
            actions=SIZE,
            users=USERS,
            interactions=INTERACTIONS,
            alpha=alpha,
            drift=drift.value,
        ),
        attacks=("push",) if alpha else ("honest",),
    )
    for drift in Drift
    for alpha in ALPHAS
    if not (alpha and drift is Drift.SLOW)  # dear, and between the two others
)

SWEEPS = {
    "regret-drift": Sweep(
        id="regret-drift",
        points=_POINTS,
        quick=_POINTS,
        algorithms=(OURS, KEEPING, POOLED),
        measure=regret_in_arena,
    )
}


X_LABEL = "share of colluders who push"
Y_LABEL = "regret of a good user, mean"

LEAST_GAIN = 1.25
"""Ours: where the world changes, keeping everything loses at least this many times as much."""
MOST_PAID = 3.0
"""Ours: what forgetting may cost where nothing changes, as a factor."""

_TITLES = {
    Drift.NONE: "nothing changes",
    Drift.ABRUPT: "actions change places halfway",
    Drift.SLOW: "actions change places slowly",
}


def _differences(results: Results, drift: Drift, factor: float) -> dict[str, FloatArray]:
    """Return ``factor`` times the regret of keeping everything, minus ours."""
    ours, keeping = (results.curve(name, drift.value) for name in (OURS, KEEPING))
    return {
        f"{factor:.3g} epochs minus forgetting, alpha={alpha:g}": factor * keeping.at(alpha)
        - ours.at(alpha)
        for alpha in ours.xs
    }


ANALYSES = {
    "regret-drift": Analysis(
        title="A changing world: regret of good users with and without forgetting",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=tuple(
            Panel(title=_TITLES[drift], x_label=X_LABEL, series=drift.value, y_label=Y_LABEL)
            for drift in Drift
        ),
        judges=(
            compared(
                "an-abrupt-change-is-followed",
                "Where actions change places halfway, keeping everything loses at least 1.25 times "
                "what forgetting does, colluders or not.",
                lambda results: _differences(results, Drift.ABRUPT, 1.0 / LEAST_GAIN),
            ),
            compared(
                "slow-drift-is-followed",
                "Where they change places slowly, keeping everything loses more than forgetting.",
                lambda results: _differences(results, Drift.SLOW, 1.0),
            ),
            compared(
                "the-price-is-bounded",
                "Where nothing changes, forgetting loses at most 3 times as much.",
                lambda results: _differences(results, Drift.NONE, MOST_PAID),
            ),
        ),
    )
}
