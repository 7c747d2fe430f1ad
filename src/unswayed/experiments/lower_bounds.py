"""Lower bounds: Theorem 4.1, and the guessing game in its proof."""

from __future__ import annotations

from functools import partial

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.experiments.claims import Judge, everywhere
from unswayed.experiments.drawing import Panel, panels
from unswayed.experiments.sweeps import Experiment, Point, along, with_own, world
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.limits import (
    HidingAdversary,
    hiding_distance,
    hiding_hellinger,
    one_sided_adversary,
    success_bound,
    two_sided_adversaries,
)
from unswayed.randomness import generator
from unswayed.simulation.algorithms import find_algorithm
from unswayed.simulation.arena import Crowd, Match
from unswayed.simulation.attacks.base import Attack, Briefing, Knowledge, Turn
from unswayed.simulation.instances import Instance, named_probabilities
from unswayed.simulation.simulate import Settings

BASE = 0.5  # The paper's: rewards of ordinary actions are B(1/2)

ALPHA = 0.2
PER_USER = "interactions per user T/L"
ONE_SIDED, TWO_SIDED = "hidden-one-sided", "hidden-two-sided"


class HideContested(Attack):
    """In each context the rewards of one action come from urns that hide its mean.

    The hiding attacks of the registry hide the means of both the best action and the runner-up, so
    a learner who plays both with the same user gains more information than one action reveals. Here
    one action differs between the worlds and the other does not, which makes the bound exact for
    every learner.
    """

    knows = Knowledge.BANDIT
    adversary: HidingAdversary
    contested: IntArray

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Fill the urns."""
        super().begin(briefing, rng)
        self._urns = self.adversary.start(briefing.n_accounts, rng)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, except that an account's urn supplies the contested action.

        Balls are drawn in random order, so every part of the sequence is hidden as well as its
        beginning.
        """
        means = self.briefing.mean_rewards[turn.contexts]
        rewards = self.briefing.honest_rewards(means, self.rng)
        contested = self.contested[turn.contexts]
        rewards[np.arange(len(contested)), contested] = self._urns.draw(turn.accounts, self.rng)
        return rewards


def _loss(
    settings: Settings,
    algorithm: str,
    repetition: int,
    means: FloatArray,
    attack: HideContested,
    *,
    is_clean: bool = False,
) -> float:
    """Return an algorithm's loss if each user colludes independently, or if nobody colludes.

    The users are then independent draws, as Le Cam's bound requires.
    """
    rng = generator(settings.seed, repetition, "coalition size")
    size = rng.binomial(settings.users, settings.alpha)
    return Match(
        Instance(
            context_probabilities=named_probabilities("uniform", len(means)), mean_rewards=means
        ),
        attack,
        find_algorithm(algorithm).make,
        Crowd(
            n_users=settings.users,
            interactions_per_user=settings.interactions,
            alpha=0.0 if is_clean else size / settings.users,
            assumed_fraction=settings.alpha,
        ),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    ).loss()


def success(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return the probability that the learner recommends the better action.

    Action 0 always pays BASE + gap/2. Action 1 pays BASE in even repetitions, the ordinary world,
    and BASE + gap in odd ones, the better world. Against the one-sided coalition the ordinary world
    is clean.
    """
    is_better = repetition % 2 == 1
    gap, plays, alpha = settings.gap, settings.interactions, settings.alpha
    if attack == ONE_SIDED:
        adversary = one_sided_adversary(gap, plays, alpha, base=BASE)
    elif attack == TWO_SIDED:
        pair = two_sided_adversaries(gap, plays, alpha, base=BASE)
        adversary = pair.better if is_better else pair.ordinary
    else:
        raise InputError(f"attack {attack} is not a hiding attack: use {ONE_SIDED} or {TWO_SIDED}.")
    loss = _loss(
        settings,
        algorithm,
        repetition,
        np.array([[BASE + gap / 2, BASE + gap * is_better]]),
        HideContested(adversary=adversary, contested=np.array([1])),
        is_clean=attack == ONE_SIDED and not is_better,
    )
    # A wrong decision loses half of the gap; rounding errors must not leave [0, 1].
    return round(1.0 - loss / (gap / 2), 12)


FEW, MANY, PAPERS = "two-sided, 100 users", "two-sided, 1000 users", "one-sided, 2000 users"
# Gap and number of users of each series
WORLDS = {FEW: (0.1, 100), MANY: (0.1, 1000), PAPERS: (0.05, 2000)}
# Largest number of plays that the coalition hides perfectly, recomputed in a test
HIDDEN_UP_TO = {FEW: 9, MANY: 9, PAPERS: 2}
# Plain means, the paper's naive approaches, and the corruption-robust learners of Figure 2(d)
JUDGED = ("naive-mean", "naive-ucb", "independent-ucb", "liu", "barbar", "active-arm-elimination")
# Algorithms that the bound covers. It applies to one decision from the data of all users, who are
# exchangeable; the oracle knows the good users, and Independent UCB decides for each user
# separately and is evaluated on good users only.
BOUND = ("paper", *(name for name in JUDGED if name != "independent-ucb"))
# Ours. With 400 repetitions, a share near one half has a standard error (SE) of 0.025. The margin
# is for up to 90 joint intervals: each extends 3.6 SE to either side, and the largest of 90
# deviations is about 2.6 SE, so an excess below 6.2 SE cannot be detected. The default learner,
# with 120 repetitions (SE 0.046), has a claim of its own with 8 intervals of 2.8 SE, which is below
# the margin.
MARGIN = 0.16


def _bound(series: str, interactions: FloatArray) -> FloatArray:
    """Return the highest success probability of any test at each number of interactions."""
    gap, n_users = WORLDS[series]
    plays = interactions.astype(np.int64)
    distance, hellinger = (
        measure(gap, plays, ALPHA, is_one_sided=series == PAPERS)
        for measure in (hiding_distance, hiding_hellinger)
    )
    return np.asarray(success_bound(n_users, distance, hellinger))


def _no_better(name: str, statement: str, learners: tuple[str, ...]) -> Judge:
    """Return a test of the claim that learners succeed no more often than the bound allows."""

    def most(series: str, x: float) -> float:
        return float(_bound(series, np.array([x]))[0])

    return everywhere(
        name,
        statement,
        "bound minus success of {name}, {series}, T/L={x:g}",
        lambda r, learner, s, x: most(s, x) - r.at(learner, x, s),
        of=learners,
        series=WORLDS,
        at=lambda s, x: most(s, x) < 1,
        margin=MARGIN,
    )


# Ours: n, the number of right plays with one user that wins the game. In the proof, n is of the
# order alpha²/epsilon².
RIGHT_PLAYS = 100
# Number of plays for which the proof's coalition of 20 % hides a gap of 0.05 perfectly
HIDDEN_PLAYS = 2


def wins(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:  # noqa: ARG001 - no coalition
    """Return 1 if some user has played right actions n times by chance, otherwise 0.

    ``algorithm`` is "sticky", a fixed action for each user and context, or "uniform", a new random
    action each time. Right actions are drawn after the plays, as in the proof.
    """
    rng = generator(settings.seed, repetition, "guessing")
    n_users, n_contexts, n_actions = settings.users, settings.contexts, settings.actions
    shares = [1 / n_contexts] * n_contexts
    visits = rng.multinomial(settings.interactions, shares, size=n_users)
    if algorithm == "sticky":
        actions = rng.integers(n_actions, size=(n_users, n_contexts))
        right = rng.integers(n_actions, size=n_contexts)
        hits = (visits * (actions == right)).sum(axis=1)
    else:
        hits = rng.binomial(visits, 1.0 / n_actions).sum(axis=1)
    return float(hits.max() >= RIGHT_PLAYS)


def right_decisions(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:  # noqa: ARG001 - one coalition
    """Return the share of contexts in which the right action is recommended.

    In each context, an action drawn at random has the mean reward BASE + gap, and all others BASE.
    Colluders draw their rewards for right actions from urns that hide the gap for the first
    ``HIDDEN_PLAYS`` right plays of a user; until then every observed reward has the distribution
    B(BASE), whichever action was played.
    """
    rng = generator(settings.seed, repetition, "right actions")
    right = rng.integers(settings.actions, size=settings.contexts)
    means = np.full((settings.contexts, settings.actions), BASE)
    means[np.arange(settings.contexts), right] += settings.gap
    adversary = one_sided_adversary(settings.gap, HIDDEN_PLAYS, settings.alpha, base=BASE)
    hiding = HideContested(adversary=adversary, contested=right)
    loss = _loss(settings, algorithm, repetition, means, hiding)
    return round(1.0 - loss / settings.gap, 12)


GAMES = {f"S = {s}, A = {a}": (s, a) for s, a in ((256, 4), (4, 256), (16, 16), (64, 64))}
# S and A of each series
HIDDEN = {f"S = {s}, A = {a}": (s, a) for s, a in ((8, 2), (2, 8), (8, 8))}
RATIOS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # Interactions per user, divided by n·min(S, A)
# Ours: shares of right decisions that differ by less count as equal. With 40 repetitions of two
# contexts, a share near 1/8 has a standard error of 0.037, and nine joint intervals extend 2.8
# standard errors to either side.
ALIKE = 0.15

EXPERIMENTS = (
    Experiment(
        id="theorem-lower",
        title="Theorem 4.1: what is hidden stays hidden from every learner",
        points=tuple(
            point
            for series, attack, plays in (
                (FEW, TWO_SIDED, (1, 3, 9, 27, 81)),
                (MANY, TWO_SIDED, (1, 3, 9, 27, 81)),
                (PAPERS, ONE_SIDED, (1, 2, 4, 8, 16)),
            )
            for point in along(
                "interactions",
                plays,
                {series: {"gap": WORLDS[series][0], "users": WORLDS[series][1]}},
                quick=(2, 9),
                attacks=(attack,),
                contexts=1,
                actions=2,
                rewards="bernoulli",
            )
        ),
        algorithms=with_own("paper", *JUDGED, "oracle"),
        measure=success,
        repetition_factor=8,
        panels=tuple(
            Panel(
                title=f"{series}, gap {gap:g}; dashed: the bound",
                x_label=PER_USER,
                series=series,
                y_label="share of right decisions",
                bound=partial(_bound, series),
            )
            for series, (gap, _) in WORLDS.items()
        ),
        judges=(
            _no_better(
                "no-learner-beats-the-bound",
                "No learner succeeds more often than the bound allows, up to 0.16.",
                BOUND,
            ),
            _no_better(
                "own-does-not-beat-the-bound",
                f"Neither does ours ({DEFAULT_METHOD}), up to 0.16.",
                (DEFAULT_METHOD,),
            ),
            everywhere(
                "oracle-sees-it",
                "Who knows the good users tells the worlds apart where they are hidden (control).",
                "success of the oracle minus ½, {series}, T/L={x:g}",
                lambda r, oracle, s, x: r.at(oracle, x, s) - 0.5,
                of=("oracle",),
                series=WORLDS,
                at=lambda s, x: x == HIDDEN_UP_TO[s],
            ),
            everywhere(
                "users-do-not-help",
                "Ten times the users do not help where the difference is hidden, up to 0.16.",
                "0.16 minus the gain of {name} at T/L={x:g}",
                lambda r, name, few, x: MARGIN - (r.at(name, x, MANY) - r.at(name, x, few)),
                of=BOUND,
                series=(FEW,),
                at=lambda _, x: x == 9,
            ),
        ),
    ),
    Experiment(
        id="guessing-game",
        title="The guessing game: n = 100 right plays with one of 200 users",
        points=tuple(
            Point(
                x=ratio,
                series=series,
                settings=world(
                    contexts=s,
                    actions=a,
                    users=200,
                    interactions=round(ratio * RIGHT_PLAYS * min(s, a)),
                ),
                is_quick=True,
                attacks=("honest",),
            )
            for series, (s, a) in GAMES.items()
            for ratio in RATIOS
        ),
        algorithms=("sticky", "uniform"),
        measure=wins,
        repetition_factor=4,
        panels=panels(
            {series: series for series in GAMES},
            "interactions / n·min(S, A)",
            y_label="share of games won",
        ),
        judges=(
            everywhere(
                "nobody-wins-early",
                "With a sixteenth of n·min(S, A) interactions nobody wins, whatever S and A (up to "
                "a tenth of the games).",
                "0.1 minus wins of {name}, {series}",
                lambda r, name, s, x: 0.1 - r.at(name, x, s),
                of=("sticky", "uniform"),
                at=lambda _, x: x == RATIOS[0],
            ),
            everywhere(
                "everybody-wins-late",
                "With twice n·min(S, A) interactions, playing one action for good wins nine of ten "
                "games, whatever S and A.",
                "wins of one action for good, {series}, minus 0.9",
                lambda r, sticky, s, x: r.at(sticky, x, s) - 0.9,
                of=("sticky",),
                at=lambda _, x: x == RATIOS[-1],
            ),
        ),
    ),
    Experiment(
        id="hidden-contexts",
        title="Theorem 4.1 with many contexts and actions",
        points=along(
            "interactions",
            (2, 4, 8),
            {series: {"contexts": s, "actions": a} for series, (s, a) in HIDDEN.items()},
            quick=(HIDDEN_PLAYS,),
            attacks=("honest",),  # ignored: right_decisions makes its own attack
            users=20_000,
            gap=0.05,
            rewards="bernoulli",
        ),
        algorithms=with_own("paper", "naive-mean", "oracle"),
        measure=right_decisions,
        repetition_factor=2,
        panels=panels(
            {series: series for series in HIDDEN},
            PER_USER,
            y_label="share of right decisions",
        ),
        judges=(
            everywhere(
                "nobody-beats-chance",
                "While no user has more right plays than are hidden, no learner decides better "
                "than chance, up to 0.15.",
                "chance minus right decisions of {name}, {series}",
                lambda r, name, s, x: 1.0 / HIDDEN[s][1] - r.at(name, x, s),
                of=("paper", "naive-mean", DEFAULT_METHOD),
                series=HIDDEN,
                at=lambda _, x: x == HIDDEN_PLAYS,
                margin=ALIKE,
            ),
            everywhere(
                "oracle-sees-it",
                "Who knows the good users decides better than chance there (control).",
                "right decisions of the oracle minus chance, {series}",
                lambda r, oracle, s, x: r.at(oracle, x, s) - 1.0 / HIDDEN[s][1],
                of=("oracle",),
                series=HIDDEN,
                at=lambda _, x: x == HIDDEN_PLAYS,
            ),
        ),
    ),
)
