"""S grows while A = 10, T/L = 30 and alpha = 0.2 stay."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import Point, Sweep, smaller, with_own, world

SWEEP = Sweep(
    id="figure-2a",
    points=tuple(
        Point(x=contexts, settings=world(contexts=contexts)) for contexts in (2, 5, 10, 20, 40)
    ),
    algorithms=with_own("paper", "naive-ucb", "independent-ucb", "oracle"),
    measure=suboptimality_in_arena,
)

QUICK = smaller(SWEEP, points=SWEEP.points[:4])
