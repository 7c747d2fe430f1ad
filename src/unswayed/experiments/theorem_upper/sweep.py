"""Uniform contexts and nu ∝ j^-(1+gamma); S = 20, A = 5, alpha = 0.2, T/L grows."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import Point, Sweep, world

N_CONTEXTS, N_ACTIONS, ALPHA = 20, 5, 0.2
GAMMAS = (1.0, 2.0)
SERIES = {"uniform": "uniform"} | {f"gamma = {gamma:g}": f"zipf:{1 + gamma:g}" for gamma in GAMMAS}
"""The series by name, and how the simulator calls their context probabilities."""

_POINTS = tuple(
    Point(
        x=interactions,
        series=series,
        settings=world(
            contexts=N_CONTEXTS,
            actions=N_ACTIONS,
            alpha=ALPHA,
            interactions=interactions,
            context_probabilities=law,
        ),
    )
    for series, law in SERIES.items()
    for interactions in (10, 20, 40, 80, 160)
)

SWEEPS = {
    "theorem-upper": Sweep(
        id="theorem-upper",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x <= 40),
        algorithms=("paper", "oracle"),
        measure=suboptimality_in_arena,
    )
}
