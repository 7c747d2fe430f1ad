"""Every learner that can play in the arena, by its name on the command line."""

from __future__ import annotations

from functools import partial

from unswayed.learners.baselines import BASELINES
from unswayed.learners.interface import LearnerSpec
from unswayed.learners.methods import METHODS
from unswayed.learners.on_log import LogLearner
from unswayed.learners.paper import learn_paper
from unswayed.learners.playing import Explorer

_SUMMARIES = {
    "paper": "Robust MCB: trimmed means for frequent contexts, a spectral filter for rare ones",
    "discount": "finds coalitions as a second population of users and discounts them",
}

LEARNERS: dict[str, LearnerSpec] = {
    **{
        name: LearnerSpec(
            name=name, summary=_SUMMARIES[name], make=partial(Explorer, method=method)
        )
        for name, method in METHODS.items()
    },
    "paper-per-visit": LearnerSpec(
        name="paper-per-visit",
        summary="Robust MCB as Section 3.1 reads: trimmed means of users' means per visit",
        make=partial(Explorer, method=partial(learn_paper, per_visit=True)),
    ),
    **{
        f"{name}-on-log": LearnerSpec(
            name=f"{name}-on-log",
            summary=f"{name}, from the log of an epsilon-greedy system with its propensities",
            make=partial(LogLearner, method=method),
        )
        for name, method in METHODS.items()
    },
    **BASELINES,
}
