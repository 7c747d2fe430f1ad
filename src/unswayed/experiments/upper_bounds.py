"""Upper bounds: base cases, the lemma, Theorem 5.1, the parallelization gain."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.experiments.claims import (
    Claim,
    Judge,
    everywhere,
    falls_like_a_root,
    log_slope,
    minus,
    resampled,
)
from unswayed.experiments.drawing import (
    Panel,
    draw_means,
    name_curves,
    panels,
    set_axes,
    titled_figure,
)
from unswayed.experiments.results import Curve, Results
from unswayed.experiments.sweeps import (
    OBLIVIOUS_ATTACKS,
    Experiment,
    Measure,
    along,
    suboptimality_in_arena,
    with_own,
)
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import LearnerMaker, Setting
from unswayed.learners.paper import estimate_context_probabilities, learn_paper
from unswayed.learners.players import Explorer, LogLearner
from unswayed.limits import instance_complexity
from unswayed.simulation.algorithms import OracleMaker
from unswayed.simulation.arena import run
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.instances import named_probabilities
from unswayed.simulation.settings import Settings
from unswayed.tallies import Accumulator, Tallies

ALPHA = 0.2
MEASURED = ("paper", "naive-mean", "oracle")
"""The paper's estimates, plain means of all users, and those of the good users."""

PER_USER = "interactions per user T/L"


class Witness(OracleMaker):
    """Wraps a maker of learners and records which users are good."""

    def __init__(self, make: LearnerMaker) -> None:
        self._make = make

    def knowing(self, is_good: BoolArray) -> LearnerMaker:
        """Remember the good users and return the maker."""
        self.is_good = is_good
        return self._make


def _witnessed(
    make: LearnerMaker, settings: Settings, algorithm: str, attack: str, repetition: int
) -> BoolArray:
    """Run a learner and return the mask of good users."""
    witness = Witness(make)
    run(
        settings.instance(repetition),
        make_attack(attack),
        witness,
        settings.crowd(),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    return witness.is_good


def _weights(tallies: Tallies, is_counted: BoolArray | None) -> FloatArray:
    """Return one for each entry of the users that count, of all users if none are named."""
    if is_counted is None:
        return np.ones(len(tallies.cells))
    return np.repeat(is_counted, np.diff(tallies.indptr)).astype(np.float64)


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
    """Return estimates minus truth, shape (n_contexts, n_actions); 0 where nothing was played."""
    seen: list[tuple[Tallies, Estimates]] = []

    def learn(tallies: Tallies, design: Design, **options: Any) -> Estimates:
        seen.append((tallies, learn_paper(tallies, design, **options)))
        return seen[-1][1]

    make: LearnerMaker = partial(player, method=learn)
    is_good = _witnessed(make, settings, "paper", attack, repetition)
    tallies, estimates = seen[-1]
    found = estimates.mean_rewards
    if algorithm != "paper":
        weights = _weights(tallies, is_good if algorithm == "oracle" else None)
        counts, sums = (
            np.bincount(tallies.cells, weights * column, minlength=tallies.n_cells)
            for column in (tallies.counts, tallies.sums)
        )
        means = np.full(tallies.n_cells, np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        found = means.reshape(found.shape)
    return np.nan_to_num(found - settings.instance(repetition).mean_rewards)


RELATIVE_MARGIN = 0.25
"""Ours: errors that differ by less than this share count as alike."""

QUANTILE = 0.9
"""The paper's: Proposition 3.1 holds with probability 9/10."""

WORLDS_MARGIN = 0.05
"""Ours: a share of worlds that is smaller by less than this counts as nine of ten."""


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


def _base_case(
    number: int,
    title: str,
    setting: str,
    series: dict[str, int],
    measure: Measure,
    y_label: str,
    *judges: Judge,
    **fixed: int,
) -> Experiment:
    points = tuple(
        point
        for name, value in series.items()
        for point in along(
            "interactions",
            (5, 10, 20, 40, 80),
            series=name,
            # Attacks that know the algorithm join the oblivious ones: errors are bounded for all.
            attacks=(*OBLIVIOUS_ATTACKS, "trim-edge", "hide-in-covariance"),
            alpha=ALPHA,
            gap=0.1,
            **fixed,
            **{setting: value},
        )
    )
    return Experiment(
        id=f"base-case-{number}",
        title=f"Base case {number}: {title}",
        points=points,
        quick=tuple(point for point in points if point.x in (5, 20)),
        algorithms=MEASURED,
        measure=measure,
        judges=judges,
        panels=panels(
            {name: name for name in series}, PER_USER, y_label=y_label, log_x=True, log_y=True
        ),
    )


class Visits:
    """Always plays the first action and records the contexts of each user (Algorithm 1, line 3)."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.seen = Accumulator(n_actions=setting.n_actions)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play any action and move on."""
        actions = np.zeros(users.size, dtype=np.int64)
        self.seen.add(users, contexts, actions, outcomes[:, 0])
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - nothing is learned
        """Return uniform play; the arena wants a recommendation."""
        shape = (self.setting.n_contexts, self.setting.n_actions)
        return np.full(shape, 1.0 / self.setting.n_actions)


def context_error(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return the l1 distance between estimated and true context probabilities.

    Of the algorithms, "paper" is Algorithm 1, "naive-mean" counts all visits, and "oracle" those of
    good users.
    """
    visits: list[Visits] = []

    def make(setting: Setting) -> Visits:
        visits.append(Visits(setting))
        return visits[-1]

    is_good = _witnessed(make, settings, algorithm, attack, repetition)
    tallies = visits[-1].seen.tallies(n_users=settings.users, n_contexts=settings.contexts)
    if algorithm == "paper":
        found = estimate_context_probabilities(tallies, alpha=settings.alpha)
        estimated = found.context_probabilities
    else:
        weights = tallies.counts * _weights(tallies, is_good if algorithm == "oracle" else None)
        contexts = tallies.cells // tallies.n_actions
        counts = np.bincount(contexts, weights, minlength=tallies.n_contexts)
        estimated = counts / weights.sum()
    return float(np.abs(estimated - settings.instance(repetition).context_probabilities).sum())


QUIET, FLOODED = "no flooding", "flooding"

_VISITS = tuple(
    point
    # The coalition that floods comes with the rarest context, every time.
    for series, attack in ((QUIET, "honest"), (FLOODED, "context-poisoning"))
    for point in along(
        "interactions",
        (1, 2, 4, 8, 16, 32, 64, 128),
        series=series,
        attacks=(attack,),
        contexts=20,
        actions=2,
        users=1000,
        context_probabilities="zipf:1",
    )
)


N_CONTEXTS, N_ACTIONS = 20, 5
LAWS = {"uniform": "uniform", "gamma = 1": "zipf:2", "gamma = 2": "zipf:3"}
"""Series of Theorem 5.1, nu ∝ j^-(1+gamma), and how the simulator calls their probabilities."""


def _complexity(series: str) -> float:
    return instance_complexity(named_probabilities(LAWS[series], N_CONTEXTS), N_ACTIONS)


def _bounds(series: str, interactions: FloatArray | np.float64) -> FloatArray:
    """Return K(B)·sqrt(alpha L/T), with constant one."""
    return _complexity(series) * np.sqrt(ALPHA / interactions)


_LAW_POINTS = tuple(
    point
    for series, law in LAWS.items()
    for point in along(
        "interactions",
        (10, 20, 40, 80, 160),
        series=series,
        contexts=N_CONTEXTS,
        actions=N_ACTIONS,
        alpha=ALPHA,
        context_probabilities=law,
    )
)


USERS = (125, 250, 500, 1000, 2000)
INTERACTIONS = (1, 2, 5, 10, 20, 40, 80, 160)
SHARES = (0.0, 0.2)
MOST_PLAYS = 160_000
"""Ours: upper limit on plays per world; all learners have converged before."""

GAIN_TITLE = "The parallelization gain: what each user must give"
TARGET = 0.1
"""Ours: a third of the paper's gap."""

THRESHOLD = 500
"""SA/alpha at S = A = 10, alpha = 0.2."""

FLAT = -0.25
"""Ours: a log-log slope above this is "users stop helping"; a perfect gain has slope -1."""


def _series_of(alpha: float, users: int) -> str:
    return f"alpha={alpha:g}, L={users}"


def _users_of(results: Results, alpha: float) -> FloatArray:
    """Return the numbers of users that were run with a share of colluders."""
    found = [users for users in USERS if _series_of(alpha, users) in results.series]
    return np.array(found, dtype=float)


def _losses(results: Results, algorithm: str, alpha: float) -> FloatArray:
    """Return losses, shape (n_repetitions, n_user_numbers, n_interactions); NaN where not run."""
    users = _users_of(results, alpha)
    curves = [results.curve(algorithm, _series_of(alpha, int(number))) for number in users]
    n_repetitions = min(curve.values.shape[0] for curve in curves)
    table = np.full((n_repetitions, len(curves), len(INTERACTIONS)), np.nan)
    for row, curve in enumerate(curves):
        columns = np.searchsorted(INTERACTIONS, curve.xs)
        table[:, row, columns] = curve.values[:n_repetitions]
    return table


def _interactions_needed(means: FloatArray) -> FloatArray:
    """Return where each row of mean losses first reaches the target, between grid points by logs.

    NaN where it never does, or does so from the smallest number of interactions on.
    """
    grid = np.log(INTERACTIONS)
    needed = np.full(len(means), np.nan)
    for row, losses in enumerate(means):
        after = int(np.argmax(losses <= TARGET))  # 0 also if it never does
        if after > 0:
            share = (losses[after - 1] - TARGET) / (losses[after - 1] - losses[after])
            needed[row] = np.exp(grid[after - 1] + share * (grid[after] - grid[after - 1]))
    return needed


def _gain(
    name: str, statement: str, statistic: str, alpha: float, fewest: int, **limits: float
) -> Judge:
    """Return a judge of the slope of the interactions needed against the users."""

    def judge(results: Results) -> Claim:
        users = _users_of(results, alpha)
        is_counted = users >= fewest

        def slope(table: FloatArray) -> float:
            needed = _interactions_needed(table.mean(axis=0))
            known = np.isfinite(needed)
            return log_slope(users[is_counted][known], needed[known])

        losses = _losses(results, "paper", alpha)[:, is_counted]
        return resampled(name, statement, statistic, losses, slope, **limits)

    return judge


def _draw_gain(results: Results) -> Figure:
    """Draw interactions per user for the target against users, both logarithmic."""
    heading = f"{GAIN_TITLE} for a suboptimality of {TARGET:g}"
    with titled_figure(heading, width=11, height=4.6, panels=2) as (figure, axes):
        for ax, alpha in zip(axes, SHARES, strict=True):
            users, curves = _users_of(results, alpha), []
            for algorithm in results.algorithms:
                needed = _interactions_needed(_losses(results, algorithm, alpha).mean(axis=0))
                known = np.isfinite(needed)
                if known.any():  # others never reach the target in this range
                    curves.append(
                        Curve(
                            algorithm=algorithm,
                            series="",
                            xs=users[known],
                            values=needed[None, known],
                            repetitions=(0,),
                        )
                    )
                    draw_means(ax, curves[-1])
            panel = Panel(
                title="without colluders" if alpha == 0 else f"{100 * alpha:g}% colluders",
                x_label="users L",
                y_label="interactions per user",
                log_x=True,
                log_y=True,
                marks=((THRESHOLD, r"$SA/\alpha$"),) if alpha else (),
            )
            set_axes(ax, panel, xs=users)
            ax.set_ylim(INTERACTIONS[0], 2.5 * INTERACTIONS[-1])  # room for words
            name_curves(ax, curves)
    return figure


_GRID = tuple(
    point
    for alpha in SHARES
    for users in USERS
    for point in along(
        "interactions",
        (n for n in INTERACTIONS if users * n <= MOST_PLAYS),
        series=_series_of(alpha, users),
        attacks=OBLIVIOUS_ATTACKS if alpha else ("honest",),
        users=users,
        alpha=alpha,
    )
)

EXPERIMENTS = (
    _base_case(
        1,
        "many arms, one context",
        "actions",
        {"A = 5": 5, "A = 20": 20, "A = 50": 50},
        largest_error,
        "largest error of an arm",
        falls_like_a_root(
            "slope",
            "At A = 5, the largest error of an arm falls at least like (T/L)^-1/2 in nine worlds "
            "of ten.",
            "A = 5",
            quantile=QUANTILE,
        ),
        everywhere(
            "within-the-bound",
            "At every A, the largest error of an arm is below 2·sqrt(alpha L/T) in nine worlds of "
            "ten.",
            "share of worlds within the bound at {series}, T/L={x:g}, minus 0.9",
            lambda r, paper, s, x: (r.at(paper, x, s) <= 2 * np.sqrt(ALPHA / x)) - QUANTILE,
            margin=WORLDS_MARGIN,
        ),
        _quantile_growth,
        contexts=1,
    ),
    _base_case(
        2,
        "many contexts, two actions",
        "contexts",
        {"S = 10": 10, "S = 40": 40, "S = 100": 100},
        total_error,
        r"$\ell_2$ error over $\sqrt{S}$",
        falls_like_a_root(
            "slope",
            "At S = 10, the l2 error over sqrt(S) falls at least like (T/L)^-1/2.",
            "S = 10",
        ),
        everywhere(
            "within-the-bound",
            "At every S, the l2 error over sqrt(S) is below sqrt(2)·2·sqrt(alpha L/T).",
            "bound minus error at {series}, T/L={x:g}",
            lambda r, paper, s, x: 2 * np.sqrt(2) * np.sqrt(ALPHA / x) - r.at(paper, x, s),
        ),
        everywhere(
            "size-does-not-matter",
            "With more of S, the l2 error over sqrt(S) does not grow by more than a quarter.",
            "share by which errors at {series} exceed those at S = 100, T/L={x:g}",
            lambda r, paper, few, x: (
                (r.at(paper, x, few) - r.at(paper, x, "S = 100")) / r.at(paper, x, few).mean()
            ),
            series=("S = 10",),
            margin=RELATIVE_MARGIN,
        ),
        actions=2,
    ),
    Experiment(
        id="lemma-nu",
        title="The lemma on context probabilities: Algorithm 1",
        points=_VISITS,
        quick=tuple(point for point in _VISITS if point.x <= 64),
        algorithms=MEASURED,
        measure=context_error,
        panels=panels(
            {
                QUIET: "20% of users under suspicion, all honest",
                FLOODED: "20% colluders flood the rarest context",
            },
            r"interactions per user $T_0/L$",
            y_label=r"$\ell_1$ error of context probabilities",
            log_x=True,
            log_y=True,
        ),
        judges=(
            *(
                falls_like_a_root(
                    name,
                    f"With {series}, Algorithm 1's l1 error falls at least like (T0/L)^-1/2.",
                    series,
                )
                for series, name in ((QUIET, "slope-quiet"), (FLOODED, "slope-flooded"))
            ),
            everywhere(
                "within-the-bound",
                "Under flooding the l1 error stays below sqrt(alpha L/T0), with constant one.",
                "bound minus error at T0/L={x:g}",
                lambda r, paper, s, x: np.sqrt(ALPHA / x) - r.at(paper, x, s),
                series=(FLOODED,),
            ),
            everywhere(
                "beats-plain-shares",
                "Under flooding Algorithm 1 beats the plain share of visits at every T0.",
                "plain minus Algorithm 1 at T0/L={x:g}",
                minus("naive-mean", "paper"),
                series=(FLOODED,),
            ),
        ),
    ),
    Experiment(
        id="theorem-upper",
        title="Theorem 5.1: one bound for all distributions of contexts",
        points=_LAW_POINTS,
        quick=tuple(point for point in _LAW_POINTS if point.x <= 40),
        algorithms=with_own("paper", "oracle"),
        measure=suboptimality_in_arena,
        panels=tuple(
            Panel(
                title=f"{series}, K = {_complexity(series):.2f}; dashed: the bound, constant one",
                x_label=PER_USER,
                series=series,
                log_x=True,
                bound=partial(_bounds, series),
            )
            for series in LAWS
        ),
        judges=(
            everywhere(
                "within-the-bound",
                "Robust MCB loses less than K(B)·sqrt(alpha L/T), with constant one, everywhere.",
                "bound minus loss for {series} at T/L={x:g}",
                lambda r, paper, s, x: float(_bounds(s, np.float64(x))) - r.at(paper, x, s),
                series=LAWS,
            ),
            everywhere(
                "smaller-complexity-smaller-loss",
                "Contexts with a smaller K(B) are easier: nu ∝ j^-3 loses less than uniform.",
                "loss for uniform minus loss for gamma = 2 at T/L={x:g}",
                lambda r, paper, s, x: r.at(paper, x, s) - r.at(paper, x, "gamma = 2"),
                series=("uniform",),
            ),
        ),
    ),
    Experiment(
        id="parallel-gain",
        title=GAIN_TITLE,
        points=_GRID,
        quick=tuple(
            point for point in _GRID if point.settings.users in (250, 500, 1000) and point.x <= 80
        ),
        algorithms=("paper", "naive-ucb", "independent-ucb", "oracle"),
        measure=suboptimality_in_arena,
        draw=_draw_gain,
        judges=(
            _gain(
                "full-gain-without-colluders",
                "Without colluders L users share the work: the log-log slope is about -1.",
                "log-log slope of interactions needed against L, alpha = 0",
                0.0,
                0,
                above=-1.25,
                below=-0.75,
            ),
            _gain(
                "gain-stops-with-colluders",
                "With 20% colluders the gain stops: beyond SA/alpha the slope is above -1/4.",
                f"log-log slope for L >= {THRESHOLD}, alpha = 0.2",
                0.2,
                THRESHOLD,
                above=FLAT,
            ),
        ),
    ),
)
