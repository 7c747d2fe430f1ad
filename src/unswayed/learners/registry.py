"""Every learner that can play in the arena, by its name on the command line."""

from __future__ import annotations

from functools import partial

from unswayed.learners.baselines import BASELINES
from unswayed.learners.epochs import EpochPlayer
from unswayed.learners.interface import LearnerSpec
from unswayed.learners.methods import METHODS
from unswayed.learners.on_log import LogLearner
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
    **{
        f"{name}-on-log": LearnerSpec(
            name=f"{name}-on-log",
            summary=f"{name}, from the log of an epsilon-greedy system with its propensities",
            make=partial(LogLearner, method=method),
        )
        for name, method in METHODS.items()
    },
    **{
        spec.name: spec
        for spec in (
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
        )
    },
    **BASELINES,
}
