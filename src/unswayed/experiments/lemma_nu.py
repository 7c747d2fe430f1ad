"""The lemma on Algorithm 1: context probabilities, with and without flooding.

T0/L grows; S = 20 contexts with Zipf probabilities, L = 1000 users, alpha = 0.2.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared, falls_like_a_root
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import Point, Sweep, Witness, world
from unswayed.learners.interface import Setting
from unswayed.learners.paper import estimate_context_probabilities
from unswayed.simulation.arena import run
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.settings import Settings
from unswayed.tallies import Accumulator, Tallies


class Visits:
    """Plays the first action always and remembers who came with which context."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._seen = Accumulator(n_actions=setting.n_actions)

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Algorithm 1, line 3: play any action and move on."""
        actions = np.zeros(users.size, dtype=np.int64)
        self._seen.add(users, contexts, actions, outcomes[:, 0])
        return actions

    def action_probabilities(self, users: IntArray) -> FloatArray:  # noqa: ARG002 - nothing is learned
        """Return uniform play; the arena wants a recommendation."""
        shape = (self.setting.n_contexts, self.setting.n_actions)
        return np.full(shape, 1.0 / self.setting.n_actions)

    def tallies(self) -> Tallies:
        """Return all visits."""
        return self._seen.tallies(n_users=self.setting.n_users, n_contexts=self.setting.n_contexts)


def context_error(settings: Settings, algorithm: str, attack: str, repetition: int) -> float:
    """Return the l1 distance between estimated and true context probabilities.

    Parameters
    ----------
    algorithm
        "paper" is Algorithm 1; "naive-mean" counts all visits; "oracle" those of good users.
    """
    instance = settings.instance(repetition)
    visits: list[Visits] = []

    def make(setting: Setting) -> Visits:
        visits.append(Visits(setting))
        return visits[-1]

    witness = Witness(make)
    run(
        instance,
        make_attack(attack),
        witness,
        settings.crowd(),
        algorithm=algorithm,
        seed=settings.seed,
        path=(repetition,),
    )
    tallies = visits[-1].tallies()
    if algorithm == "paper":
        estimated = estimate_context_probabilities(
            tallies, alpha=settings.alpha
        ).context_probabilities
    else:
        estimated = _shares(tallies, witness.is_good if algorithm == "oracle" else None)
    return float(np.abs(estimated - instance.context_probabilities).sum())


def _shares(tallies: Tallies, is_counted: BoolArray | None) -> FloatArray:
    """Return each context's share of the visits, of all users or of some."""
    weights = tallies.counts.astype(np.float64)
    if is_counted is not None:
        weights *= np.repeat(is_counted, np.diff(tallies.indptr))
    contexts = tallies.cells // tallies.n_actions
    visits = np.bincount(contexts, weights, minlength=tallies.n_contexts)
    shares: FloatArray = visits / weights.sum()
    return shares


QUIET, FLOODED = "no flooding", "flooding"

_POINTS = tuple(
    Point(
        x=interactions,
        series=series,
        settings=world(
            contexts=20,
            actions=2,
            users=1000,
            interactions=interactions,
            context_probabilities="zipf:1",
        ),
        attacks=attacks,
    )
    for series, attacks in (
        (QUIET, ("honest",)),
        # All of the coalition comes with the rarest context, every time.
        (FLOODED, ("context-poisoning",)),
    )
    for interactions in (1, 2, 4, 8, 16, 32, 64, 128)
)

SWEEPS = {
    "lemma-nu": Sweep(
        id="lemma-nu",
        points=_POINTS,
        quick=tuple(point for point in _POINTS if point.x <= 64),
        algorithms=("paper", "naive-mean", "oracle"),
        measure=context_error,
    )
}


X_LABEL = r"interactions per user $T_0/L$"
ALPHA = 0.2


def _within_the_bound(results: Results) -> dict[str, FloatArray]:
    flooded = results.curve("paper", FLOODED)
    return {
        f"bound minus error at T0/L={x:g}": np.sqrt(ALPHA / x) - flooded.at(x) for x in flooded.xs
    }


def _plain_minus_algorithm_1(results: Results) -> dict[str, FloatArray]:
    flooded, plain = (results.curve(name, FLOODED) for name in ("paper", "naive-mean"))
    return {
        f"plain minus Algorithm 1 at T0/L={x:g}": plain.at(x) - flooded.at(x) for x in flooded.xs
    }


ANALYSES = {
    "lemma-nu": Analysis(
        title="The lemma on context probabilities: Algorithm 1",
        x_label=X_LABEL,
        panels=tuple(
            Panel(
                title=title,
                x_label=X_LABEL,
                y_label=r"$\ell_1$ error of context probabilities",
                series=series,
                log_x=True,
                log_y=True,
            )
            for series, title in (
                (QUIET, "20% of users under suspicion, all honest"),
                (FLOODED, "20% colluders flood the rarest context"),
            )
        ),
        judges=(
            *(
                partial(
                    falls_like_a_root,
                    series=series,
                    name=name,
                    statement=f"With {series}, Algorithm 1's l1 error falls at least like "
                    "(T0/L)^-1/2.",
                )
                for series, name in ((QUIET, "slope-quiet"), (FLOODED, "slope-flooded"))
            ),
            compared(
                "within-the-bound",
                "Under flooding the l1 error stays below sqrt(alpha L/T0), with constant one.",
                _within_the_bound,
            ),
            compared(
                "beats-plain-shares",
                "Under flooding Algorithm 1 beats the plain share of visits at every T0.",
                _plain_minus_algorithm_1,
            ),
        ),
    )
}
