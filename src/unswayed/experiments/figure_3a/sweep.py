"""L grows; S = 20, A = 10 and T/L = 50 are the paper's."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import Point, Sweep, smaller, with_own, world

SWEEP = Sweep(
    id="figure-3a",
    points=tuple(
        Point(x=users, settings=world(contexts=20, interactions=50, users=users))
        for users in (125, 250, 500, 1000, 2000, 4000, 8000)
    ),
    algorithms=with_own("paper", "naive-ucb", "independent-ucb", "oracle"),
    measure=suboptimality_in_arena,
)

QUICK = smaller(SWEEP, points=SWEEP.points[:6])
