"""Regret of good users while the policy is learned; the paper has no such experiments.

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
    everywhere,
    log_slope,
    minus,
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
"""Required ratio of the best rival's regret, under its own worst attack, to that of epochs; and the
largest allowed ratio of epochs to pooled UCB without an attack."""

TASTES_COST = 1.25
"""Ours: what learning tastes may cost where there are none, as a factor."""

LEAST_GAIN, FORGETTING_COST = 1.25, 3.0
"""Ours: required ratio of regret without and with forgetting where the world changes, and the
allowed ratio of regret with and without it where nothing changes."""


def _kept_minus_forgetting(name: str, statement: str, drift: Drift, factor: float) -> Judge:
    """Return a judge of ``factor`` times the regret of keeping everything, minus ours."""
    label = f"{factor:.3g} epochs minus forgetting, alpha={{x:g}}"
    difference = minus(EPOCHS, FORGETTING, factor)
    return everywhere(name, statement, label, difference, of=(FORGETTING,), series=(drift.value,))


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
            everywhere(
                "half-of-the-best-rival",
                "Each under its own worst attack, epochs lose less than half of what any rival "
                "does.",
                "half of {name} minus epochs, {series}, alpha={x:g}",
                lambda r, rival, s, x: r.at(rival, x, s) / LEAST_LEAD - r.at(EPOCHS, x, s),
                of=RIVALS,
                series=SIZES,
                at=lambda _, x: x > 0,
            ),
            everywhere(
                "close-to-pooled-ucb",
                "Without an attack epochs lose at most 1.5 times as much as pooled UCB.",
                "1.5 naive-ucb minus epochs, {series}",
                minus("naive-ucb", EPOCHS, MOST_CALM),
                of=(EPOCHS,),
                series=SIZES,
                at=lambda _, x: x == 0,
            ),
            everywhere(
                "learning-on-pays",
                "Epochs lose less than exploring once and committing, colluders or not.",
                f"{COMMITTING} minus epochs, {{series}}, alpha={{x:g}}",
                minus(COMMITTING, EPOCHS),
                of=(EPOCHS,),
                series=SIZES,
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
            everywhere(
                "without-tastes-little-is-paid",
                "Where users do not differ, learning tastes costs at most a quarter more.",
                "1.25 epochs minus ours at eps_0={x:g}",
                minus(EPOCHS, PERSONAL, TASTES_COST),
                of=(EPOCHS,),
                at=lambda _, x: x == 0,
            ),
            everywhere(
                "large-tastes-are-learned",
                "At twice the gap ours loses less than half of the common policy, and of users "
                "alone.",
                "half of {name} minus ours at eps_0={x:g}",
                lambda r, name, _, x: r.at(name, x) / 2.0 - r.at(PERSONAL, x),
                of=(EPOCHS, "independent-ucb"),
                at=lambda _, x: x == 2 * PAPER_GAP,
            ),
            everywhere(
                "better-than-users-alone",
                "Whatever the size of tastes, ours loses less than users who learn alone.",
                "alone minus ours at eps_0={x:g}",
                minus("independent-ucb", PERSONAL),
                of=(PERSONAL,),
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
            _kept_minus_forgetting(
                "an-abrupt-change-is-followed",
                "Where actions change places halfway, keeping everything loses at least 1.25 times "
                "what forgetting does, colluders or not.",
                Drift.ABRUPT,
                1.0 / LEAST_GAIN,
            ),
            _kept_minus_forgetting(
                "slow-drift-is-followed",
                "Where they change places slowly, keeping everything loses more than forgetting.",
                Drift.SLOW,
                1.0,
            ),
            _kept_minus_forgetting(
                "the-price-is-bounded",
                "Where nothing changes, forgetting loses at most 3 times as much.",
                Drift.NONE,
                FORGETTING_COST,
            ),
        ),
    ),
)
