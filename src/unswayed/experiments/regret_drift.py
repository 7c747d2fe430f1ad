"""Regret where the world changes: what forgetting gains, and what it costs elsewhere.

Worlds that stay, turn over halfway, or turn little by little; with and without colluders.
"""

from __future__ import annotations

from collections.abc import Iterable

from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.measures import regret_in_arena
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import Point, Sweep, world
from unswayed.learners.interface import FloatArray
from unswayed.simulation.instances import Drift

INTERACTIONS = (125, 250, 500)
ALPHAS = (0.0, 0.1)
OURS, KEEPING, POOLED = "epochs-forget", "epochs", "naive-ucb"


def series_of(drift: Drift, alpha: float) -> str:
    """Return the name of the series of a kind of world with a share of colluders."""
    return f"{drift.value}, alpha={alpha:g}"


_POINTS = tuple(
    Point(
        x=interactions,
        series=series_of(drift, alpha),
        settings=world(
            contexts=5,
            actions=5,
            users=500,
            interactions=interactions,
            alpha=alpha,
            drift=drift.value,
        ),
        attacks=("push",) if alpha else ("honest",),
    )
    for drift in Drift
    for alpha in ALPHAS
    for interactions in INTERACTIONS
)

SWEEPS = {
    "regret-drift": Sweep(
        id="regret-drift",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x == 250),
        algorithms=(OURS, KEEPING, POOLED),
        measure=regret_in_arena,
    )
}


X_LABEL = "interactions per user T/L"
Y_LABEL = "regret of a good user, mean"

CALM, ATTACKED = ALPHAS
LEAST_GAIN = 1.25
"""Ours: where the world changes, keeping everything loses at least this many times as much."""
MOST_PAID = 3.0
"""Ours: what forgetting may cost where nothing changes, as a factor."""

_TITLES = {
    Drift.NONE: "nothing changes",
    Drift.ABRUPT: "actions change places halfway",
    Drift.SLOW: "actions change places slowly",
}


def _differences(
    results: Results, drift: Drift, alphas: Iterable[float], factor: float
) -> dict[str, FloatArray]:
    """Return ``factor`` times the regret of keeping everything, minus ours, in the longest run."""
    found = {}
    for alpha in alphas:
        ours, keeping = (results.curve(name, series_of(drift, alpha)) for name in (OURS, KEEPING))
        last = float(ours.xs[-1])
        found[f"{factor:.3g} epochs minus forgetting, alpha={alpha:g}, T/L={last:g}"] = (
            factor * keeping.at(last) - ours.at(last)
        )
    return found


ANALYSES = {
    "regret-drift": Analysis(
        title="A changing world: regret of good users with and without forgetting",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=tuple(
            Panel(
                title=_TITLES[drift] + (", 10% colluders who push" if alpha else ""),
                x_label=X_LABEL,
                series=series_of(drift, alpha),
                y_label=Y_LABEL,
            )
            for drift in Drift
            for alpha in ALPHAS
        ),
        judges=(
            compared(
                "an-abrupt-change-is-followed",
                "Where actions change places halfway, keeping everything loses at least 1.25 times "
                "what forgetting does, colluders or not.",
                lambda results: _differences(results, Drift.ABRUPT, ALPHAS, 1.0 / LEAST_GAIN),
            ),
            compared(
                "slow-drift-is-followed",
                "Where they change places slowly, keeping everything loses more than forgetting.",
                lambda results: _differences(results, Drift.SLOW, ALPHAS, 1.0),
            ),
            compared(
                "the-price-is-bounded",
                "Where nothing changes, forgetting loses at most 3 times as much.",
                lambda results: _differences(results, Drift.NONE, ALPHAS, MOST_PAID),
            ),
        ),
    )
}
