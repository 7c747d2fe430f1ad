"""Worlds that stay, turn over halfway, or turn little by little; with and without colluders."""

from unswayed.experiments.measures import regret_in_arena
from unswayed.experiments.sweeps import Point, Sweep, world
from unswayed.simulation.drift import Drift

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
