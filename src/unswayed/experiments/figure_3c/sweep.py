"""Every good user's mean rewards are moved by up to eps_0; otherwise the base world."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import Point, Sweep, smaller, with_own, world

SWEEP = Sweep(
    id="figure-3c",
    points=tuple(
        Point(x=perturbation, settings=world(perturbation=perturbation))
        for perturbation in (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
    ),
    algorithms=with_own("paper", "naive-ucb", "independent-ucb", "oracle"),
    measure=suboptimality_in_arena,
)

QUICK = smaller(SWEEP, points=SWEEP.points[:5])
