"""Errors of the estimates in the two base cases, each with its own way to explore."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from unswayed.experiments.measures import Witness, cell_means
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import FloatArray, LearnerMaker
from unswayed.learners.on_log import LogLearner
from unswayed.learners.paper import learn_paper
from unswayed.learners.playing import Explorer
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

    ``algorithm`` is "paper", "naive-mean" for plain means of everybody, or "oracle" for those of
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
