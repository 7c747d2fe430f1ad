"""The online learner with malformed requests, several threads, and pickling."""

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unswayed import InputError, RobustMCB

SECRET = bytes(range(16))


def shop(**options: Any) -> RobustMCB:
    return RobustMCB(
        0.1, actions=["tea", "milk"], contexts=["home", "search"], secret=SECRET, **options
    )


BAD_LABELS = [None, 1.5, True, b"ann", ["ann"], {"a": 1}, 7, "\ud800", float("nan")]


@pytest.mark.parametrize("bad", BAD_LABELS, ids=lambda label: type(label).__name__)
def test_a_malformed_request_has_no_effect(bad: Any) -> None:
    """Afterwards new users get the same actions as from a learner without such requests."""
    learner, untouched = shop(), shop()
    learner.decide("ann", "home")
    untouched.decide("ann", "home")
    for user, context in (("bob", bad), (bad, "home"), (bad, bad), ("carl", bad)):
        with pytest.raises(InputError):
            learner.decide(user, context)
        with pytest.raises(InputError):
            learner.observe(user, context, "tea", 1.0)
    users = [f"user-{number}" for number in range(300)]
    contexts = [("home", "search", "new")[number % 3] for number in range(300)]
    assert learner.decide_many(users, contexts) == untouched.decide_many(users, contexts)
    learner.observe_many(users, contexts, learner.decide_many(users, contexts), np.ones(300))
    assert learner.policy().decide("home").is_known


def test_a_malformed_first_request_does_not_fix_the_type_of_labels() -> None:
    learner = shop()
    with pytest.raises(InputError):
        learner.decide_many(["ann", None], ["home", "home"])  # type: ignore[list-item]
    with pytest.raises(InputError):
        learner.decide(1, 7)
    assert learner.decide(1, "home") in ("tea", "milk")


@pytest.mark.parametrize("rewards", [["much"], [None], [[1.0]], 1.0, [1j], [10**400], [1e300], []])
def test_rewards_that_are_not_numbers_are_refused_in_one_sentence(rewards: Any) -> None:
    learner = shop()
    with pytest.raises(InputError, match="reward"):
        learner.observe_many(["ann"], ["home"], ["tea"], rewards)
    with pytest.raises(InputError, match="nothing to learn from yet"):
        learner.policy()


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Let threads take turns as often as Python allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None], n_threads: int) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.usefixtures("frequent_switches")
def test_a_policy_can_be_learned_while_other_threads_decide() -> None:
    learner = shop(method="paper")
    users = [f"user-{number}" for number in range(400)]
    for context in ("home", "search"):
        learner.observe_many(
            users, [context] * 400, learner.decide_many(users, [context] * 400), np.ones(400)
        )

    def work(number: int) -> None:
        for play in range(20):
            if number == 0:
                policy = learner.policy()
                assert policy.mean_rewards.shape == (len(policy.context_labels), 2)
            else:
                user, context = f"{number}-{play}", f"new-{play}"
                learner.observe(user, context, learner.decide(user, context), 1.0)

    in_threads(work, 4)


def test_a_learner_continues_after_pickling() -> None:
    learner = shop()
    learner.observe("ann", "home", learner.decide("ann", "home"), 1.0)
    copy = pickle.loads(pickle.dumps(learner))
    assert copy.decide_many(["ann", "bob"], ["new", "home"]) == learner.decide_many(
        ["ann", "bob"], ["new", "home"]
    )


requests = st.lists(
    st.tuples(
        st.sampled_from(["decide", "observe", "policy"]),
        st.one_of(st.text(max_size=3), st.integers(), st.none(), st.floats(), st.binary()),
        st.one_of(st.text(max_size=2), st.integers(), st.none(), st.sampled_from(["home"])),
        st.one_of(st.sampled_from(["tea", "milk"]), st.text(max_size=2), st.none()),
        st.one_of(st.floats(), st.none(), st.text(max_size=2), st.integers()),
    ),
    max_size=12,
)


@given(requests)
def test_any_sequence_of_requests_gives_results_or_input_errors(calls: list[Any]) -> None:
    learner = shop(method="paper")
    for kind, user, context, action, reward in calls:
        try:
            match kind:
                case "decide":
                    assert learner.decide(user, context) in ("tea", "milk")
                case "observe":
                    learner.observe(user, context, action, reward)
        except InputError:
            continue
    users = [f"u{number}" for number in range(20)]
    if not any(type(label) is int for label in learner._users.labels()):
        assert learner.decide_many(users, ["home"] * 20) == shop().decide_many(users, ["home"] * 20)
