"""Regret of good users while the policy is learned, beside that of other algorithms.

The share of colluders grows; S ≤ A and S > A; 300 users with 500 interactions each. How regret
scales is measured by ``regret-rate``; benchmarks/regret.py has the whole zoo of attacks, more
users, and the rivals that lose as much as pooled UCB: Thompson, epsilon-greedy, BARBAR, Liu-style
and layered elimination.
"""

from __future__ import annotations

from unswayed.arrays import FloatArray
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Curve, Results
from unswayed.experiments.sweeps import Point, Sweep, regret_in_arena, world

INTERACTIONS, USERS = 500, 300
WORLDS = ((6, 6), (20, 4))
ALPHAS = (0.0, 0.1, 0.2)
ATTACKS = ("extreme", "ladder", "variance-shell")
"""Ours: the worst that is known for medians of means, for clusters of users, and for epochs."""

OURS, COMMITTING, ORACLE = "epochs", "explore-then-commit", "oracle-ucb"
RIVALS = (
    "naive-ucb",
    "fed-mom-ucb",
    "rclub",
    "barbat",
    "phased-elimination",
    "independent-ucb",
)
"""Ours: the yardstick without an attack, the two that lose least in benchmarks/regret.py, and one
of each further kind."""


def series_of(n_contexts: int, n_actions: int) -> str:
    """Return the name of the series of a world."""
    return f"S={n_contexts}, A={n_actions}"


_POINTS = tuple(
    Point(
        x=alpha,
        series=series_of(*size),
        settings=world(
            contexts=size[0],
            actions=size[1],
            users=USERS,
            interactions=INTERACTIONS,
            alpha=alpha,
        ),
        attacks=ATTACKS if alpha else ("honest",),
    )
    for size in WORLDS
    for alpha in ALPHAS
)

SWEEPS = {
    "regret": Sweep(
        id="regret",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x in (0.0, 0.2)),
        algorithms=(OURS, *RIVALS, COMMITTING, ORACLE),
        measure=regret_in_arena,
        pilot_repetitions=1,
    )
}


X_LABEL = "share of colluders"
Y_LABEL = "regret of a good user, mean"

LEAST_LEAD = 2.0
"""What is asked: the best rival under its own worst attack loses at least twice as much."""
MOST_CALM = 1.5
"""What is asked: without an attack at most this many times the regret of pooled UCB."""


def _ours(results: Results) -> dict[str, Curve]:
    return {series_of(*size): results.curve(OURS, series_of(*size)) for size in WORLDS}


def _beyond_rivals(results: Results) -> dict[str, FloatArray]:
    return {
        f"half of {rival} minus epochs, {series}, alpha={alpha:g}": results.curve(rival, series).at(
            alpha
        )
        / LEAST_LEAD
        - curve.at(alpha)
        for rival in RIVALS
        if rival in results.algorithms
        for series, curve in _ours(results).items()
        for alpha in curve.xs
        if alpha > 0
    }


def _close_to_pooled(results: Results) -> dict[str, FloatArray]:
    return {
        f"1.5 naive-ucb minus epochs, {series}": MOST_CALM
        * results.curve("naive-ucb", series).at(0.0)
        - curve.at(0.0)
        for series, curve in _ours(results).items()
    }


def _not_beyond_committing(results: Results) -> dict[str, FloatArray]:
    return {
        f"{COMMITTING} minus epochs, {series}, alpha={alpha:g}": results.curve(
            COMMITTING, series
        ).at(alpha)
        - curve.at(alpha)
        for series, curve in _ours(results).items()
        for alpha in curve.xs
    }


ANALYSES = {
    "regret": Analysis(
        title="Regret: what a good user loses in 500 interactions while the policy is learned",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=tuple(
            Panel(
                title=f"S = {s}, A = {a}, each under its worst attack",
                x_label=X_LABEL,
                series=series_of(s, a),
                y_label=Y_LABEL,
                log_y=True,
            )
            for s, a in WORLDS
        ),
        judges=(
            compared(
                "half-of-the-best-rival",
                "Each under its own worst attack, epochs lose less than half of what any rival "
                "does.",
                _beyond_rivals,
            ),
            compared(
                "close-to-pooled-ucb",
                "Without an attack epochs lose at most 1.5 times as much as pooled UCB.",
                _close_to_pooled,
            ),
            compared(
                "learning-on-pays",
                "Epochs lose less than exploring once and committing, colluders or not.",
                _not_beyond_committing,
            ),
        ),
    )
}
