"""The upper estimate of the share of colluders, and its stated limits."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from tests.learners.swap_worlds import make_world
from unswayed import Events, RobustMCB
from unswayed.learners.unknown_fraction import (
    FLOOR,
    UNSEEN,
    UnknownFraction,
    estimate_fraction,
)
from unswayed.limits import smallest_swap_coalition

Streams = Callable[..., np.random.Generator]


def estimated(rng: np.random.Generator, share: float, **options: float) -> UnknownFraction:
    """Return the estimate in a world in which this share of the users lies in every cell."""
    world = make_world(rng, alpha=share, **options)  # type: ignore[arg-type]  # typed by name
    return estimate_fraction(world.tallies)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.4])
@pytest.mark.parametrize("options", [{}, {"is_binary": True, "is_sticky": False}, {"taste": 0.1}])
def test_the_estimate_covers_a_coalition_that_lies_loudly(
    share: float, options: dict[str, float], streams: Streams
) -> None:
    """A group counts whether it is flagged or suspected.

    Colluders move 2 of 5 actions by at least .35, in 40 plays, which is .35 sqrt(16)/.5 = 2.8
    standard deviations of a binary user. A threshold in the middle has an error of at most
    Phi(-1.4) = 8% on either side, so the detected share differs from the truth by less than .08.
    """
    found = estimated(streams(str(share), *options), share, **options)
    assert found.accused + found.suspected == pytest.approx(share, abs=0.08)
    assert found.upper > found.accused + found.suspected
    assert f"{found.accused:.1%} of the users look like a coalition" in found.statement()
    assert share <= found.chosen <= min(share + 0.08 + 0.03 + UNSEEN, 0.49)


@pytest.mark.parametrize("options", [{}, {"is_binary": True, "is_sticky": False}, {"taste": 0.1}])
def test_without_a_coalition_little_is_stated(options: dict[str, float], streams: Streams) -> None:
    """Two-sided tastes are not taken for a coalition either."""
    found = estimated(streams("nobody", *options), 0.0, **options)
    assert found.accused == found.suspected == found.upper == 0.0
    assert found.chosen == FLOOR
    assert "no coalition was seen" in found.statement()


def test_an_honest_minority_may_be_suspected_but_hardly_more_than_it(
    rng: np.random.Generator,
) -> None:
    """10% with other tastes look the same as 10% of colluders who change no decision."""
    found = estimated(rng, 0.0, minority=0.1)
    assert found.accused == 0.0
    # A binomial(1500, .1) share plus four standard deviations is .13; .03 covers the upper bound.
    assert found.chosen <= 0.13 + 0.03 + UNSEEN


def test_an_invisible_coalition_is_not_claimed_to_be_absent(
    rng: np.random.Generator,
) -> None:
    """With four binary plays per user, even a coalition of 30% could be hidden."""
    found = estimated(rng, 0.3, n_users=300, plays=4, is_binary=True, is_sticky=False)
    assert found.hidden_from is not None
    assert found.hidden_from < 0.3
    assert f"From {found.hidden_from:.1%} on" in found.statement()


def test_the_limit_is_that_of_the_limits(rng: np.random.Generator) -> None:
    found = estimated(rng, 0.0, is_binary=True, is_sticky=False)
    # Binary rewards with means from .35 to .7 have standard deviations from .458 to .5.
    shares = [
        smallest_swap_coalition(found.gap, round(found.answers_per_user), 5, noise=noise)
        for noise in (0.5, 0.45)
    ]
    assert shares[0] <= (found.hidden_from or 0.0) <= shares[1]


@pytest.mark.parametrize("method", ["paper", "bounded"])
def test_a_policy_records_the_chosen_share_and_the_reason(
    method: str, rng: np.random.Generator
) -> None:
    users, actions = np.repeat(np.arange(400), 8), rng.integers(3, size=3200)
    rewards = np.where(actions == 1, 0.8, 0.2) + 0.1 * rng.standard_normal(3200)
    is_liar = users < 120
    rewards[is_liar] = np.where(actions[is_liar] == 1, 0.0, 1.0)
    log = Events.of(users, rng.choice(["home", "search"], 3200), actions, rewards)
    learner = RobustMCB("auto", method=method).fit(log)
    found = learner.unknown_fraction_
    assert found is not None
    assert 0.3 <= learner.policy_.alpha == found.chosen
    assert learner.predict(["home", "search"]) == [1, 1]
    told = json.loads(json.dumps(learner.policy_.source["adversarial_fraction"]))
    assert told["chosen"] == found.chosen
    assert told["statement"] == found.statement()
    assert RobustMCB(0.3, method=method).fit(log).unknown_fraction_ is None


def test_online_learning_takes_auto_too(rng: np.random.Generator) -> None:
    """Online learning works even if a context has no plays."""
    contexts = ["home", "cart"]
    learner = RobustMCB("auto", actions=["tea", "milk"], contexts=contexts, secret=bytes(16))
    users, contexts = list(range(300)) * 6, ["home"] * 1800
    actions = learner.decide_many(users, contexts)
    rewards = [float(rng.random() < (0.8 if action == "milk" else 0.3)) for action in actions]
    learner.observe_many(users, contexts, actions, rewards)
    policy = learner.policy()
    assert policy.decide("home").action == "milk"
    assert FLOOR <= policy.alpha <= 0.49
    assert learner.unknown_fraction_ is not None
    assert learner.unknown_fraction_.gap == pytest.approx(0.5, abs=0.4)
