"""Learning a policy from tallies: what the method receives, and how its results are used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.learners.recording import RECORDED, Recording
from tests.refusals import refusal
from unswayed.events import Labels
from unswayed.learners.design import Design, RewardBound, sticky_design, uniform_design
from unswayed.learners.learning import learn_policy
from unswayed.learners.methods import METHODS
from unswayed.learners.unknown_fraction import estimate_fraction
from unswayed.policy import Origin
from unswayed.tallies import Tallies, tally

CONTEXTS, ACTIONS = Labels.of(["home", "cart"]), Labels.of(["tea", "milk"])


def played(*rows: tuple[int, int, int, float], n_users: int = 4) -> Tallies:
    """Return the tallies of rows of user, context, action and reward."""
    users, contexts, actions, rewards = map(np.array, zip(*rows, strict=True))
    return tally(users, contexts, actions, rewards, n_users=n_users, n_contexts=2, n_actions=2)


# By plain means milk is better at home and tea in the cart; the last user has no plays.
DAY = played((0, 0, 0, 0.2), (0, 0, 1, 0.6), (1, 0, 1, 0.8), (1, 1, 0, 0.5), (2, 1, 1, 0.0))
DESIGN = uniform_design(DAY)


def learn(tallies: Tallies = DAY, design: Design = DESIGN, **options: Any) -> Any:
    given: dict[str, Any] = {"alpha": 0.2, "method": RECORDED} | options
    return learn_policy(tallies.labelled(Labels.of([]), CONTEXTS, ACTIONS), design, **given)


def test_the_policy_records_its_origin(recorded: Recording) -> None:
    recorded.evidence = {"removed": 0.25, "lies": [{"cells": [1], "raises": True, "accounts": 1.0}]}
    learned = learn()
    policy = learned.policy
    np.testing.assert_allclose(policy.mean_rewards, [[0.2, 0.7], [0.5, 0.0]])
    assert (policy.context_labels, policy.action_labels) == (CONTEXTS, ACTIONS)
    assert (policy.alpha, policy.method) == (0.2, RECORDED)
    assert policy.source == {
        "events": 5,
        "users": 4,
        "evidence": {
            "removed": 0.25,
            "lies": [{"direction": "up", "accounts": 1.0, "contexts": 1, "actions": ["milk"]}],
            "undecided": [],
        },
        "changed": {},
        "intervals": RewardBound().to_json(),
        "origin": Origin.of(CONTEXTS, ACTIONS, policy.counts, Labels.of([])).to_json(),
    }
    np.testing.assert_array_equal(learned.estimates.mean_rewards, policy.mean_rewards)
    assert learned.unknown_fraction is None


def test_decisions_that_differ_from_plain_means_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def turned(*given: Any, **options: Any) -> Any:
        found = Recording()(*given, **options)
        return replace(found, mean_rewards=found.mean_rewards[:, ::-1])

    monkeypatch.setitem(METHODS, "turned", turned)
    found = learn(method="turned").policy.source
    assert found["changed"] == {"home": "milk", "cart": "tea"}
    assert found["evidence"] == {"lies": [], "undecided": []}


def test_without_a_certificate_a_policy_claims_no_flip_fraction(recorded: Recording) -> None:
    """That at least one account is needed holds for every method, so it is not stated."""
    assert recorded.given == []
    learned = learn()
    assert not learned.flips.is_certified
    assert learned.policy.flip_fraction is learned.policy.flip_fraction_upper is None


def sticky_log(rng: np.random.Generator, n_users: int = 120) -> tuple[Tallies, Design]:
    """Return plays of users who keep one action in each context; milk is clearly the best."""
    users = np.repeat(np.arange(n_users), 6)
    contexts = np.tile([0, 1, 0, 1, 0, 1], n_users)
    assigned = rng.integers(2, size=(n_users, 2))
    actions = assigned[users, contexts]
    rewards = (rng.random(users.size) < 0.1 + 0.8 * actions).astype(float)
    tallies = tally(users, contexts, actions, rewards, n_users=n_users, n_contexts=2, n_actions=2)
    return tallies, sticky_design(tallies)


def test_certified_flip_fractions_are_those_of_the_bounds(rng: np.random.Generator) -> None:
    tallies, design = sticky_log(rng)
    learned = learn(tallies, design, method="paper", alpha=0.1)
    assert learned.flips is not None
    assert learned.flips.is_certified
    np.testing.assert_array_equal(learned.policy.flip_fraction, learned.flips.lower)
    assert np.isfinite(learned.flips.upper).all()
    np.testing.assert_array_equal(learned.policy.flip_fraction_upper, learned.flips.upper)


def test_an_unknown_share_is_estimated_from_the_tallies(
    recorded: Recording, rng: np.random.Generator
) -> None:
    tallies, design = sticky_log(rng)
    warmup = tallies.of_range(0, tallies.n_users)
    expected = estimate_fraction(tallies)
    learned = learn(tallies, design, alpha="auto", warmup=warmup)
    assert learned.unknown_fraction == expected
    assert recorded.given[-1].alpha == expected.chosen
    assert learned.policy.alpha == expected.chosen
    assert learned.policy.source["adversarial_fraction"] == expected.to_json()


def test_learning_needs_events_and_at_least_two_actions(recorded: Recording) -> None:
    empty = played((0, 0, 0, 1.0)).of_range(0, 0)
    assert refusal(learn, empty) == (
        "there are no interactions to learn from; give at least one event."
    )
    one = replace(played((0, 0, 0, 1.0)), n_actions=1)
    assert refusal(learn_policy, one, DESIGN, alpha=0.1, method=RECORDED) == (
        "there is 1 action; a decision needs at least two."
    )
    assert recorded.given == []
