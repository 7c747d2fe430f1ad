"""One context, two actions; the coalition hides for as many plays as there are interactions."""

from unswayed.experiments.sweeps import Point, Sweep, with_own, world
from unswayed.experiments.theorem_lower.measure import ONE_SIDED, TWO_SIDED, success
from unswayed.learners.baselines import BASELINES


def _points(
    series: str, attack: str, *, gap: float, users: int, grid: tuple[int, ...]
) -> tuple[Point, ...]:
    return tuple(
        Point(
            x=interactions,
            series=series,
            settings=world(
                contexts=1,
                actions=2,
                users=users,
                interactions=interactions,
                gap=gap,
                rewards="bernoulli",
            ),
            attacks=(attack,),
        )
        for interactions in grid
    )


FEW, MANY, PAPERS = "two-sided, 100 users", "two-sided, 1000 users", "one-sided, 2000 users"

_POINTS = (
    *_points(FEW, TWO_SIDED, gap=0.1, users=100, grid=(1, 3, 9, 27, 81)),
    *_points(MANY, TWO_SIDED, gap=0.1, users=1000, grid=(1, 3, 9, 27, 81)),
    *_points(PAPERS, ONE_SIDED, gap=0.05, users=2000, grid=(1, 2, 4, 8, 16)),
)

SWEEPS = {
    "theorem-lower": Sweep(
        id="theorem-lower",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x in (1, 2, 9)),
        algorithms=with_own("paper", *BASELINES, "oracle"),
        measure=success,
        repetition_factor=8,
    )
}
