"""Regret of good users while the policy is learned: what the paper leaves open.

``regret`` compares algorithms as the share of colluders grows; ``regret-rate`` changes one quantity
at a time; ``regret-personal`` has users with tastes of their own, ``regret-drift`` worlds that
change. benchmarks/regret.py has the whole zoo of attacks, more users, and the rivals that lose as
much as pooled UCB: Thompson, epsilon-greedy, BARBAR, Liu-style and layered elimination.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unswayed.arrays import FloatArray
from unswayed.experiments.claims import (
    Claim,
    Judge,
    compared,
    differences,
    log_slope,
    resampled,
)
from unswayed.experiments.drawing import Panel, draw_curve, panels, set_axes, titled_figure
from unswayed.experiments.results import Curve, Results
from unswayed.experiments.sweeps import Experiment, Point, along, regret_in_arena, world
from unswayed.reports.style import GREY
from unswayed.simulation.instances import Drift
from unswayed.simulation.settings import PAPER_GAP, Settings

EPOCHS, COMMITTING = "epochs", "explore-then-commit"
PERSONAL, FORGETTING = "epochs-personal", "epochs-forget"
Y_LABEL = "regret of a good user, mean"

ATTACKS = ("extreme", "ladder", "variance-shell")
"""Ours: the worst that is known for medians of means, for clusters of users, and for epochs."""

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

SIZES = {"S=6, A=6": (6, 6), "S=20, A=4": (20, 4)}
"""S and A of each series of ``regret``."""

LEAST_LEAD, MOST_CALM = 2.0, 1.5
"""What is asked: the best rival under its own worst attack loses at least so many times as much,
and without an attack epochs lose at most so many times as much as pooled UCB."""

TASTES_COST = 1.25
"""Ours: what learning tastes may cost where there are none, as a factor."""

LEAST_GAIN, FORGETTING_COST = 1.25, 3.0
"""Ours: where the world changes, keeping everything loses at least so many times as much; where
nothing changes, forgetting may cost so many times as much."""


def _ours(results: Results) -> dict[str, Curve]:
    return {series: results.curve(EPOCHS, series) for series in SIZES}


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
        label: values
        for series, curve in _ours(results).items()
        for label, values in differences(
            f"{COMMITTING} minus epochs, {series}, alpha={{x:g}}",
            results.curve(COMMITTING, series),
            curve,
        ).items()
    }


def _paid_without_tastes(results: Results) -> dict[str, FloatArray]:
    paid = TASTES_COST * results.curve(EPOCHS).at(0.0) - results.curve(PERSONAL).at(0.0)
    return {"1.25 epochs minus ours at eps_0=0": paid}


def _gained_at_the_largest(results: Results) -> dict[str, FloatArray]:
    ours = results.curve(PERSONAL)
    largest = float(ours.xs[-1])
    return {
        f"half of {name} minus ours at eps_0={largest:g}": results.curve(name).at(largest) / 2.0
        - ours.at(largest)
        for name in (EPOCHS, "independent-ucb")
    }


def _kept_minus_forgetting(drift: Drift, factor: float) -> Any:
    """Return how to compute ``factor`` times the regret of keeping everything, minus ours."""

    def compute(results: Results) -> dict[str, FloatArray]:
        ours, keeping = (results.curve(name, drift.value) for name in (FORGETTING, EPOCHS))
        return {
            f"{factor:.3g} epochs minus forgetting, alpha={alpha:g}": factor * keeping.at(alpha)
            - ours.at(alpha)
            for alpha in ours.xs
        }

    return compute


RATE_ATTACK = "variance-shell"
"""Ours: the worst for epochs in benchmarks/regret.py; it lies the less the longer users stay."""

COMMON = "common"
RATE_TITLE = "Regret of a good user against (alpha + 1/√L)·√(T min(S, A))"
"""The rate that Mitra et al. (2022) prove for linear bandits, with T in interactions per user."""


def _world(**changes: Any) -> Settings:
    common = {"contexts": 5, "actions": 5, "users": 500, "interactions": 500, "alpha": 0.1}
    return world(**common | changes)


@dataclass(frozen=True, slots=True)
class Axis:
    """One quantity that is changed: its name, its value in the common world, and other worlds."""

    name: str
    label: str
    statement: str
    middle: float
    worlds: dict[float, Settings]


AXES = (
    Axis(
        "T",
        "interactions per user T/L",
        "Regret grows no faster than the square root of interactions.",
        500,
        {x: _world(interactions=x) for x in (125, 2000)},
    ),
    Axis(
        "L",
        "users L",
        "With more users regret falls at least as fast as alpha + 1/√L.",
        500,
        {x: _world(users=x) for x in (125, 2000)},
    ),
    Axis(
        "alpha",
        "share of colluders",
        "With more colluders regret grows no faster than alpha + 1/√L.",
        0.1,
        {x: _world(alpha=x) for x in (0.025, 0.2)},
    ),
    Axis(
        "S=A",
        "contexts and actions S = A",
        "With larger worlds regret grows no faster than √min(S, A).",
        5,
        {x: _world(contexts=x, actions=x) for x in (3, 10)},
    ),
    Axis(
        "A",
        "actions A, with S = 5",
        "With more actions than contexts regret does not grow.",
        5,
        {x: _world(actions=x) for x in (20,)},
    ),
)


def _rate(settings: Settings) -> float:
    """Return (α + 1/√L)·√(T min(S, A)) with constant one."""
    size = min(settings.contexts, settings.actions)
    return (settings.alpha + 1.0 / sqrt(settings.users)) * sqrt(settings.interactions * size)


def _on_axis(results: Results, axis: Axis) -> tuple[Curve, FloatArray]:
    """Return regrets along an axis, with the common world in its place, and the rate there."""
    curve, common = results.curve(EPOCHS, axis.name), results.curve(EPOCHS, COMMON)
    xs = np.append(curve.xs, axis.middle)
    order = np.argsort(xs)
    worlds = {**axis.worlds, axis.middle: _world()}
    values = np.hstack([curve.values, common.values[:, :1]])[:, order]
    rates = np.array([_rate(worlds[x]) for x in xs[order]])
    return replace(curve, xs=xs[order], values=values), rates


def _grows_no_faster(axis: Axis) -> Judge:
    """Return a judge of the claim that regret grows no faster than the rate along an axis."""

    def judge(results: Results) -> Claim:
        curve, rates = _on_axis(results, axis)
        slope = log(rates[-1] / rates[0]) / log(curve.xs[-1] / curve.xs[0])
        return resampled(
            f"rate-in-{axis.name}",
            axis.statement,
            f"log-log slope of regret; that of the rate is {slope:.2f}",
            curve.values,
            lambda drawn: log_slope(curve.xs, drawn.mean(axis=0)),
            below=slope,
        )

    return judge


def _below_the_rate(results: Results) -> dict[str, FloatArray]:
    return {
        f"rate minus epochs at {axis.name}={x:g}": most - curve.at(x)
        for axis in AXES
        for curve, rates in (_on_axis(results, axis),)
        for x, most in zip(curve.xs, rates, strict=True)
        if x != axis.middle
    }


def _draw_rates(results: Results) -> Figure:
    # The panels of the axes, and one for the legend; in one row words are too small to read.
    with titled_figure(RATE_TITLE, width=10.0, height=6.4, panels=6, rows=2) as (figure, drawn):
        for ax, axis in zip(drawn, AXES, strict=False):
            curve, rates = _on_axis(results, axis)
            draw_curve(ax, curve, log_y=True)
            ax.plot(curve.xs, rates, color=GREY, linestyle="--", linewidth=1.5)
            panel = Panel(title="", x_label=axis.label, y_label=Y_LABEL, log_x=True, log_y=True)
            set_axes(ax, panel, xs=curve.xs)
        drawn[-1].set_axis_off()
        names = ["epochs", "the rate, with constant one"]
        drawn[-1].legend(drawn[0].lines, names, frameon=False, loc="center")
    return figure


_POINTS = tuple(
    point
    for series, (contexts, actions) in SIZES.items()
    for alpha in (0.0, 0.1, 0.2)
    for point in along(
        "alpha",
        (alpha,),
        series=series,
        attacks=ATTACKS if alpha else ("honest",),
        contexts=contexts,
        actions=actions,
        users=300,
        interactions=500,
    )
)
_RATES = (
    Point(x=0.0, series=COMMON, settings=_world(), attacks=(RATE_ATTACK,)),
    *(
        Point(x=x, series=axis.name, settings=settings, attacks=(RATE_ATTACK,))
        for axis in AXES
        for x, settings in axis.worlds.items()
    ),
)
_SMALL: dict[str, Any] = {"contexts": 4, "actions": 4, "users": 200, "interactions": 500}
_TASTES = along(
    "perturbation", (0.0, PAPER_GAP, 2 * PAPER_GAP), attacks=("push",), alpha=0.1, **_SMALL
)
_DRIFTS = tuple(
    point
    for drift in Drift
    for alpha in (0.0, 0.1)
    if not (alpha and drift is Drift.SLOW)  # dear, and between the two others
    for point in along(
        "alpha",
        (alpha,),
        series=drift.value,
        attacks=("push",) if alpha else ("honest",),
        drift=drift.value,
        **_SMALL,
    )
)

EXPERIMENTS = (
    Experiment(
        id="regret",
        title="Regret: what a good user loses in 500 interactions while the policy is learned",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x in (0.0, 0.2)),
        algorithms=(EPOCHS, *RIVALS, COMMITTING, "oracle-ucb"),
        measure=regret_in_arena,
        pilot_repetitions=1,
        panels=panels(
            {
                series: f"S = {s}, A = {a}, each under its worst attack"
                for series, (s, a) in SIZES.items()
            },
            "share of colluders",
            y_label=Y_LABEL,
            log_y=True,
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
    ),
    Experiment(
        id="regret-rate",
        title=RATE_TITLE,
        points=_RATES,
        quick=_RATES,
        algorithms=(EPOCHS,),
        measure=regret_in_arena,
        draw=_draw_rates,
        judges=(
            compared(
                "within-the-rate",
                "Everywhere epochs lose less than (alpha + 1/√L)·√(T min(S, A)).",
                _below_the_rate,
            ),
            *(_grows_no_faster(axis) for axis in AXES),
        ),
    ),
    Experiment(
        id="regret-personal",
        title="Tastes: regret of good users who differ by up to eps_0",
        points=_TASTES,
        quick=_TASTES,
        algorithms=(PERSONAL, EPOCHS, "independent-ucb"),
        measure=regret_in_arena,
        panels=panels(
            {"": "S = A = 4, 500 interactions per user, 10% colluders who push"},
            "size of tastes eps_0",
            y_label=Y_LABEL,
            marks=((PAPER_GAP, "the gap"),),
        ),
        judges=(
            compared(
                "without-tastes-little-is-paid",
                "Where users do not differ, learning tastes costs at most a quarter more.",
                _paid_without_tastes,
            ),
            compared(
                "large-tastes-are-learned",
                "At twice the gap ours loses less than half of the common policy, and of users "
                "alone.",
                _gained_at_the_largest,
            ),
            compared(
                "better-than-users-alone",
                "Whatever the size of tastes, ours loses less than users who learn alone.",
                lambda r: differences(
                    "alone minus ours at eps_0={x:g}",
                    r.curve("independent-ucb"),
                    r.curve(PERSONAL),
                ),
            ),
        ),
    ),
    Experiment(
        id="regret-drift",
        title="A changing world: regret of good users with and without forgetting",
        points=_DRIFTS,
        quick=_DRIFTS,
        algorithms=(FORGETTING, EPOCHS, "naive-ucb"),
        measure=regret_in_arena,
        panels=panels(
            {
                Drift.NONE.value: "nothing changes",
                Drift.ABRUPT.value: "actions change places halfway",
                Drift.SLOW.value: "actions change places slowly",
            },
            "share of colluders who push",
            y_label=Y_LABEL,
        ),
        judges=(
            compared(
                "an-abrupt-change-is-followed",
                "Where actions change places halfway, keeping everything loses at least 1.25 times "
                "what forgetting does, colluders or not.",
                _kept_minus_forgetting(Drift.ABRUPT, 1.0 / LEAST_GAIN),
            ),
            compared(
                "slow-drift-is-followed",
                "Where they change places slowly, keeping everything loses more than forgetting.",
                _kept_minus_forgetting(Drift.SLOW, 1.0),
            ),
            compared(
                "the-price-is-bounded",
                "Where nothing changes, forgetting loses at most 3 times as much.",
                _kept_minus_forgetting(Drift.NONE, FORGETTING_COST),
            ),
        ),
    ),
)
