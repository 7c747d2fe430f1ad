"""Epochs in a world that changes: none grows for ever, and older plays count less often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.events import Events, Labels
from unswayed.events.thinning import remembered
from unswayed.learners.design import uniform_design
from unswayed.learners.epochs.playing import EpochPlayer
from unswayed.learners.epochs.schedule import planned_schedule
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import Setting
from unswayed.tallies import Tallies, tally_events

#: Ours: in interactions per user; docs/epochs.md says what it costs where nothing changes.
HALF_LIFE = 64.0

#: Ours: two epochs within a half-life, so that what is served is never much older than that.
LONGEST = 32.0

_EMPTY = np.empty(0, np.int64)


class ForgettingEpochPlayer(EpochPlayer):
    """Epochs of bounded length that learn from plays of which half go with each half-life.

    Parameters
    ----------
    setting
        As for ``EpochPlayer``.
    half_life
        In interactions per user.
    """

    def __init__(self, setting: Setting, *, half_life: float = HALF_LIFE) -> None:
        planned = planned_schedule(
            n_users=setting.n_users, n_contexts=setting.n_contexts, n_actions=setting.n_actions
        )
        super().__init__(setting, schedule=replace(planned, longest=LONGEST))
        self._half_life = half_life
        self._events = Events(
            _EMPTY,
            _EMPTY,
            _EMPTY,
            np.empty(0),
            Labels.numbered(setting.n_users),
            Labels.numbered(setting.n_contexts),
            Labels.numbered(setting.n_actions),
            times=np.empty(0),
        )
        self._taken: list[tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]] = []

    def _take(
        self,
        users: IntArray,
        contexts: IntArray,
        actions: IntArray,
        answers: FloatArray,
        explores: IntArray,
    ) -> None:
        """Take in what explorers say, with the age of the campaign."""
        rewards = answers[explores, actions[explores]]
        ages = np.full(len(explores), self._n_played / self._setting.n_users)
        self._taken.append((users[explores], contexts[explores], actions[explores], rewards, ages))

    def learn(self) -> tuple[Estimates, Tallies]:
        """Learn from what is remembered of explorers' plays."""
        columns = [np.concatenate(column) for column in zip(*self._taken, strict=True)]
        users, contexts, actions, rewards, times = columns
        events = replace(
            self._events,
            users=users,
            contexts=contexts,
            actions=actions,
            rewards=rewards,
            times=times,
        )
        kept = events.rows(remembered(events, half_life=self._half_life))
        tallies = tally_events(kept).tallies
        estimates = self._learn_by(
            tallies,
            uniform_design(tallies),
            adversarial_fraction=self._setting.adversarial_fraction,
        )
        return estimates, tallies
