"""T/L grows; S ≤ A and S > A, without colluders and with 20 %; 2,000 users."""

from unswayed.experiments.measures import regret_in_arena
from unswayed.experiments.sweeps import Point, Sweep, world

INTERACTIONS = (125, 500)
WORLDS = ((10, 10), (50, 5))
ALPHAS = (0.0, 0.2)
USERS = 2000
ATTACKS = ("push", "extreme", "trim-edge", "sleeper")
"""Ours: two loud ones, a quiet one, and the worst that was seen for clusters of users;
benchmarks/regret.py runs the whole zoo."""

OURS, COMMIT, ORACLE = "epochs", "explore-then-commit", "oracle-ucb"
RIVALS = (
    "naive-ucb",
    "independent-ucb",
    "barbat",
    "fed-mom-ucb",
    "phased-elimination",
    "rclub",
)


def series_of(n_contexts: int, n_actions: int, alpha: float) -> str:
    """Return the name of the series of a world with a share of colluders."""
    return f"S={n_contexts}, A={n_actions}, alpha={alpha:g}"


_POINTS = tuple(
    Point(
        x=interactions,
        series=series_of(*size, alpha),
        settings=world(
            contexts=size[0],
            actions=size[1],
            users=USERS,
            interactions=interactions,
            alpha=alpha,
        ),
        attacks=ATTACKS if alpha else ("honest",),
    )
    for size in WORLDS
    for alpha in ALPHAS
    for interactions in INTERACTIONS
)

SWEEPS = {
    "regret": Sweep(
        id="regret",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x <= 125),
        algorithms=(OURS, COMMIT, *RIVALS, ORACLE),
        measure=regret_in_arena,
        pilot_repetitions=1,
    )
}
