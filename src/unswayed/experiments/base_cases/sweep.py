"""Many arms in one context; many contexts with two actions. T/L grows, 20 % collude."""

from unswayed.experiments.base_cases.measure import largest_error, total_error
from unswayed.experiments.sweeps import OBLIVIOUS_ATTACKS, Measure, Point, Sweep, world

ALPHA = 0.2
ARMS = (5, 20, 50)
CONTEXTS = (10, 40, 100)
KNOWING = ("trim-edge", "hide-in-covariance")
"""Attacks that know the algorithm join the oblivious ones: errors are bounded for all."""

INTERACTIONS = (5, 10, 20, 40, 80)
SMALL_GAP = 0.1


def series_of(name: str, number: int) -> str:
    """Return the name of a series, like "A = 20"."""
    return f"{name} = {number}"


def _sweep(
    name: str, symbol: str, setting: str, numbers: tuple[int, ...], measure: Measure, **fixed: int
) -> Sweep:
    points = tuple(
        Point(
            x=interactions,
            series=series_of(symbol, number),
            settings=world(
                interactions=interactions,
                alpha=ALPHA,
                gap=SMALL_GAP,
                **fixed,
                **{setting: number},
            ),
            attacks=(*OBLIVIOUS_ATTACKS, *KNOWING),
        )
        for number in numbers
        for interactions in INTERACTIONS
    )
    return Sweep(
        id=name,
        points=points,
        quick=tuple(point for point in points if point.x in (5, 20)),
        algorithms=("paper", "naive-mean", "oracle"),
        measure=measure,
    )


SWEEPS = {
    "base-case-1": _sweep("base-case-1", "A", "actions", ARMS, largest_error, contexts=1),
    "base-case-2": _sweep("base-case-2", "S", "contexts", CONTEXTS, total_error, actions=2),
}
