"""S much larger than A, A much larger than S, and S = A; interactions grow."""

from unswayed.experiments.guessing_game.measure import RIGHT_PLAYS, right_decisions, wins
from unswayed.experiments.sweeps import Point, Sweep, with_own, world

GAMES = ((256, 4), (4, 256), (16, 16), (64, 64))
RATIOS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
"""Interactions per user over n·min(S, A)."""

HIDDEN = ((16, 2), (2, 16), (16, 16))
INTERACTIONS = (3, 9, 27, 81, 243)
HONEST = ("honest",)
"""Who colludes here is part of what is measured."""


def series_of(n_contexts: int, n_actions: int) -> str:
    """Return the name of a series, like "S = 16, A = 2"."""
    return f"S = {n_contexts}, A = {n_actions}"


_GAME = tuple(
    Point(
        x=ratio,
        series=series_of(contexts, actions),
        settings=world(
            contexts=contexts,
            actions=actions,
            users=200,
            interactions=round(ratio * RIGHT_PLAYS * min(contexts, actions)),
        ),
        attacks=HONEST,
    )
    for contexts, actions in GAMES
    for ratio in RATIOS
)

_HIDDEN = tuple(
    Point(
        x=interactions,
        series=series_of(contexts, actions),
        settings=world(
            contexts=contexts,
            actions=actions,
            users=1000,
            interactions=interactions,
            gap=0.1,
            rewards="bernoulli",
        ),
        attacks=HONEST,
    )
    for contexts, actions in HIDDEN
    for interactions in INTERACTIONS
)

SWEEPS = {
    "guessing-game": Sweep(
        id="guessing-game",
        points=_GAME,
        quick=_GAME,
        algorithms=("sticky", "uniform"),
        measure=wins,
        repetition_factor=4,
    ),
    "hidden-contexts": Sweep(
        id="hidden-contexts",
        points=_HIDDEN,
        quick=tuple(point for point in _HIDDEN if 9 <= point.x <= 81),
        algorithms=with_own("paper", "naive-mean", "oracle"),
        measure=right_decisions,
    ),
}
