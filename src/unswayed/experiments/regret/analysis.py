"""What good users lose while the policy is learned, and against whom."""

from math import sqrt

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim, all_positive, log_slope, resampled
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.regret.sweep import ALPHAS, OURS, RIVALS, USERS, WORLDS, series_of
from unswayed.experiments.results import Results

TITLE = "Regret: what a good user loses while the policy is learned"
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


def draw(results: Results) -> Figure:
    """Draw regret against interactions, one panel a world."""
    panels = [
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
    ]
    return draw_panels(results, panels, heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what is asked of learning while serving."""
    worlds = {f"S={s}, A={a}": (s, a) for s, a in WORLDS}
    ours = {
        (label, alpha): results.curve(OURS, series_of(s, a, alpha))
        for label, (s, a) in worlds.items()
        for alpha in ALPHAS
    }
    rivals = [rival for rival in RIVALS if rival in results.algorithms]
    last = float(ours[next(iter(worlds)), CALM].xs[-1])
    return [
        all_positive(
            "half-of-the-best-rival",
            "Each under its own worst attack, epochs lose less than half of what any rival does.",
            {
                f"half of {rival} minus epochs, {label}": results.curve(
                    rival, series_of(s, a, ATTACKED)
                ).at(last)
                / LEAST_LEAD
                - ours[label, ATTACKED].at(last)
                for label, (s, a) in worlds.items()
                for rival in rivals
            },
        ),
        all_positive(
            "close-to-pooled-ucb",
            "Without an attack epochs lose at most 1.5 times as much as pooled UCB.",
            {
                f"1.5 naive-ucb minus epochs, {label}": MOST_CALM
                * results.curve("naive-ucb", series_of(s, a, CALM)).at(last)
                - ours[label, CALM].at(last)
                for label, (s, a) in worlds.items()
            },
        ),
        all_positive(
            "within-the-known-rate",
            "With 20 % colluders epochs lose less than (alpha + 1/√L)·√(T min(S, A)).",
            {
                f"bound minus epochs, {label} at T/L={x:g}": bound(s, a, x)
                - ours[label, ATTACKED].at(x)
                for label, (s, a) in worlds.items()
                for x in ours[label, ATTACKED].xs
            },
        ),
        *[
            resampled(
                f"slower-than-the-root-{s}-{a}",
                f"Regret under attack grows more slowly than √T for S={s}, A={a}.",
                "log-log slope of regret against T/L",
                curve.values,
                lambda values, xs=curve.xs: log_slope(xs, values.mean(axis=0)),  # type: ignore[misc]
                below=0.5,
            )
            for s, a in WORLDS
            for curve in [results.curve(OURS, series_of(s, a, ATTACKED))]
        ],
    ]
