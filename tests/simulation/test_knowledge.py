"""An attack gets only the knowledge that it declares."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.simulation.learners import Believer
from tests.simulation.worlds import crowd_with, loss
from unswayed.arrays import FloatArray
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    ForbiddenKnowledgeError,
    Knowledge,
    PlayedRound,
    Turn,
)
from unswayed.simulation.attacks.registry import ATTACKS, make_attack

NEEDED = {
    "mean_rewards": Knowledge.BANDIT,
    "context_probabilities": Knowledge.BANDIT,
    "reward_deviations": Knowledge.BANDIT,
    "algorithm": Knowledge.ALGORITHM,
    "assumed_fraction": Knowledge.ALGORITHM,
}


@dataclass(kw_only=True)
class Spy(Attack):
    """Declares some knowledge, reads one field, and records every round it is shown."""

    name = "spy"
    summary = "asks"
    knows: Knowledge
    asks: str
    seen: list[PlayedRound] = field(default_factory=list)

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Ask."""
        super().begin(briefing, rng)
        getattr(briefing, self.asks)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return zeros."""
        return np.zeros((turn.contexts.size, self.briefing.n_actions))

    def observe(self, played: PlayedRound) -> None:
        """Record the round."""
        self.seen.append(played)


@pytest.mark.parametrize("asks", NEEDED)
@pytest.mark.parametrize("knows", [Knowledge(value) for value in range(8)])
def test_an_attack_gets_the_declared_knowledge_and_nothing_else(
    asks: str, knows: Knowledge, seed: int
) -> None:
    spy = Spy(knows=knows, asks=asks)
    if NEEDED[asks] in knows:
        loss(spy, Believer, seed=seed, crowd=crowd_with())
        return
    with pytest.raises(ForbiddenKnowledgeError, match=asks):
        loss(spy, Believer, seed=seed, crowd=crowd_with())


@pytest.mark.parametrize("knows", [Knowledge(value) for value in range(8)])
def test_only_attacks_that_know_histories_observe_rounds(knows: Knowledge, seed: int) -> None:
    spy = Spy(knows=knows, asks="accounts")
    crowd = crowd_with()
    loss(spy, Believer, seed=seed, crowd=crowd)
    n_expected = crowd.interactions_per_user if Knowledge.HISTORIES in knows else 0
    assert [played.round_number for played in spy.seen] == list(range(n_expected))


def test_honest_rewards_require_knowledge_of_the_bandit(seed: int) -> None:
    spy = Spy(knows=Knowledge.OBLIVIOUS, asks="accounts")
    loss(spy, Believer, seed=seed, crowd=crowd_with())
    with pytest.raises(ForbiddenKnowledgeError, match="honest_rewards"):
        spy.briefing.honest_rewards(np.zeros((1, 5)), spy.rng)


def test_the_inner_attack_gets_only_the_knowledge_it_declares(seed: int) -> None:
    inner = Spy(knows=Knowledge.OBLIVIOUS, asks="mean_rewards")
    wrapped = ATTACKS["sleeper"](inner=inner)  # type: ignore[call-arg]  # every wrapper takes one
    with pytest.raises(ForbiddenKnowledgeError, match="mean_rewards"):
        loss(wrapped, Believer, seed=seed, crowd=crowd_with())


def test_wrappers_know_what_the_inner_attack_knows() -> None:
    assert make_attack("sleeper", {"inner": "framing"}).knows == (
        Knowledge.BANDIT | Knowledge.ALGORITHM | Knowledge.HISTORIES
    )
