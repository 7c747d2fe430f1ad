"""The contract check: honest learners pass, and one that reads unplayed outcomes fails."""

from __future__ import annotations

import pytest

from tests.learners.contract import check_learner
from tests.simulation.learners import Believer, Peeker
from unswayed.learners.players import learner_specs


def test_a_learner_that_reads_only_what_it_played_passes(seed: int) -> None:
    check_learner(Believer, seed=seed)


def test_a_learner_that_peeks_at_unplayed_outcomes_is_caught(seed: int) -> None:
    with pytest.raises(AssertionError, match="unplayed"):
        check_learner(Peeker, seed=seed)


@pytest.mark.parametrize("name", learner_specs())
def test_every_registered_learner_satisfies_the_contract(name: str, seed: int) -> None:
    check_learner(learner_specs()[name].make, seed=seed)
