"""Attacks of the arena in a log that is built whole: a user's n-th play is their n-th round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.simulation.attacks.base import Attack, PlayedRound, Turn
from unswayed.simulation.attacks.briefing import Aim, Briefing, Knowledge, Secrets, reward_ends
from unswayed.simulation.instances import Instance, RewardLaw

LOGGED = "a log"
"""The learner's name that attacks that know the algorithm are given: it is not chosen yet."""


class LoggedCoalition:
    """An attack that was written for rounds of arrivals, played in the rows of a log.

    Colluders are the log's, whatever accounts the attack would like to register, and come as often
    as the log has them. Contexts are chosen before any round is seen. There is no learner to
    rehearse against, so attacks that rehearse are rejected.
    """

    def __init__(
        self,
        attack: Attack,
        *,
        instance: Instance,
        is_bad: BoolArray,
        target: IntArray,
        plays: int,
        alpha: float,
        rng: np.random.Generator,
    ) -> None:
        self._attack = attack
        self._is_bad = is_bad
        self._account_of_user = np.cumsum(is_bad) - 1
        lowest, highest = reward_ends(instance)

        def rehearse(_: Attack, __: int) -> float:
            raise InputError(f"attack {attack.name} rehearses against a learner: a log has none.")

        attack.begin(
            Briefing(
                knows=attack.knows,
                n_users=len(is_bad),
                n_contexts=instance.n_contexts,
                n_actions=instance.n_actions,
                interactions_per_user=plays,
                accounts=np.flatnonzero(is_bad),
                aim=Aim(target=target, rival=instance.mean_rewards.argmax(axis=1)),
                lowest=lowest,
                highest=highest,
                is_binary=instance.law is RewardLaw.BERNOULLI,
                _secrets=Secrets(
                    instance=instance, algorithm=LOGGED, assumed_fraction=alpha, rehearse=rehearse
                ),
            ),
            rng,
        )

    def contexts(self, users: IntArray, rounds: IntArray, contexts: IntArray) -> IntArray:
        """Return the contexts that colluders choose for their plays; all shapes (n_lies,)."""
        chosen = contexts.copy()
        for number, rows in _by_round(rounds):
            chosen[rows] = self._attack.contexts(self._turn(number, users[rows], contexts[rows]))
        return chosen

    def lie(
        self,
        users: IntArray,
        rounds: IntArray,
        contexts: IntArray,
        actions: IntArray,
        rewards: FloatArray,
    ) -> None:
        """Overwrite the rewards of the colluders' plays; all shapes (n_events,)."""
        sees_histories = Knowledge.HISTORIES in self._attack.knows
        for number, rows in _by_round(rounds):
            lies = rows[self._is_bad[users[rows]]]
            if lies.size:
                table = self._attack.rewards(self._turn(number, users[lies], contexts[lies]))
                rewards[lies] = table[np.arange(lies.size), actions[lies]]
            if sees_histories:
                self._attack.observe(
                    PlayedRound(
                        round_number=number,
                        users=users[rows],
                        contexts=contexts[rows],
                        actions=actions[rows],
                        rewards=rewards[rows],
                    )
                )

    def _turn(self, number: int, users: IntArray, contexts: IntArray) -> Turn:
        accounts = self._account_of_user[users]
        return Turn(round_number=number, accounts=accounts, contexts=contexts)


def _by_round(rounds: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield the number and the rows of each round."""
    order = np.argsort(rounds, kind="stable")
    starts = np.searchsorted(rounds[order], np.arange(int(rounds.max(initial=-1)) + 2))
    for number in range(len(starts) - 1):
        yield number, order[starts[number] : starts[number + 1]]
