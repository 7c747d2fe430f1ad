"""alpha grows; S = 2, A = 5, L = 500 and T/L = 500 are the paper's."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import Point, Sweep, smaller, with_own, world

SWEEP = Sweep(
    id="figure-2d",
    points=tuple(
        Point(
            x=alpha,
            settings=world(contexts=2, actions=5, users=500, interactions=500, alpha=alpha),
        )
        for alpha in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
    ),
    algorithms=with_own(
        "paper",
        "naive-ucb",
        "independent-ucb",
        "liu",
        "barbar",
        "active-arm-elimination",
        "oracle",
    ),
    measure=suboptimality_in_arena,
)

QUICK = smaller(SWEEP, points=SWEEP.points[::2])
