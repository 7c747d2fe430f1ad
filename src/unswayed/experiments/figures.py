"""What the paper says about its figures, panel by panel and claim by claim."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import Claim, contains, log_slope, resampled
from unswayed.experiments.drawing import Panel
from unswayed.experiments.figure_sweeps import (
    ASSUMED,
    BELIEF_VARIES,
    FREQUENT,
    LITERAL,
    PER_VISIT,
    RARE,
    SCALED_GAP,
    SWEEPS,
    TRUTH_VARIES,
)
from unswayed.experiments.judging import (
    MARGIN,
    NAIVE,
    Analysis,
    Judge,
    compared,
    does_not_degrade,
    own_is_no_worse,
    paper_beats,
)
from unswayed.experiments.results import Curve, Results

__all__ = ["ANALYSES", "SWEEPS"]

BASE = "20% colluders, each learner against its worst attack"
SHORT_BASE = "20% colluders; worst attacks"
CORRUPTION_ROBUST = ("liu", "barbar", "active-arm-elimination")
SMALL_SHARE, LARGEST_SHARE = 0.1, 0.3
"""A tenth is a small share; Theorem 5.1 is for alpha < 1/3."""

BROKEN = 0.15
"""Ours: half of the paper's gap; who loses more is broken."""

USER_THRESHOLD = 1000
"""SA/alpha at S = 20, A = 10, alpha = 0.2."""

SMALL_TASTES = 0.1
"""Ours: a third of the paper's gap; larger tastes are not small differences."""

UNIFORM_LOSS = 0.3
"""About what uniform play loses at the paper's gap."""

UNSATURATED = (0.1, 0.9)
"""Ours: "before saturation" means between these shares of the loss of uniform play."""

WIDEST = 0.5
"""Ours: an interval for the slope that is wider than this resolves nothing."""


def unsaturated_slope(results: Results) -> Claim:
    """Judge the slope of Figure 2(c), where the gap is fixed."""
    paper = results.curve("paper")
    low, high = (share * UNIFORM_LOSS for share in UNSATURATED)
    chosen = np.flatnonzero((paper.means >= low) & (paper.means <= high))
    return _slope_claim(
        "slope-one-half",
        "Before saturation suboptimality falls like (T/L)^-1/2: the log-log slope is -1/2.",
        paper,
        chosen,
    )


def scaled_slope(results: Results, algorithm: str, name: str, statement: str) -> Claim:
    """Judge the slope where gaps shrink with sqrt(L/T)."""
    curve = results.curve(algorithm)
    return _slope_claim(name, statement, curve, np.arange(curve.xs.size))


def _slope_claim(name: str, statement: str, curve: Curve, chosen: np.ndarray) -> Claim:
    xs = curve.xs[chosen]
    points = ", ".join(f"{x:g}" for x in xs) or "none"
    claim = resampled(
        name,
        statement,
        f"log-log slope over T/L in {points}",
        curve.values[:, chosen],
        lambda values: log_slope(xs, values.mean(axis=0)),
    )
    return contains(claim, -0.5, widest=WIDEST)


def _beats(name: str, statement: str, symbol: str, **limits: Any) -> Judge:
    return partial(
        paper_beats, rivals=NAIVE, name=name, statement=statement, x_symbol=symbol, **limits
    )


def _figure(
    title: str,
    x_label: str,
    *judges: Judge,
    panel: str = "",
    panels: tuple[dict[str, Any], ...] = (),
    **look: Any,
) -> Analysis:
    """Return an analysis; several panels are alike but for what each says."""
    drawn = panels or ({"title": panel},)
    return Analysis(
        title=title,
        x_label=x_label,
        panels=tuple(Panel(**({"x_label": x_label} | look | one)) for one in drawn),
        judges=judges,
    )


def _growth(
    letter: str, what: str, symbol: str, other: str, statement: str, *further: Judge
) -> Analysis:
    """Return the analysis of more contexts or more actions, with ten of the other."""
    return _figure(
        f"Figure 2({letter}): more {what}",
        f"{what} {symbol}",
        _beats("beats-naive", f"Robust MCB beats both naive approaches at every {symbol}.", symbol),
        partial(
            does_not_degrade,
            name=f"{what}-do-not-degrade",
            statement=statement,
            x_symbol=symbol,
            start=10,
        ),
        partial(own_is_no_worse, x_symbol=symbol),
        *further,
        panel=f"{other} = 10, T/L = 30, {BASE}",
        log_x=True,
        marks=((10, f"{symbol} = {other}"),),
    )


def _printed_minus_paper(results: Results) -> dict[str, FloatArray]:
    printed, paper = results.curve(LITERAL), results.curve("paper")
    return {f"as printed minus paper at S={x:g}": printed.at(x) - paper.at(x) for x in paper.xs}


PER_USER = "interactions per user T/L"


def _gained(results: Results) -> dict[str, FloatArray]:
    losses = results.curve("paper").values
    return {"loss at the smallest T/L minus loss at the largest": losses[:, 0] - losses[:, -1]}


def _appendix_minus_visits(results: Results) -> dict[str, FloatArray]:
    appendix, visits = results.curve("paper"), results.curve(PER_VISIT)
    return {f"appendix minus visits at T/L={x:g}": appendix.at(x) - visits.at(x) for x in visits.xs}


def _beyond_half_of_the_gap(results: Results) -> dict[str, FloatArray]:
    return {
        f"loss of {name} at alpha={SMALL_SHARE:g} minus half of the gap": results.curve(name).at(
            SMALL_SHARE
        )
        - BROKEN
        for name in CORRUPTION_ROBUST
    }


def _within_a_tenth(results: Results) -> dict[str, FloatArray]:
    paper = results.curve("paper")
    return {
        f"tenth of the gap minus loss at alpha={x:g}": MARGIN - paper.at(x)
        for x in paper.xs
        if x <= LARGEST_SHARE
    }


def _by_users_up_to_threshold(results: Results) -> dict[str, FloatArray]:
    paper = results.curve("paper")
    better = paper.values[:, 0] - paper.at(USER_THRESHOLD)
    return {f"loss at the fewest users minus loss at L={USER_THRESHOLD}": better}


def _by_users_beyond(results: Results) -> dict[str, FloatArray]:
    paper = results.curve("paper")
    better = paper.at(USER_THRESHOLD) - paper.values[:, -1]
    return {f"{MARGIN:g} minus the gain from L={USER_THRESHOLD} to the most users": MARGIN - better}


def _by_true_share(results: Results) -> dict[str, FloatArray]:
    paper = results.curve("paper", TRUTH_VARIES)
    return {"loss at alpha=0.2 minus loss at alpha=0.1": paper.at(0.2) - paper.at(ASSUMED)}


def _by_assumed_share(results: Results) -> dict[str, FloatArray]:
    paper = results.curve("paper", BELIEF_VARIES)
    return {"loss when assuming 0.05 minus loss when assuming 0.2": paper.at(0.05) - paper.at(0.2)}


ANALYSES = {
    "figure-2a": _growth(
        "a",
        "contexts",
        "S",
        "A",
        "Growing S beyond A does not degrade Robust MCB.",
        partial(
            does_not_degrade,
            name="contexts-do-not-degrade-as-printed",
            statement="Growing S beyond A does not degrade Robust MCB as printed.",
            x_symbol="S",
            start=10,
            algorithm=LITERAL,
        ),
        compared(
            "better-path-is-no-worse",
            "Robust MCB loses no more than as printed at any S.",
            _printed_minus_paper,
            margin=MARGIN,
        ),
    ),
    "figure-2b": _growth(
        "b", "actions", "A", "S", "Growing A beyond S at fixed S does not degrade Robust MCB."
    ),
    "figure-2c": _figure(
        "Figure 2(c): more interactions per user",
        PER_USER,
        _beats("beats-naive", "Robust MCB beats both naive approaches at every T/L.", "T/L"),
        compared(
            "interactions-help", "More interactions of each user make Robust MCB better.", _gained
        ),
        unsaturated_slope,
        compared(
            "visits-need-less",
            "By Section 3.1, with means over visits, Robust MCB loses no more than by the appendix "
            "at any T/L.",
            _appendix_minus_visits,
            margin=MARGIN,
        ),
        partial(own_is_no_worse, x_symbol="T/L"),
        panel=f"S = A = 10, {BASE}",
        log_x=True,
    ),
    "figure-2d": _figure(
        "Figure 2(d): more colluders, against corruption-robust learners",
        r"true share of colluders $\alpha$",
        partial(
            paper_beats,
            rivals=CORRUPTION_ROBUST,
            name="beats-corruption-robust",
            statement="Robust MCB beats the corruption-robust learners at every alpha from 0.1 on.",
            x_symbol="alpha",
            above=SMALL_SHARE - 1e-9,
        ),
        compared(
            "small-share-breaks-corruption-robust",
            "A tenth of colluders breaks every corruption-robust learner (half of the gap lost).",
            _beyond_half_of_the_gap,
        ),
        compared(
            "defends",
            "Robust MCB loses less than a tenth of the gap at every alpha up to 0.3.",
            _within_a_tenth,
        ),
        partial(own_is_no_worse, x_symbol="alpha"),
        panel="S = 2, A = 5, L = 500, T/L = 500, each learner against its worst attack",
    ),
    "figure-3a": _figure(
        "Figure 3(a): more users",
        "users L",
        compared(
            "users-help-first",
            "More users improve Robust MCB up to L = SA/alpha.",
            _by_users_up_to_threshold,
        ),
        compared(
            "users-stop-helping",
            "More users stop helping beyond L = SA/alpha (by less than a tenth of the gap).",
            _by_users_beyond,
        ),
        _beats(
            "beats-naive",
            "Robust MCB beats both naive approaches at every L from SA/alpha on.",
            "L",
            above=USER_THRESHOLD - 1,
        ),
        partial(own_is_no_worse, x_symbol="L"),
        panel=f"S = 20, A = 10, T/L = 50, {BASE}",
        log_x=True,
        marks=((USER_THRESHOLD, r"$L = SA/\alpha$"),),
    ),
    "figure-3b": _figure(
        "Figure 3(b): a wrongly assumed share of colluders",
        "share of colluders",
        _beats(
            "overstated-still-beats-naive",
            "Assuming 0.1, Robust MCB beats both naive approaches while 0 < alpha <= 0.1.",
            "alpha",
            series=TRUTH_VARIES,
            above=0.0,
            up_to=ASSUMED,
        ),
        compared(
            "understating-loses-robustness",
            "Assuming 0.1, Robust MCB loses more at a true 0.2 than at a true 0.1.",
            _by_true_share,
        ),
        compared(
            "overstating-is-safer",
            "At a true 0.1, assuming half of it costs more than assuming twice as much.",
            _by_assumed_share,
        ),
        partial(own_is_no_worse, x_symbol="alpha", series=TRUTH_VARIES, up_to=ASSUMED),
        panels=(
            {
                "title": "learners assume 0.1 (the paper's panel)",
                "x_label": r"true share of colluders $\alpha$",
                "series": TRUTH_VARIES,
            },
            {
                "title": "the true share is 0.1",
                "x_label": "share that learners assume",
                "series": BELIEF_VARIES,
            },
        ),
        marks=((ASSUMED, "the truth"),),
    ),
    "figure-3c": _figure(
        "Figure 3(c): similar, not equal preferences",
        r"size of personal tastes $\epsilon_0$",
        partial(
            does_not_degrade,
            name="small-differences-are-tolerated",
            statement="Tastes of up to 0.1, a third of the gap, do not degrade Robust MCB.",
            x_symbol="eps_0",
            start=0.0,
            up_to=SMALL_TASTES,
        ),
        _beats("beats-naive", "Robust MCB beats both naive approaches at every eps_0.", "eps_0"),
        partial(own_is_no_worse, x_symbol="eps_0"),
        panel=f"S = A = 10, T/L = 30, {BASE}",
    ),
    "slope": _figure(
        "The slope, with gaps to scale",
        PER_USER,
        *(
            partial(
                scaled_slope,
                algorithm=algorithm,
                name=f"slope-{name}",
                statement=f"With gaps that shrink like (T/L)^-1/2, Robust MCB {reading} loses in "
                "proportion: the log-log slope is -1/2.",
            )
            for algorithm, name, reading in (
                ("paper", "appendix", "by the appendix"),
                (PER_VISIT, "visits", "by Section 3.1"),
            )
        ),
        partial(own_is_no_worse, x_symbol="T/L"),
        panel=f"S = A = 10, gap {SCALED_GAP[0]:g}·sqrt({SCALED_GAP[1]} L/T), {SHORT_BASE}",
        log_x=True,
        log_y=True,
    ),
    "knowing-attack": _figure(
        "Attacks that know the algorithm",
        PER_USER,
        *(
            _beats(
                f"beats-naive-{name}",
                f"At {series} Robust MCB beats both naive approaches although the coalition knows "
                "it.",
                "T/L",
                series=series,
            )
            for series, name in ((FREQUENT, "frequent"), (RARE, "rare"))
        ),
        *(
            partial(own_is_no_worse, x_symbol="T/L", series=series, name=f"own-{name}")
            for series, name in ((FREQUENT, "frequent"), (RARE, "rare"))
        ),
        panels=tuple(
            {"title": f"{series}, 20% colluders", "series": series} for series in (FREQUENT, RARE)
        ),
        log_x=True,
    ),
}
