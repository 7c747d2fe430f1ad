"""A grid of users and interactions, with and without colluders; S = A = 10."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import OBLIVIOUS_ATTACKS, Point, Sweep, world

USERS = (125, 250, 500, 1000, 2000)
INTERACTIONS = (1, 2, 5, 10, 20, 40, 80, 160)
ALPHAS = (0.0, 0.2)
MOST_PLAYS = 160_000
"""Ours: beyond so many plays in all, every world here is learned long since."""


def series_of(alpha: float, users: int) -> str:
    """Return the name of the series with a share of colluders and a number of users."""
    return f"alpha={alpha:g}, L={users}"


_POINTS = tuple(
    Point(
        x=interactions,
        series=series_of(alpha, users),
        settings=world(users=users, interactions=interactions, alpha=alpha),
        attacks=OBLIVIOUS_ATTACKS if alpha else ("honest",),
    )
    for alpha in ALPHAS
    for users in USERS
    for interactions in INTERACTIONS
    if users * interactions <= MOST_PLAYS
)

SWEEPS = {
    "parallel-gain": Sweep(
        id="parallel-gain",
        points=_POINTS,
        quick=tuple(
            point for point in _POINTS if point.settings.users in (250, 500, 1000) and point.x <= 80
        ),
        algorithms=("paper", "naive-ucb", "independent-ucb", "oracle"),
        measure=suboptimality_in_arena,
    )
}
