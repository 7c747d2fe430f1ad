"""The propositions of Section 3: errors of the base cases fall like sqrt(alpha L/T).

Many arms in one context; many contexts with two actions. T/L grows, 20 % collude.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import Claim, log_slope, resampled
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import (
    ROOT_SLOPE,
    Analysis,
    Judge,
    compared,
    falls_like_a_root,
)
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import (
    OBLIVIOUS_ATTACKS,
    Measure,
    Point,
    Sweep,
    Witness,
    cell_means,
    world,
)
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import LearnerMaker
from unswayed.learners.paper import learn_paper
from unswayed.learners.players import Explorer, LogLearner
from unswayed.simulation.arena import run
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings
from unswayed.tallies import Tallies


def largest_error(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return max_a |mu_hat(a) - mu(a)|; base case 1, where every user keeps to one arm."""
    errors = _errors(settings, algorithm, attack, repetition, Explorer)
    return float(np.abs(errors).max())


def total_error(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return ||mu_hat - mu||_2/sqrt(S); base case 2, where every play is uniform."""
    uniform = partial(LogLearner, epsilon=1.0)
    errors = _errors(settings, algorithm, attack, repetition, uniform)
    return float(np.sqrt((errors**2).sum() / settings.contexts))


def _errors(
    settings: Settings, algorithm: str, attack: str, repetition: int, player: Any
) -> FloatArray:
    """Return estimates minus truth, shape (n_contexts, n_actions); 0 where nothing was played.

    ``algorithm`` is "paper", "naive-mean" for plain means of all users, or "oracle" for those of
    the good users; all see the same plays.
    """
    seen: list[tuple[Tallies, Estimates]] = []

    def learn(tallies: Tallies, design: Design, **options: Any) -> Estimates:
        seen.append((tallies, learn_paper(tallies, design, **options)))
        return seen[-1][1]

    make: LearnerMaker = partial(player, method=learn)
    witness = Witness(make)
    instance = settings.instance(repetition)
    run(
        instance,
        make_attack(attack),
        witness,
        settings.crowd(),
        algorithm="paper",
        seed=settings.seed,
        path=(repetition,),
    )
    tallies, estimates = seen[-1]
    found = estimates.mean_rewards
    if algorithm != "paper":
        found = cell_means(tallies, witness.is_good if algorithm == "oracle" else None)
    return np.nan_to_num(found - instance.mean_rewards)


ALPHA = 0.2
ARMS = (5, 20, 50)
CONTEXTS = (10, 40, 100)
KNOWING = ("trim-edge", "hide-in-covariance")
"""Attacks that know the algorithm join the oblivious ones: errors are bounded for all."""

INTERACTIONS = (5, 10, 20, 40, 80)
SMALL_GAP = 0.1


def series_of(name: str, number: int) -> str:
    """Return the name of a series, like "A = 20"."""
    return f"{name} = {number}"


def _sweep(
    name: str, symbol: str, setting: str, numbers: tuple[int, ...], measure: Measure, **fixed: int
) -> Sweep:
    points = tuple(
        Point(
            x=interactions,
            series=series_of(symbol, number),
            settings=world(
                interactions=interactions,
                alpha=ALPHA,
                gap=SMALL_GAP,
                **fixed,
                **{setting: number},
            ),
            attacks=(*OBLIVIOUS_ATTACKS, *KNOWING),
        )
        for number in numbers
        for interactions in INTERACTIONS
    )
    return Sweep(
        id=name,
        points=points,
        quick=tuple(point for point in points if point.x in (5, 20)),
        algorithms=("paper", "naive-mean", "oracle"),
        measure=measure,
    )


SWEEPS = {
    "base-case-1": _sweep("base-case-1", "A", "actions", ARMS, largest_error, contexts=1),
    "base-case-2": _sweep("base-case-2", "S", "contexts", CONTEXTS, total_error, actions=2),
}


X_LABEL = "interactions per user T/L"
N_ACTIONS = 2
"""Actions of base case 2."""

RELATIVE_MARGIN = 0.25
"""Ours: errors that differ by less than this share count as alike."""


def _bound_minus_error(results: Results, *, scale: float) -> dict[str, FloatArray]:
    curves = (results.curve("paper", series) for series in results.series)
    return {
        f"bound minus error at {curve.series}, T/L={x:g}": scale * np.sqrt(ALPHA / x) - curve.at(x)
        for curve in curves
        for x in curve.xs
    }


def _few_minus_many(results: Results) -> dict[str, FloatArray]:
    """Return by how much errors with the fewest exceed those with the most, as shares."""
    few, many = (results.curve("paper", results.series[end]) for end in (0, -1))
    return {
        f"share by which errors at {few.series} exceed those at {many.series}, T/L={x:g}": (
            few.at(x) - many.at(x)
        )
        / few.at(x).mean()
        for x in few.xs
    }


QUANTILE = 0.9
"""The paper's: Proposition 3.1 speaks of nine worlds of ten."""

WORLDS_MARGIN = 0.05
"""Ours: a share of worlds that is smaller by less than this counts as nine of ten."""


def _worlds_within(results: Results) -> dict[str, FloatArray]:
    """Return in which worlds the error is within the bound, as shares above nine of ten."""
    curves = (results.curve("paper", series) for series in results.series)
    return {
        f"share of worlds within the bound at {curve.series}, T/L={x:g}, minus {QUANTILE:g}": (
            curve.at(x) <= 2 * np.sqrt(ALPHA / x)
        )
        - QUANTILE
        for curve in curves
        for x in curve.xs
    }


def _quantile_slope(results: Results) -> Claim:
    curve = results.curve("paper", series_of("A", ARMS[0]))
    return resampled(
        "slope",
        f"At {curve.series}, the largest error of an arm falls at least like (T/L)^-1/2 in nine "
        "worlds of ten.",
        f"log-log slope of the 90% quantile over all points; at most {ROOT_SLOPE:g}",
        curve.values,
        lambda values: log_slope(curve.xs, np.quantile(values, QUANTILE, axis=0)),
        below=ROOT_SLOPE,
    )


def _quantile_growth(results: Results) -> Claim:
    few, many = (results.curve("paper", results.series[end]) for end in (0, -1))

    def ratio(values: FloatArray) -> float:
        first, last = np.quantile(values, QUANTILE, axis=0)
        return float(np.median(last / first))

    return resampled(
        "size-does-not-matter",
        "With more of A, the largest error of an arm in nine worlds of ten does not grow by more "
        "than a quarter.",
        f"90% quantile at {many.series} over that at {few.series}, median over T/L",
        np.stack([few.values, many.values], axis=1),
        ratio,
        below=1.0 + RELATIVE_MARGIN,
    )


BY_QUANTILES: tuple[Judge, ...] = (
    _quantile_slope,
    compared(
        "within-the-bound",
        "At every A, the largest error of an arm is below 2·sqrt(alpha L/T) in nine worlds of ten.",
        _worlds_within,
        margin=WORLDS_MARGIN,
    ),
    _quantile_growth,
)


def _analysis(
    title: str,
    symbol: str,
    numbers: tuple[int, ...],
    *,
    error: str,
    words: str,
    scale: float,
    judges: tuple[Judge, ...] = (),
) -> Analysis:
    return Analysis(
        title=title,
        x_label=X_LABEL,
        panels=tuple(
            Panel(
                title=series_of(symbol, number),
                x_label=X_LABEL,
                y_label=error,
                series=series_of(symbol, number),
                log_x=True,
                log_y=True,
            )
            for number in numbers
        ),
        judges=judges
        or (
            partial(
                falls_like_a_root,
                series=series_of(symbol, numbers[0]),
                name="slope",
                statement=f"At {series_of(symbol, numbers[0])}, {words} falls at least like "
                "(T/L)^-1/2.",
            ),
            compared(
                "within-the-bound",
                f"At every {symbol}, {words} is below "
                f"{'' if scale == 1 else f'sqrt({N_ACTIONS})·'}2·sqrt(alpha L/T).",
                partial(_bound_minus_error, scale=2 * scale),
            ),
            compared(
                "size-does-not-matter",
                f"With more of {symbol}, {words} does not grow by more than a quarter.",
                _few_minus_many,
                margin=RELATIVE_MARGIN,
            ),
        ),
    )


ANALYSES = {
    "base-case-1": _analysis(
        "Base case 1: many arms, one context",
        "A",
        ARMS,
        error="largest error of an arm",
        words="the largest error of an arm",
        scale=1.0,
        judges=BY_QUANTILES,
    ),
    "base-case-2": _analysis(
        "Base case 2: many contexts, two actions",
        "S",
        CONTEXTS,
        error=r"$\ell_2$ error over $\sqrt{S}$",
        words="the l2 error over sqrt(S)",
        scale=float(np.sqrt(N_ACTIONS)),
    ),
}
