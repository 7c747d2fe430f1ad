"""Groups of taste in numbers, against loops over users and cells."""

from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Labels
from unswayed.learners.design import Design, DesignName, uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.learners.tastes import NO_GROUP, Groups, check_groups, group_decisions
from unswayed.policy import Policy
from unswayed.tallies import Tallies, tally

USERS, CONTEXTS, ACTIONS = 120, 12, 3


def tastes(
    rng: np.random.Generator, *, plays: int = 140, noise: float = 0.5
) -> tuple[Tallies, Policy]:
    """Return plays of two tastes, and the policy of the first.

    The last user never came, and nothing is known of the last context.
    """
    users = np.repeat(np.arange(USERS - 1), plays)
    contexts = rng.integers(CONTEXTS, size=len(users))
    actions = rng.integers(ACTIONS, size=len(users))
    means = np.array([[0.8, 0.3, 0.1], [0.1, 0.9, 0.2], [0.3, 0.4, 0.7]])[np.arange(CONTEXTS) % 3]
    best = (contexts + (rng.random(USERS) < 0.45)[users]) % ACTIONS
    rewards = 0.3 + 0.5 * (actions == best) + noise * rng.standard_normal(len(users))
    shape: dict[str, Any] = {"n_users": USERS, "n_contexts": CONTEXTS, "n_actions": ACTIONS}
    table = np.where(means == means.max(axis=1, keepdims=True), 0.6, 0.35)
    table[11], table[4, 2] = np.nan, np.nan
    return tally(users, contexts, actions, rewards, **shape), a_policy(table)


def a_policy(table: np.ndarray, **changes: Any) -> Policy:
    settings: dict[str, Any] = {"alpha": 0.1, "method": "paper"}
    return Policy(
        context_labels=Labels.numbered(len(table)),
        action_labels=Labels.numbered(table.shape[1]),
        mean_rewards=table,
        low=table - 0.1,
        high=table + 0.1,
        counts=np.ones(table.shape, np.int64),
        context_probabilities=np.full(len(table), 1 / len(table)),
        **(settings | changes),
    )


def test_groups_say_how_many_there_are_and_what_they_gain() -> None:
    members = np.array([1, 0, 1, NO_GROUP] + [1] * 1000)
    assert Groups(members, (0.25, 0.123), 5).sizes.tolist() == [1, 1002]
    assert Groups(members, (0.25, 0.123), 5).statement() == (
        "2 groups of taste (error rate 1% if user means are near normal, colluders allowed for): "
        "1 user gains at least 0.25 a play, 1,002 users gain at least 0.12 a play where "
        "decisions differ; 1 user with the common policy."
    )
    nobody = np.full(3, NO_GROUP)
    assert Groups(nobody, (0.5,), 3).sizes.tolist() == [0]
    assert Groups(nobody, (), 14).statement() == (
        "the data do not support groups of taste: none of 14 candidates gains on held-out plays "
        "(error rate 1% if user means are near normal, colluders allowed for), and everybody "
        "gets the common policy."
    )


def test_a_number_of_groups_is_one_from_2_to_20() -> None:
    assert [check_groups(value) for value in (2, 20, "2", " 20 ", "auto")] == [2, 20, 2, 20, "auto"]
    for bad in (1, 21, "1", "21", True, "AUTO", None, 3.0):
        with pytest.raises(InputError) as refused:
            check_groups(bad)
        assert str(refused.value) == (
            f"`groups` is {bad!r}: give a number of groups from 2 to 20, or auto."
        )


@pytest.mark.parametrize("design", ["uniform", "sticky"])
def test_a_group_is_learned_from_its_members_for_all_colluders(
    design: DesignName, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 120 users 12 may collude: a fifth of 60, and more than the most that is assumed of 20."""
    seen: list[tuple[int, float, bool]] = []

    def method(tallies: Tallies, chosen: Design, **options: Any) -> Estimates:
        is_sticky = bool(chosen.is_sticky.all())
        seen.append((tallies.n_users, options["alpha"], is_sticky))
        return learn_paper(tallies, uniform_design(tallies), **options)

    monkeypatch.setitem(METHODS, "paper", method)  # type: ignore[arg-type]
    tallies, policy = tastes(rng)
    members = np.array([0] * 60 + [NO_GROUP] * 40 + [1] * 20)
    groups = Groups(members, (0.1, 0.2), 2)
    names = Labels.of([f"user-{code}" for code in range(USERS)])
    own = group_decisions(groups, tallies, policy, names, design=design)
    assert seen == [(60, 0.2, design == "sticky"), (20, 0.45, design == "sticky")]
    rows = np.flatnonzero(members != NO_GROUP)
    assert list(own.user_labels) == [f"user-{row}" for row in rows]
    for number in (0, 1):
        theirs = tallies.of_users(np.flatnonzero(members == number))
        means = learn_paper(theirs, uniform_design(theirs), alpha=(0.2, 0.45)[number]).mean_rewards
        expected = [
            UNKNOWN if best == common else best
            for best, common in zip(means.argmax(axis=1), policy.actions, strict=True)
        ]
        found = [own.action(f"user-{60 * number + 50}", context) for context in range(CONTEXTS)]
        assert found == expected
        assert len({*expected}) > 1
    assert own.group("user-70") == UNKNOWN
    assert (own.group("user-59"), own.group("user-100")) == (0, 1)


def test_a_context_that_a_group_never_met_stays_as_it_is(rng: np.random.Generator) -> None:
    n = 3_000
    users, actions = rng.integers(30, size=n), rng.integers(2, size=n)
    shape: dict[str, Any] = {"n_users": 30, "n_contexts": 2, "n_actions": 2}
    rewards = actions + 0.1 * rng.standard_normal(n)
    tallies = tally(users, np.zeros(n, np.int64), actions, rewards, **shape)
    policy = a_policy(np.array([[0.9, 0.1], [0.9, 0.1]]))
    groups = Groups(np.zeros(30, np.int64), (0.5,), 2)
    own = group_decisions(groups, tallies, policy, Labels.numbered(30), design="uniform")
    assert [own.action(3, context) for context in (0, 1)] == [1, UNKNOWN]


def test_no_groups_decide_nothing(rng: np.random.Generator) -> None:
    tallies, policy = tastes(rng, plays=10)
    none = Groups(np.full(USERS, NO_GROUP), (), 14)
    own = group_decisions(none, tallies, policy, Labels.numbered(USERS), design="uniform")
    assert len(own.user_labels) == 0
    assert own.action(3, 0) == UNKNOWN
