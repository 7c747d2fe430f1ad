"""Every learner that can play in the arena, by its name on the command line."""

from __future__ import annotations

from functools import partial

from unswayed.learners.baselines import BASELINES
from unswayed.learners.epochs import (
    EpochPlayer,
    ForgettingEpochPlayer,
    PersonalEpochPlayer,
    explore_then_commit,
)
from unswayed.learners.interface import LearnerSpec
from unswayed.learners.methods import METHODS, Method, method_names
from unswayed.learners.paper import learn_paper
from unswayed.learners.players import Explorer, LogLearner

_SUMMARIES = {
    "paper": "Robust MCB: trimmed means for frequent contexts, a spectral filter for rare ones",
    "discount": "finds coalitions as a second population of users and discounts them",
}

_VARIANTS = (
    LearnerSpec(
        name="paper-per-visit",
        summary="Robust MCB as Section 3.1 reads: trimmed means of users' means per visit",
        make=partial(Explorer, method=partial(learn_paper, per_visit=True)),
    ),
    LearnerSpec(
        name="epochs",
        summary="explores ever less and serves what discount learned, epoch by epoch",
        make=EpochPlayer,
    ),
    LearnerSpec(
        name="epochs-paper",
        summary="the same with the paper's estimates",
        make=partial(EpochPlayer, method="paper"),
    ),
    LearnerSpec(
        name="epochs-share",
        summary="epochs in which a secret share of the users explores, as the paper has it",
        make=partial(EpochPlayer, is_spread=False),
    ),
    LearnerSpec(
        name="epochs-personal",
        summary="epochs for what users have in common, each user's own plays for the rest",
        make=PersonalEpochPlayer,
    ),
    LearnerSpec(
        name="epochs-forget",
        summary="epochs of bounded length in which older plays count less often",
        make=ForgettingEpochPlayer,
    ),
    LearnerSpec(
        name="explore-then-commit",
        summary="one epoch of exploration, then what discount learned, for ever",
        make=explore_then_commit,
    ),
)


def learner_specs() -> dict[str, LearnerSpec]:
    """Return every learner by name: the methods, online, on a log and in epochs, and baselines.

    Looked up at each call, so that methods and baselines registered later are among them.
    """
    specs = [_explorer(name, METHODS[name]) for name in method_names()]
    specs += [_log_learner(name, METHODS[name]) for name in method_names()]
    return {spec.name: spec for spec in (*specs, *_VARIANTS, *BASELINES.values())}


def _explorer(name: str, method: Method) -> LearnerSpec:
    summary = _SUMMARIES.get(name) or _first_line(method) or "a method of your own"
    return LearnerSpec(name=name, summary=summary, make=partial(Explorer, method=method))


def _log_learner(name: str, method: Method) -> LearnerSpec:
    return LearnerSpec(
        name=f"{name}-on-log",
        summary=f"{name}, from the log of an epsilon-greedy system with its propensities",
        make=partial(LogLearner, method=method),
    )


def _first_line(method: Method) -> str:
    return (method.__doc__ or "").strip().partition("\n")[0]
