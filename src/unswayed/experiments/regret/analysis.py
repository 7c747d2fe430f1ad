"""What good users lose while the policy is learned, and against whom."""

from math import sqrt

from unswayed.experiments.claims import Claim, log_slope, resampled
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, Judge, compared
from unswayed.experiments.regret.sweep import ALPHAS, OURS, RIVALS, USERS, WORLDS, series_of
from unswayed.experiments.results import Curve, Results
from unswayed.learners.interface import FloatArray

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
                "With 20 % colluders epochs lose less than (alpha + 1/√L)·√(T min(S, A)).",
                _below_the_bound,
            ),
            *(_slower_than_the_root(s, a) for s, a in WORLDS),
        ),
    )
}
