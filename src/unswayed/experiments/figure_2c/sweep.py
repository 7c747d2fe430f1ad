"""T/L grows while S = A = 10 and alpha = 0.2 stay."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import Point, Sweep, smaller, with_own, world

SWEEP = Sweep(
    id="figure-2c",
    points=tuple(
        Point(x=interactions, settings=world(interactions=interactions))
        for interactions in (10, 15, 20, 25, 30, 40, 50, 60, 120)
    ),
    algorithms=with_own("paper", "naive-ucb", "independent-ucb", "oracle"),
    measure=suboptimality_in_arena,
)

QUICK = smaller(SWEEP, points=SWEEP.points[::2])
