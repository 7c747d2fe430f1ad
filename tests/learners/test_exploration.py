"""Exploration by keyed hash: actions, codes and the phase that each reward belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unswayed.learners.exploration import Exploration, check_bounds
from unswayed.learners.paper import estimate_context_probabilities, frequent_contexts
from unswayed.policy import Assignment

DRAW = Assignment(secret=bytes(range(16)), epoch=3)
USERS = [f"user-{number}" for number in range(30)]
CONTEXTS = ["home", "cart", "search"]


def explore(
    n_contexts: int = 2, *, n_actions: int = 2, warmup: int = 0, users: list[str] = USERS
) -> Exploration:
    exploration = Exploration(
        n_actions=n_actions,
        contexts=CONTEXTS[:n_contexts],
        assignment=DRAW,
        warmup_interactions=warmup,
        alpha=0.2,
    )
    exploration.add_users(users)
    return exploration


def drawn(user: int, context: int, play: int | None, n_actions: int = 2) -> int:
    """Return the action that the assignment gives to one play of a user."""
    (action,) = DRAW.actions(
        DRAW.digests("user", [USERS[user]]),
        DRAW.digests("context", [CONTEXTS[context]]),
        n_actions=n_actions,
        plays=None if play is None else np.array([play]),
    ).tolist()
    return int(action)


def observe(exploration: Exploration, *rows: tuple[int, int, int], rewards: Any = 1.0) -> None:
    """Observe rows of user, context and action."""
    users, contexts, actions = (np.array(column) for column in zip(*rows, strict=True))
    exploration.observe(users, contexts, actions, np.broadcast_to(rewards, len(rows)))


def n_plays(exploration: Exploration) -> dict[str, int]:
    return {name: int(part.counts.sum()) for name, part in exploration.phases().items()}


@pytest.mark.parametrize("warmup", [0, 40, 1000])
def test_single_decisions_equal_those_of_a_batch(warmup: int, rng: np.random.Generator) -> None:
    """Tested without a warm-up, during it and after it."""
    single, batch = explore(3, warmup=warmup), explore(3, warmup=warmup)
    users, contexts = rng.integers(30, size=200), rng.integers(3, size=200)
    for exploration in (single, batch):
        actions = exploration.decide(users, contexts)
        exploration.observe(users, contexts, actions, np.ones(200))
    found = [single.decide_one(*pair) for pair in zip(users, contexts, strict=True)]
    assert found == batch.decide(users, contexts).tolist()
    assert single.plays.tolist() == batch.plays.tolist()
    assert single.to_json() == batch.to_json()


def test_errors_name_codes_that_are_out_of_bounds() -> None:
    exploration = explore(2, users=USERS[:3])
    zero, one = np.zeros(1, np.int64), np.ones(1)
    for arguments, sentence in (
        ((zero + 3, zero, zero), "user code 3 is not among the 3 known ones"),
        ((zero, zero - 1, zero), "context code -1 is not among the 2 known ones"),
        ((zero, zero + 2, zero), "context code 2 is not among the 2 known ones"),
        ((zero, zero, zero + 2), "action code 2 is not among the 2 known ones"),
    ):
        with pytest.raises(IndexError) as caught:
            exploration.observe(*arguments, one)
        assert str(caught.value) == sentence
    check_bounds(np.zeros(0, np.int64), 0, "user")
    check_bounds(np.array([0, 4]), 5, "user")
    with pytest.raises(IndexError, match=r"^user code 7 is not among the 5 known ones$"):
        check_bounds(np.array([1, 0, 7, -1, 9]), 5, "user")


@pytest.mark.parametrize("size", [7, 39, 40, 41, 200])
def test_the_state_does_not_depend_on_batches(size: int) -> None:
    """The frequent contexts are fixed after 40 plays, even within a batch."""
    rng = np.random.default_rng(5)
    users, contexts = rng.integers(30, size=200), rng.choice(3, p=[0.5, 0.4, 0.1], size=200)
    actions, rewards = rng.integers(2, size=200), rng.random(200)
    exploration = explore(3, warmup=40)
    for begin in range(0, 200, size):
        part = slice(begin, begin + size)
        exploration.observe(users[part], contexts[part], actions[part], rewards[part])
    one_by_one = explore(3, warmup=40)
    for row in range(200):
        part = slice(row, row + 1)
        one_by_one.observe(users[part], contexts[part], actions[part], rewards[part])
    assert exploration.to_json() == one_by_one.to_json()
    assert exploration.n_events == 200
    for name, phase in exploration.phases().items():
        other = one_by_one.phases()[name]
        np.testing.assert_array_equal(phase.cells, other.cells)
        np.testing.assert_array_equal(phase.indptr, other.indptr)
        np.testing.assert_array_equal(phase.counts, other.counts)
        np.testing.assert_allclose(phase.sums, other.sums)
    # Later plays belong to the warm-up if their action is no longer assigned to the user.
    is_late = [
        context < 2 and action != drawn(user, context, None)
        for user, context, action in zip(users[40:], contexts[40:], actions[40:], strict=True)
    ]
    assert n_plays(exploration) == {"warmup": 40 + sum(is_late), "main": 160 - sum(is_late)}


def test_frequent_contexts_are_those_of_algorithm_1(rng: np.random.Generator) -> None:
    exploration = explore(3, warmup=300)
    users, contexts = rng.integers(30, size=300), rng.choice(3, p=[0.2, 0.5, 0.3], size=300)
    actions = exploration.decide(users, contexts)
    exploration.observe(users, contexts, actions, np.ones(300))
    warmup = exploration.phases()["warmup"]
    estimate = estimate_context_probabilities(warmup, alpha=0.2)
    expected = frequent_contexts(estimate.context_probabilities, n_actions=2)
    exploration.decide(users[:1], contexts[:1])
    assert exploration.to_json()["sticky"] == expected.tolist() == [False, True, True]
