"""Invalid input is refused in one sentence; input at the limit is accepted."""

from __future__ import annotations

from typing import Any

from tests.refusals import refusal
from unswayed import RobustMCB
from unswayed.events import Events
from unswayed.learners.learning import check_precision
from unswayed.tallies import tally_events


def learner(**options: Any) -> RobustMCB:
    """Return a learner of two actions without observations."""
    return RobustMCB(actions=["tea", "milk"], secret=bytes(16), **options)


def test_labels_are_accepted_up_to_the_limits() -> None:
    by_name, by_number = learner(), learner()
    by_name.decide("ann", "home")
    assert refusal(by_name.decide, 7, "home") == (
        "label 7 does not fit: labels must be all strings or all integers."
    )
    assert refusal(by_number.decide, 2**63, 1) == (
        "an integer label does not fit into 64 bits; write the labels as strings."
    )
    assert "64 bits" in refusal(RobustMCB, actions=[2**70, 1])
    assert by_number.decide_many([-(2**63), 2**63 - 1], [1, 1])


def test_rewards_too_close_together_for_their_size_are_refused() -> None:
    def of(*rewards: float) -> Any:
        return tally_events(Events.of(["ann", "bob"], ["home"] * 2, ["tea", "milk"], rewards))

    check_precision(of(2e7, 2e7 + 1))
    check_precision(of(1e9, 1e9))  # a different check refuses equal rewards
    assert refusal(check_precision, of(4e7, 4e7 + 1)) == (
        "rewards lie between 40000000 and 40000001, too close together for their size; subtract a "
        "constant from all of them."
    )
    assert "between -40000001 and -40000000," in refusal(check_precision, of(-4e7 - 1, -4e7))


def test_errors_of_a_learner_say_what_it_needs() -> None:
    empty = learner()
    assert refusal(empty.predict, ["home"]) == (
        "nothing was learned yet; call fit(log) or policy() first."
    )
    assert refusal(empty.policy) == (
        "nothing to learn from yet; call fit(log), or decide and observe, first."
    )
    assert refusal(RobustMCB().decide, "ann", "home") == (
        "to decide online, give the labels of the actions: actions=[…]."
    )
    assert refusal(learner, warmup_interactions=-1) == (
        "warmup_interactions is -1; it counts plays."
    )
    assert refusal(empty.decide_many, ["ann"], ["home"], mode="best") == (
        "mode is explore or policy, not 'best'."
    )
    assert refusal(empty.decide_many, ["ann", "bob"], ["home"]) == (
        "2 users but 1 contexts; give one for each."
    )
    assert refusal(empty.remove_action, "gin") == (
        "there is no action 'gin' to remove; see `action_labels_`."
    )
