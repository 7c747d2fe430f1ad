"""Regret of good users while the policy is learned, beside that of other algorithms.

T/L grows; S ≤ A and S > A, without colluders and with 20%; 2,000 users.
"""

from __future__ import annotations

from math import sqrt

from unswayed.experiments.claims import Claim, log_slope, resampled
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, Judge, compared
from unswayed.experiments.measures import regret_in_arena
from unswayed.experiments.results import Curve, Results
from unswayed.experiments.sweeps import Point, Sweep, world
from unswayed.learners.interface import FloatArray

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


X_LABEL = "interactions per user T/L"
Y_LABEL = "regret of a good user, mean"

CALM, ATTACKED = ALPHAS
LEAST_LEAD = 2.0
"""What is asked: the best rival under its own worst attack loses at least twice as much."""
MOST_CALM = 1.5
"""What is asked: without an attack at most this many times the regret of pooled UCB."""


def bound(n_contexts: int, n_actions: int, interactions: float) -> float:
    """Return (alpha + 1/√L)·√(T min(S, A)) with constant one, T in interactions per user."""
    return (ATTACKED + 1.0 / sqrt(USERS)) * sqrt(interactions * min(n_contexts, n_actions))


def _ours(results: Results, alpha: float) -> dict[tuple[int, int], Curve]:
    return {(s, a): results.curve(OURS, series_of(s, a, alpha)) for s, a in WORLDS}


def _at_the_end(results: Results, rival: str, factor: float, alpha: float) -> dict[str, FloatArray]:
    """Return what is left of a rival's regret times a factor after epochs' own, by world."""
    return {
        f"{factor:g} {rival} minus epochs, S={s}, A={a}": factor
        * results.curve(rival, series_of(s, a, alpha)).at(curve.xs[-1])
        - curve.at(curve.xs[-1])
        for (s, a), curve in _ours(results, alpha).items()
    }


def _beyond_rivals(results: Results) -> dict[str, FloatArray]:
    return {
        label: difference
        for rival in RIVALS
        if rival in results.algorithms
        for label, difference in _at_the_end(results, rival, 1 / LEAST_LEAD, ATTACKED).items()
    }


def _below_the_bound(results: Results) -> dict[str, FloatArray]:
    return {
        f"bound minus epochs, S={s}, A={a} at T/L={x:g}": bound(s, a, x) - curve.at(x)
        for (s, a), curve in _ours(results, ATTACKED).items()
        for x in curve.xs
    }


def _slower_than_the_root(n_contexts: int, n_actions: int) -> Judge:
    def judge(results: Results) -> Claim:
        curve = results.curve(OURS, series_of(n_contexts, n_actions, ATTACKED))
        return resampled(
            f"slower-than-the-root-{n_contexts}-{n_actions}",
            f"Regret under attack grows more slowly than √T for S={n_contexts}, A={n_actions}.",
            "log-log slope of regret against T/L",
            curve.values,
            lambda values: log_slope(curve.xs, values.mean(axis=0)),
            below=0.5,
        )

    return judge


ANALYSES = {
    "regret": Analysis(
        title="Regret: what a good user loses while the policy is learned",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=tuple(
            Panel(
                title=f"S = {s}, A = {a}, "
                + ("no colluders" if alpha == 0 else f"{100 * alpha:g} % colluders, worst attack"),
                x_label=X_LABEL,
                series=series_of(s, a, alpha),
                y_label=Y_LABEL,
                log_x=True,
                log_y=True,
            )
            for s, a in WORLDS
            for alpha in ALPHAS
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
                lambda results: _at_the_end(results, "naive-ucb", MOST_CALM, CALM),
            ),
            compared(
                "within-the-known-rate",
                "With 20% colluders epochs lose less than (alpha + 1/√L)·√(T min(S, A)).",
                _below_the_bound,
            ),
            *(_slower_than_the_root(s, a) for s, a in WORLDS),
        ),
    )
}
