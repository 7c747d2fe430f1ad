"""The guessing game of Theorem 4.1's proof, and learners against a coalition that hides.

S much larger than A, A much larger than S, and S = A; interactions grow.
"""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import OWN_SHARE, Point, Sweep, with_own, world
from unswayed.experiments.theorem_lower import BASE, HideContested
from unswayed.limits import one_sided_adversary
from unswayed.randomness import generator
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Crowd, run
from unswayed.simulation.instances import Instance, RewardLaw, uniform_probabilities
from unswayed.simulation.settings import Settings

RIGHT_PLAYS = 100
"""Ours: n of the game. The proof takes n of the order alpha²/epsilon²."""

HIDDEN_PLAYS = 2
"""What the proof's coalition hides without a trace at a gap of 0.05 and 20 % colluders."""


def wins(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:  # noqa: ARG001 - no coalition
    """Return 1 if some user has played right actions n times, who cannot know them; else 0.

    ``algorithm`` is "sticky", one action of each context for each user for good, or "uniform", a
    new action each time. Right actions are drawn after the plays, as the proof has it.
    """
    rng = generator(settings.seed, repetition, "guessing")
    n_users, n_contexts, n_actions = settings.users, settings.contexts, settings.actions
    visits = rng.multinomial(settings.interactions, uniform_probabilities(n_contexts), size=n_users)
    if algorithm == "sticky":
        actions = rng.integers(n_actions, size=(n_users, n_contexts))
        right = rng.integers(n_actions, size=n_contexts)
        hits = (visits * (actions == right)).sum(axis=1)
    else:
        hits = rng.binomial(visits, 1.0 / n_actions).sum(axis=1)
    return float(hits.max() >= RIGHT_PLAYS)


def right_decisions(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:  # noqa: ARG001 - one coalition
    """Return the share of contexts for which the right action is recommended.

    One action of each context, drawn at random, pays BASE + gap, all others BASE. Colluders answer
    for right actions from urns that hide the difference for ``HIDDEN_PLAYS`` right plays of a user:
    up to there all that is seen of everybody is B(BASE), whatever was played.
    """
    gap, n_users = settings.gap, settings.users
    rng = generator(settings.seed, repetition, "right actions")
    right = rng.integers(settings.actions, size=settings.contexts)
    means = np.full((settings.contexts, settings.actions), BASE)
    means[np.arange(settings.contexts), right] += gap
    adversary = one_sided_adversary(gap, HIDDEN_PLAYS, settings.alpha, base=BASE)
    size = generator(settings.seed, repetition, "coalition size").binomial(n_users, settings.alpha)
    loss = run(
        Instance(
            context_probabilities=uniform_probabilities(settings.contexts),
            mean_rewards=means,
            law=RewardLaw.BERNOULLI,
        ),
        HideContested(adversary=adversary, contested=right),
        find_algorithm(algorithm).make,
        Crowd(
            n_users=n_users,
            interactions_per_user=settings.interactions,
            alpha=size / n_users,
            assumed_fraction=settings.alpha,
        ),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    return round(1.0 - loss / gap, 12)


GAMES = ((256, 4), (4, 256), (16, 16), (64, 64))
RATIOS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
"""Interactions per user over n·min(S, A)."""

HIDDEN = ((8, 2), (2, 8), (8, 8))
INTERACTIONS = (2, 4, 8)
HONEST = ("honest",)
"""Who colludes here is part of what is measured."""


def series_of(n_contexts: int, n_actions: int) -> str:
    """Return the name of a series, like "S = 16, A = 2"."""
    return f"S = {n_contexts}, A = {n_actions}"


_GAME = tuple(
    Point(
        x=ratio,
        series=series_of(contexts, actions),
        settings=world(
            contexts=contexts,
            actions=actions,
            users=200,
            interactions=round(ratio * RIGHT_PLAYS * min(contexts, actions)),
        ),
        attacks=HONEST,
    )
    for contexts, actions in GAMES
    for ratio in RATIOS
)

_HIDDEN = tuple(
    Point(
        x=interactions,
        series=series_of(contexts, actions),
        settings=world(
            contexts=contexts,
            actions=actions,
            users=20_000,
            interactions=interactions,
            gap=0.05,
            rewards="bernoulli",
        ),
        attacks=HONEST,
    )
    for contexts, actions in HIDDEN
    for interactions in INTERACTIONS
)

SWEEPS = {
    "guessing-game": Sweep(
        id="guessing-game",
        points=_GAME,
        quick=_GAME,
        algorithms=("sticky", "uniform"),
        measure=wins,
        repetition_factor=4,
    ),
    "hidden-contexts": Sweep(
        id="hidden-contexts",
        points=_HIDDEN,
        quick=tuple(point for point in _HIDDEN if point.x == HIDDEN_PLAYS),
        algorithms=with_own("paper", "naive-mean", "oracle"),
        measure=right_decisions,
        repetition_factor=2,
        own_share=OWN_SHARE,
    ),
}


FEW, ENOUGH = RATIOS[0], RATIOS[-1]
RARELY, USUALLY = 0.1, 0.9
"""Ours: what counts as hardly ever winning, and as nearly always."""

MARGIN = 0.15
"""Ours: shares of right decisions that differ by less count as alike. With 40 repetitions of two
contexts a share near 1/8 has a standard error of 0.037; a level shared by nine intervals makes each
of them 2.8 errors wide to either side."""


def _rarely(results: Results) -> dict[str, FloatArray]:
    return {
        f"{RARELY:g} minus wins of {name}, {series}": RARELY - results.curve(name, series).at(FEW)
        for name in results.algorithms
        for series in results.series
    }


def _usually(results: Results) -> dict[str, FloatArray]:
    return {
        f"wins of one action for good, {series}, minus {USUALLY:g}": results.curve(
            "sticky", series
        ).at(ENOUGH)
        - USUALLY
        for series in results.series
    }


def _chance_minus_right(results: Results) -> dict[str, FloatArray]:
    return {
        f"chance minus right decisions of {name}, {series_of(s, a)}": 1.0 / a
        - results.curve(name, series_of(s, a)).at(HIDDEN_PLAYS)
        for name in results.algorithms
        if name != "oracle"
        for s, a in HIDDEN
    }


def _right_minus_few(results: Results) -> dict[str, FloatArray]:
    """Return what the oracle has over chance where everybody else is blind."""
    return {
        f"right decisions of the oracle minus chance, {series_of(s, a)}": results.curve(
            "oracle", series_of(s, a)
        ).at(HIDDEN_PLAYS)
        - 1.0 / a
        for s, a in HIDDEN
    }


def _panels(sizes: tuple[tuple[int, int], ...], x_label: str, y_label: str) -> tuple[Panel, ...]:
    return tuple(
        Panel(title=series, x_label=x_label, y_label=y_label, series=series, log_x=True)
        for series in (series_of(s, a) for s, a in sizes)
    )


ANALYSES = {
    "guessing-game": Analysis(
        title="The guessing game: n = 100 right plays with one of 200 users",
        x_label="interactions per user over n·min(S, A)",
        panels=_panels(GAMES, "interactions / n·min(S, A)", "share of games won"),
        judges=(
            compared(
                "nobody-wins-early",
                "With a sixteenth of n·min(S, A) interactions nobody wins, whatever S and A (up to "
                "a tenth of the games).",
                _rarely,
            ),
            compared(
                "everybody-wins-late",
                "With twice n·min(S, A) interactions, playing one action for good wins nine of ten "
                "games, whatever S and A.",
                _usually,
            ),
        ),
    ),
    "hidden-contexts": Analysis(
        title="Theorem 4.1 with many contexts and actions",
        x_label="interactions per user T/L",
        panels=_panels(HIDDEN, "interactions per user T/L", "share of right decisions"),
        judges=(
            compared(
                "nobody-beats-chance",
                "While no user has more right plays than are hidden, no learner decides better "
                "than chance, up to 0.15.",
                _chance_minus_right,
                margin=MARGIN,
            ),
            compared(
                "oracle-sees-it",
                "Who knows the good users decides better than chance there (control).",
                _right_minus_few,
            ),
        ),
    ),
}
