"""The size of tastes grows from 0 to twice the gap; S = A = 5, 500 users, 10 % colluders."""

from unswayed.experiments.measures import regret_in_arena
from unswayed.experiments.sweeps import Point, Sweep, world
from unswayed.simulation.settings import PAPER_GAP

TASTES = tuple(share * PAPER_GAP for share in (0.0, 0.25, 0.5, 1.0, 1.5, 2.0))
OURS, COMMON, ALONE = "epochs-personal", "epochs", "independent-ucb"

_POINTS = tuple(
    Point(
        x=taste,
        settings=world(
            contexts=5, actions=5, users=500, interactions=500, alpha=0.1, perturbation=taste
        ),
        attacks=("push",),
    )
    for taste in TASTES
)

SWEEPS = {
    "regret-personal": Sweep(
        id="regret-personal",
        points=_POINTS,
        quick=(_POINTS[0], _POINTS[3], _POINTS[5]),
        algorithms=(OURS, COMMON, ALONE),
        measure=regret_in_arena,
    )
}
