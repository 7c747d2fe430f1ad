"""T0/L grows; S = 20 contexts with Zipf probabilities, L = 1000 users, alpha = 0.2."""

from unswayed.experiments.lemma_nu.measure import context_error
from unswayed.experiments.sweeps import Point, Sweep, world

QUIET, FLOODED = "no flooding", "flooding"

_POINTS = tuple(
    Point(
        x=interactions,
        series=series,
        settings=world(
            contexts=20,
            actions=2,
            users=1000,
            interactions=interactions,
            context_probabilities="zipf:1",
        ),
        attacks=attacks,
    )
    for series, attacks in (
        (QUIET, ("honest",)),
        # Everybody in the coalition comes with the rarest context, every time.
        (FLOODED, ("context-poisoning",)),
    )
    for interactions in (1, 2, 4, 8, 16, 32, 64, 128)
)

SWEEPS = {
    "lemma-nu": Sweep(
        id="lemma-nu",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x <= 64),
        algorithms=("paper", "naive-mean", "oracle"),
        measure=context_error,
    )
}
