"""Policies under attack: what they bring honest users, beside an oracle and the plain estimate."""

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.evaluation import Evaluation, evaluate_events
from unswayed.evaluation.coalition import find_coalition
from unswayed.evaluation.log import cell_classes
from unswayed.events import Events, Labels
from unswayed.policy import Policy
from unswayed.randomness import generator
from unswayed.tallies import tally

S, A, N_USERS, N_PLAYS = 10, 5, 2_000, 30
MEANS = np.random.default_rng(5).uniform(0.3, 0.6, (S, A))


def policy_that_plays(choices: np.ndarray) -> Policy:
    table = np.zeros((S, A))
    table[np.arange(S), choices] = 1.0
    return Policy(
        context_labels=Labels.of(range(S)),
        action_labels=Labels.of(range(A)),
        mean_rewards=table,
        low=table,
        high=table,
        counts=np.ones((S, A), dtype=np.int64),
        context_probabilities=np.full(S, 1 / S),
        alpha=0.0,
        method="given",
    )


def log_with(rng: np.random.Generator, lies: str, *, tastes: float = 0.0) -> tuple[Events, float]:
    """Return a log in which a fifth lies about action 2, and the honest uplift of playing it."""
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    contexts, actions = rng.integers(S, size=len(users)), rng.integers(A, size=len(users))
    own = tastes * rng.standard_normal((N_USERS, A))
    means = np.clip(MEANS[contexts, actions] + own[users, actions], 0.02, 0.98)
    rewards = (rng.random(len(users)) < means).astype(float)
    if lies != "none":
        is_lie = (users < N_USERS // 5) & (actions == 2)
        rewards[is_lie] = 1.0 if lies == "push" else 0.0
    events = Events(
        users,
        contexts,
        actions,
        rewards,
        Labels.of(range(N_USERS)),
        Labels.of(range(S)),
        Labels.of(range(A)),
    )
    true = np.clip(MEANS[None] + own[:, None, :], 0.02, 0.98).mean(axis=0) if tastes else MEANS
    return events, float(true[:, 2].mean() - true.mean())


def uplifts(found: Evaluation) -> dict[tuple[str, bool], tuple[float, float, float]]:
    return {
        (one.estimator, one.robust): (one.uplift.estimate, one.uplift.low, one.uplift.high)
        for one in found.estimates
    }


@pytest.mark.parametrize("lies", ["push", "nuke"])
def test_lies_about_what_is_evaluated_hardly_move_it(rng: np.random.Generator, lies: str) -> None:
    events, true = log_with(rng, lies)
    found = evaluate_events(events, policy_that_plays(np.full(S, 2)), stated=0.2)
    by = uplifts(found)
    for name in ("ips", "snips", "dr"):
        # The negative control: the plain estimate is off by a fifth of what is lied.
        assert abs(by[name, False][0] - true) > 0.05
        # Errors of an oracle have a deviation of .004; four of these, and .004 of bias.
        assert abs(by[name, True][0] - true) < 0.02
    assert by["dr", True][1] <= true <= by["dr", True][2]
    assert found.coalition["believed"]


@pytest.mark.parametrize("tastes", [0.0, 0.1])
def test_without_an_attack_nothing_is_lost(rng: np.random.Generator, tastes: float) -> None:
    events, true = log_with(rng, "none", tastes=tastes)
    found = evaluate_events(events, policy_that_plays(np.full(S, 2)), stated=0.2)
    by = uplifts(found)
    assert not found.coalition["believed"]
    assert by["dr", True][0] == pytest.approx(by["dr", False][0], abs=0.003)
    assert by["dr", True][1] <= true <= by["dr", True][2]
    # Where tastes could be a coalition, the interval has both explanations, and says so.
    told = any("both explanations" in warning for warning in found.warnings)
    assert told == (by["dr", True][2] - by["dr", True][1] > 0.03)


@pytest.mark.parametrize("plays", ["best", "second"])
def test_intervals_hold_under_quiet_lies(rng: np.random.Generator, plays: str) -> None:
    """A fifth of the users lies in a third of the plays of the two best items."""
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    contexts, actions = rng.integers(S, size=len(users)), rng.integers(A, size=len(users))
    rewards = (rng.random(len(users)) < MEANS[contexts, actions]).astype(float)
    best, second = np.argsort(-MEANS, axis=1)[:, :2].T
    lies = (users < N_USERS // 5) & (rng.random(len(users)) < 0.35)
    rewards[lies & (actions == best[contexts])] = 0.0
    rewards[lies & (actions == second[contexts])] = 1.0
    names = [Labels.of(range(n)) for n in (N_USERS, S, A)]
    events = Events(users, contexts, actions, rewards, names[0], names[1], names[2])
    choices = best if plays == "best" else second
    true = float(MEANS[np.arange(S), choices].mean() - MEANS.mean())
    found = evaluate_events(events, policy_that_plays(choices), stated=0.2)
    by = uplifts(found)
    # The negative control: lies move the plain estimate by .035, five of its standard errors.
    assert not by["dr", False][1] <= true <= by["dr", False][2]
    for name in ("ips", "snips", "dr"):
        assert by[name, True][1] <= true <= by[name, True][2]
    for one in found.contexts:
        assert one.robust.high - one.robust.low >= one.naive.high - one.naive.low


def test_the_baseline_may_be_another_policy(rng: np.random.Generator) -> None:
    events, _ = log_with(rng, "none")
    found = evaluate_events(
        events,
        policy_that_plays(np.full(S, 2)),
        baseline=policy_that_plays(np.full(S, 2)),
        baseline_name="same.json",
        stated=0.0,
    )
    assert all(one.uplift.estimate == 0.0 for one in found.estimates)
    assert found.to_json()["baseline"] == "same.json"


def test_json_has_the_promised_shape(rng: np.random.Generator) -> None:
    events, _ = log_with(rng, "none")
    told = evaluate_events(events, policy_that_plays(np.full(S, 2)), stated=0.0).to_json()
    assert [(one["estimator"], one["robust"]) for one in told["estimates"]] == [
        (name, robust) for name in ("ips", "snips", "dr") for robust in (False, True)
    ]
    for one in told["estimates"]:
        for part in (one["value"], one["uplift"]):
            assert part["low"] <= part["estimate"] <= part["high"]
    assert len(told["contexts"]) == S
    # Uniform play of five actions: a fifth of the events count, and count alike.
    assert told["effective_sample_size"] == pytest.approx(told["matched_events"])


def test_actions_that_the_log_lacks_are_told(rng: np.random.Generator) -> None:
    events, _ = log_with(rng, "none")
    kept = events.actions != 2
    some = Events(
        events.users[kept],
        events.contexts[kept],
        events.actions[kept],
        events.rewards[kept],
        events.user_labels,
        events.context_labels,
        events.action_labels,
        np.full(int(kept.sum()), 0.25),
    )
    found = evaluate_events(some, policy_that_plays(np.full(S, 2)), stated=0.0)
    assert found.unsupported == 1.0
    assert found.matched == 0
    assert any("never played" in warning for warning in found.warnings)


def test_contexts_of_another_type_are_refused(rng: np.random.Generator) -> None:
    events, _ = log_with(rng, "none")
    named = Events(
        events.users,
        events.contexts,
        events.actions,
        events.rewards,
        events.user_labels,
        Labels.of([f"c{k}" for k in range(S)]),
        events.action_labels,
    )
    with pytest.raises(InputError, match="`context_column`"):
        evaluate_events(named, policy_that_plays(np.full(S, 2)), stated=0.0)


def test_a_coalition_honest_tails_cannot_be_taken_for(rng: np.random.Generator) -> None:
    """Normal rewards without a coalition: nobody is believed to be one."""
    users = np.repeat(np.arange(600), 20)
    contexts, actions = rng.integers(4, size=len(users)), rng.integers(5, size=len(users))
    tallies = tally(
        users,
        contexts,
        actions,
        rng.normal(size=len(users)),
        n_users=600,
        n_contexts=4,
        n_actions=5,
    )
    means = np.zeros((4, 5))
    found = find_coalition(
        tallies,
        cell_classes(means, np.full(4, 1), None),
        alpha=0.2,
        rng=generator(0, "t"),
    )
    assert not found.is_accepted
    assert (found.weights == 1.0).all()
