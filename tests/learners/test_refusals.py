"""Invalid input is refused in a one-sentence error; input at the limit is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.refusals import refusal
from unswayed import RobustMCB
from unswayed.events import Events
from unswayed.learners.exploration import GrowingLabels
from unswayed.learners.learning import check_actions, check_precision
from unswayed.learners.options import LearnOptions
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.tallies import tally_events


def learner(**options: Any) -> RobustMCB:
    """Return a learner of two actions without observations."""
    return RobustMCB(actions=["tea", "milk"], secret=bytes(16), **options)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: check_actions(0), "there are 0 actions; a decision needs at least two."),
        (lambda: check_actions(1), "there is 1 action; a decision needs at least two."),
        (
            lambda: check_fraction_or_auto("many"),
            "`alpha` is 'many': give a number below 0.5, or auto.",
        ),
        (
            lambda: LearnOptions(design="often"),  # type: ignore[arg-type]
            "`design` is auto or sticky or uniform, not 'often'.",
        ),
        (
            lambda: GrowingLabels(["ann"]).codes([7, 8]),
            "label 7 does not fit: labels must be all strings or all integers.",
        ),
        (
            lambda: GrowingLabels().codes([1, 2**63]),
            "an integer label does not fit into 64 bits; write the labels as strings.",
        ),
        (
            lambda: GrowingLabels().codes(["ann", "\ud800"]),
            "label '\\ud800' is not valid Unicode text; decode it properly first.",
        ),
    ],
)
def test_invalid_options_and_labels_are_refused_in_one_sentence(
    call: Callable[[], Any], sentence: str
) -> None:
    assert refusal(call) == sentence


def test_labels_at_the_limit_are_taken() -> None:
    assert GrowingLabels().codes([-(2**63), 2**63 - 1]).tolist() == [0, 1]
    assert check_actions(2) is None  # type: ignore[func-returns-value]


def test_rewards_too_close_together_for_their_size_are_refused() -> None:
    def of(*rewards: float) -> Any:
        return tally_events(Events.of(["ann", "bob"], ["home"] * 2, ["tea", "milk"], rewards))

    check_precision(of(2e7, 2e7 + 1))
    check_precision(of(1e9, 1e9))  # equal rewards are refused elsewhere
    assert refusal(check_precision, of(4e7, 4e7 + 1)) == (
        "rewards lie between 40000000 and 40000001, too close together for their size; subtract a "
        "constant from all of them."
    )
    assert "between -40000001 and -40000000," in refusal(check_precision, of(-4e7 - 1, -4e7))


def test_a_learner_says_what_it_needs() -> None:
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
