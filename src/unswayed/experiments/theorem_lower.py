"""Theorem 4.1: no learner finds the better action more often than the bound allows.

One context, two actions; the coalition hides for as many plays as there are interactions.
"""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.experiments.drawing import Panel, draw_means, name_curves, set_axes
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import OWN_SHARE, Point, Sweep, with_own, world
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.limits import (
    HidingAdversary,
    one_sided_adversary,
    one_sided_distance,
    one_sided_hellinger,
    success_bound,
    two_sided_adversaries,
    two_sided_distance,
    two_sided_hellinger,
)
from unswayed.randomness import generator
from unswayed.reports.style import GREY, STYLE, new_figure
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Crowd, run
from unswayed.simulation.attacks.base import Attack, Briefing, Knowledge, Turn
from unswayed.simulation.instances import Instance, RewardLaw
from unswayed.simulation.settings import Settings

BASE = 0.5
"""The paper's: ordinary actions pay B(1/2)."""

ONE_SIDED, TWO_SIDED = "hidden-one-sided", "hidden-two-sided"


@dataclass(kw_only=True)
class HideContested(Attack):
    """Honest, except that one action of each context is rewarded from urns that hide its worth.

    The zoo's hiding attacks contest best and runner-up together, so that a learner who plays both
    with the same user sees more than one action tells. Here one action is contested and the other
    is the same in both worlds, which makes the bound exact for every learner.
    """

    name = "hide-contested"
    summary = "one action of each context rewarded from urns that hide how good it is"
    knows = Knowledge.BANDIT
    adversary: HidingAdversary
    contested: IntArray

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Fill the urns."""
        super().begin(briefing, rng)
        self._urns = self.adversary.start(briefing.n_accounts, rng)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, with the contested actions from the account's one urn.

        Urns are in random order, so what is shown of one is hidden as well as its beginning.
        """
        means = self.briefing.mean_rewards[turn.contexts]
        rewards = self.briefing.honest_rewards(means, self.rng)
        contested = self.contested[turn.contexts]
        rewards[np.arange(len(contested)), contested] = self._urns.draw(turn.accounts, self.rng)
        return rewards


def success(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return the probability that the learner recommends the better action.

    Action 0 always pays BASE + gap/2. Action 1 pays BASE in even repetitions, the ordinary world,
    and BASE + gap in odd ones, the better world. Every user colludes independently with
    probability alpha, so that the users are independent draws, as Le Cam's bound needs; against
    the one-sided coalition the ordinary world is clean.
    """
    is_better = repetition % 2 == 1
    gap, alpha, n_users = settings.gap, settings.alpha, settings.users
    if attack == ONE_SIDED:
        adversary = one_sided_adversary(gap, settings.interactions, alpha, base=BASE)
    elif attack == TWO_SIDED:
        pair = two_sided_adversaries(gap, settings.interactions, alpha, base=BASE)
        adversary = pair.better if is_better else pair.ordinary
    else:
        raise InputError(f"attack {attack} does not hide: use {ONE_SIDED} or {TWO_SIDED}.")
    is_clean = attack == ONE_SIDED and not is_better
    size = generator(settings.seed, repetition, "coalition size").binomial(n_users, alpha)
    loss = run(
        Instance(
            context_probabilities=np.ones(1),
            mean_rewards=np.array([[BASE + gap / 2, BASE + gap * is_better]]),
            law=RewardLaw.BERNOULLI,
        ),
        HideContested(adversary=adversary, contested=np.array([1])),
        find_algorithm(algorithm).make,
        Crowd(
            n_users=n_users,
            interactions_per_user=settings.interactions,
            alpha=0.0 if is_clean else size / n_users,
            assumed_fraction=alpha,
        ),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    # Whichever action is wrong loses half of the gap; rounding must not leave [0, 1].
    return round(1.0 - loss / (gap / 2), 12)


def _points(
    series: str, attack: str, *, gap: float, users: int, grid: tuple[int, ...]
) -> tuple[Point, ...]:
    return tuple(
        Point(
            x=interactions,
            series=series,
            settings=world(
                contexts=1,
                actions=2,
                users=users,
                interactions=interactions,
                gap=gap,
                rewards="bernoulli",
            ),
            attacks=(attack,),
        )
        for interactions in grid
    )


JUDGED = ("naive-mean", "naive-ucb", "independent-ucb", "liu", "barbar", "active-arm-elimination")
"""Plain means, both naive approaches, and the corruption-robust learners of Figure 2(d)."""

FEW, MANY, PAPERS = "two-sided, 100 users", "two-sided, 1000 users", "one-sided, 2000 users"

_POINTS = (
    *_points(FEW, TWO_SIDED, gap=0.1, users=100, grid=(1, 3, 9, 27, 81)),
    *_points(MANY, TWO_SIDED, gap=0.1, users=1000, grid=(1, 3, 9, 27, 81)),
    *_points(PAPERS, ONE_SIDED, gap=0.05, users=2000, grid=(1, 2, 4, 8, 16)),
)

SWEEPS = {
    "theorem-lower": Sweep(
        id="theorem-lower",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x in (2, 9)),
        algorithms=with_own("paper", *JUDGED, "oracle"),
        measure=success,
        repetition_factor=8,
        own_share=OWN_SHARE,
    )
}


TITLE = "Theorem 4.1: what is hidden stays hidden from every learner"
X_LABEL = "interactions per user T/L"
ALPHA = 0.2
WORLDS = {FEW: (0.1, 100), MANY: (0.1, 1000), PAPERS: (0.05, 2000)}
"""Gap and users of each series."""

HIDDEN_UP_TO = {FEW: 9, MANY: 9, PAPERS: 2}
"""The longest histories that the coalition hides perfectly; a test recomputes them."""

UNBOUND = ("oracle", "independent-ucb")
"""The bound is for one decision by somebody who sees all users alike. The oracle knows the good
users; Independent UCB decides for each user apart and is valued on the good ones only."""

MARGIN = 0.16
"""Ours. At 400 repetitions a share near one half has a standard error of 0.025. Planned for
a level shared by up to 90 intervals: each is 3.6 errors to either side, and the largest of 90
deviations is about 2.6 errors, so an excess of less than 6.2 errors cannot be
distinguished from none. The default learner, with 120 repetitions, has a claim of its own: 8
intervals of 2.8 errors of 0.046 fit into the margin."""


def bound(series: str, interactions: FloatArray) -> FloatArray:
    """Return the most that any test can succeed with at each number of interactions."""
    gap, n_users = WORLDS[series]
    plays = interactions.astype(np.int64)
    distance, hellinger = (
        (one_sided_distance, one_sided_hellinger)
        if series == PAPERS
        else (two_sided_distance, two_sided_hellinger)
    )
    return np.asarray(
        success_bound(n_users, distance(gap, plays, ALPHA), hellinger(gap, plays, ALPHA))
    )


def draw(results: Results) -> Figure:
    """Draw success against interactions, with the region that no learner can reach."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=13.5, height=4.6, panels=3)
        for ax, series in zip(axes, WORLDS, strict=True):
            curves = [results.curve(name, series) for name in results.algorithms]
            for curve in curves:
                draw_means(ax, curve, line_width=1.4, marker_size=5)
            xs = np.arange(1, curves[0].xs[-1] + 1)
            ax.fill_between(xs, bound(series, xs), 1.0, step="mid", color=GREY, alpha=0.15, lw=0)
            gap, n_users = WORLDS[series]
            panel = Panel(
                title=f"{series.split(',')[0]} coalition, gap {gap:g}, {n_users} users",
                x_label=X_LABEL,
                y_label="share of right decisions",
                log_x=True,
            )
            set_axes(ax, panel, xs=curves[0].xs)
        axes[1].annotate(
            "grey: out of reach\nfor all who do not know\nthe good users",
            (1.1, 0.85),
            color=GREY,
            fontsize=9,
            verticalalignment="top",
        )
        axes[0].set_ylim(0.0, 1.03)
        name_curves(axes[-1], curves)
        figure.suptitle(TITLE, x=0.01, horizontalalignment="left", fontweight="bold")
    return figure


def _learners(results: Results) -> list[str]:
    return [name for name in results.algorithms if name not in (*UNBOUND, DEFAULT_METHOD)]


def _bound_minus_success(results: Results) -> dict[str, FloatArray]:
    return _room_below_the_bound(results, _learners(results))


def _bound_minus_own_success(results: Results) -> dict[str, FloatArray]:
    return _room_below_the_bound(results, [DEFAULT_METHOD])


def _room_below_the_bound(results: Results, names: list[str]) -> dict[str, FloatArray]:
    return {
        f"bound minus success of {name}, {series}, T/L={x:g}": most
        - results.curve(name, series).at(x)
        for name in names
        for series in WORLDS
        for x, most in zip(
            results.curve(name, series).xs,
            bound(series, results.curve(name, series).xs),
            strict=True,
        )
        if most < 1
    }


def _oracle_minus_chance(results: Results) -> dict[str, FloatArray]:
    return {
        f"success of the oracle minus ½, {series}, T/L={hidden}": results.curve(
            "oracle", series
        ).at(hidden)
        - 0.5
        for series, hidden in HIDDEN_UP_TO.items()
    }


def _margin_minus_gain(results: Results) -> dict[str, FloatArray]:
    return {
        f"{MARGIN:g} minus the gain of {name} at T/L=9": MARGIN
        - (results.curve(name, MANY).at(9) - results.curve(name, FEW).at(9))
        for name in _learners(results)
    }


ANALYSES = {
    "theorem-lower": Analysis(
        title=TITLE,
        x_label=X_LABEL,
        draw=draw,
        judges=(
            compared(
                "no-learner-beats-the-bound",
                "No learner succeeds more often than the bound allows, up to 0.16.",
                _bound_minus_success,
                margin=MARGIN,
            ),
            compared(
                "own-does-not-beat-the-bound",
                f"Neither does ours ({DEFAULT_METHOD}), up to 0.16.",
                _bound_minus_own_success,
                margin=MARGIN,
            ),
            compared(
                "oracle-sees-it",
                "Who knows the good users tells the worlds apart where they are hidden (control).",
                _oracle_minus_chance,
            ),
            compared(
                "users-do-not-help",
                "Ten times the users do not help where the difference is hidden, up to 0.16.",
                _margin_minus_gain,
            ),
        ),
    )
}
