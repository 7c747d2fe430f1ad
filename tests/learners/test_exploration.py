"""Who is asked to play what, drawn by hand; and where each reward is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unswayed.learners.online.exploration import Exploration, check_bounds
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
    """Return the action of one user's play by the assignment itself; no play is for ever."""
    (action,) = DRAW.actions(
        DRAW.digests("user", [USERS[user]]),
        DRAW.digests("context", [CONTEXTS[context]]),
        n_actions=n_actions,
        plays=None if play is None else np.array([play]),
    ).tolist()
    return int(action)


def observe(exploration: Exploration, *rows: tuple[int, int, int], rewards: Any = 1.0) -> None:
    """Take in rows of user, context and action."""
    users, contexts, actions = (np.array(column) for column in zip(*rows, strict=True))
    exploration.observe(users, contexts, actions, np.broadcast_to(rewards, len(rows)))


def n_plays(exploration: Exploration) -> dict[str, int]:
    return {name: int(part.counts.sum()) for name, part in exploration.phases().items()}


@pytest.mark.parametrize(
    ("n_contexts", "n_actions", "is_sticky"), [(2, 2, True), (3, 2, False), (1, 3, True)]
)
def test_without_a_warm_up_contexts_are_sticky_if_no_more_than_actions(
    n_contexts: int, n_actions: int, is_sticky: bool
) -> None:
    exploration = explore(n_contexts, n_actions=n_actions)
    assert exploration.to_json() == {
        "warmup_interactions": 0,
        "adversarial_fraction": 0.2,
        "sticky": [is_sticky] * n_contexts,
    }
    users = np.array([0, 1, 0, 2, 0, 1])
    contexts = np.array([0, 0, 0, n_contexts - 1, n_contexts - 1, 0])
    numbers = [0, 0, 1, 0, 2, 1]  # each user's plays are counted over all contexts
    assert exploration.decide(users, contexts).tolist() == [
        drawn(user, context, None if is_sticky else number, n_actions)
        for user, context, number in zip(users, contexts, numbers, strict=True)
    ]
    assert exploration.plays.tolist()[:4] == [3, 2, 1, 0]


def test_contexts_that_turn_up_later_are_rare() -> None:
    exploration = explore(1)
    exploration.add_contexts(["cart", "search"])
    assert exploration.n_contexts == 3
    assert exploration.to_json()["sticky"] == [True, False, False]
    contexts = np.array([1, 0, 2, 1])
    assert exploration.decide(np.zeros(4, np.int64), contexts).tolist() == [
        *(drawn(0, 1, 0), drawn(0, 0, None), drawn(0, 2, 2), drawn(0, 1, 3)),
    ]


def test_users_who_come_later_begin_at_their_first_play() -> None:
    exploration = explore(3, users=USERS[:1])
    exploration.decide(np.zeros(5, np.int64), np.zeros(5, np.int64))
    exploration.add_users(USERS[1:3])
    assert exploration.n_users == 3
    assert exploration.plays.tolist() == [5, 0, 0]
    assert exploration.plays.dtype == np.int64
    later = exploration.decide(np.array([2, 0, 2]), np.array([1, 1, 1]))
    assert later.tolist() == [drawn(2, 1, 0), drawn(0, 1, 5), drawn(2, 1, 1)]


@pytest.mark.parametrize("warmup", [0, 40, 1000])
def test_single_decisions_are_those_of_a_batch(warmup: int, rng: np.random.Generator) -> None:
    """Without a warm-up, after it, and while it lasts."""
    single, batch = explore(3, warmup=warmup), explore(3, warmup=warmup)
    users, contexts = rng.integers(30, size=200), rng.integers(3, size=200)
    for exploration in (single, batch):
        actions = exploration.decide(users, contexts)
        exploration.observe(users, contexts, actions, np.ones(200))
    found = [single.decide_one(*pair) for pair in zip(users, contexts, strict=True)]
    assert found == batch.decide(users, contexts).tolist()
    assert single.plays.tolist() == batch.plays.tolist()
    assert single.to_json() == batch.to_json()


def test_single_decisions_fix_the_frequent_contexts_where_the_warm_up_ends() -> None:
    exploration = explore(3, warmup=3)
    observe(exploration, (0, 0, 0), (1, 0, 0), (2, 1, 0))
    assert exploration.to_json()["sticky"] is None
    assert exploration.decide_one(5, 0) == drawn(5, 0, None)
    assert exploration.to_json()["sticky"] == [True, True, False]
    assert [exploration.decide_one(5, 2) for _ in range(8)] == [
        drawn(5, 2, play) for play in range(1, 9)
    ]


def test_only_codes_that_were_added_are_known() -> None:
    exploration = explore(2, users=USERS[:3])
    known = [(0, 0), (2, 1), (0, 1), (2, 0)]
    unknown = [(3, 0), (-1, 0), (0, 2), (0, -1), (3, 2)]
    assert all(exploration.knows(*pair) for pair in known)
    assert not any(exploration.knows(*pair) for pair in unknown)


def test_codes_out_of_bounds_are_named() -> None:
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


def test_the_warm_up_counts_down_to_nothing() -> None:
    exploration = explore(3, warmup=4)
    left = [exploration.warmup_left]
    for user in range(6):
        action = exploration.decide(np.array([user]), np.array([0]))
        exploration.observe(np.array([user]), np.array([0]), action, np.ones(1))
        left.append(exploration.warmup_left)
    assert left == [4, 3, 2, 1, 0, 0, 0]
    assert exploration.n_events == 6
    assert n_plays(exploration) == {"warmup": 4, "main": 2}


@pytest.mark.parametrize("size", [7, 39, 40, 41, 200])
def test_where_a_batch_ends_does_not_matter(size: int) -> None:
    """The frequent contexts are fixed after 40 plays, in the middle of a batch or not."""
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
    # Of the plays after the warm-up those count for it that nobody would be asked for any more.
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


def test_while_the_warm_up_lasts_its_plays_stand_for_the_main_phase() -> None:
    exploration = explore(3, warmup=10)
    observe(exploration, (0, 0, 0), (4, 2, 1), rewards=[1.0, 0.5])
    tallies, design, warmup = exploration.observed()
    assert warmup is None
    assert (tallies.n_users, tallies.n_contexts, tallies.counts.sum()) == (30, 3, 2)
    assert design.is_sticky.tolist() == [False] * 3
    assert design.group_sizes.tolist() == [[0, 0]] * 3
    assert design.is_sticky.dtype == np.bool_
    assert design.group_sizes.dtype == np.int64


def test_groups_are_counted_over_the_users_who_came() -> None:
    """A user who came, but never to a context, is in that context's group all the same."""
    exploration = explore(3, warmup=3)
    observe(exploration, (0, 0, 0), (1, 0, 0), (2, 1, 0))
    exploration.decide(np.array([9]), np.array([0]))
    active = [3, 5, 6, 7, 11]
    rows = [(user, 2, user % 2) for user in active]
    observe(exploration, *rows)
    main, design, warmup = exploration.observed()
    assert warmup is not None
    assert (warmup.counts.sum(), main.counts.sum()) == (3, 5)
    assert (warmup.n_users, warmup.n_contexts) == (main.n_users, main.n_contexts) == (30, 3)
    assert design.is_sticky.tolist() == [True, True, False]
    for context in (0, 1):
        groups = [drawn(user, context, None) for user in active]
        assert design.group_sizes[context].tolist() == [groups.count(0), groups.count(1)]
    assert design.group_sizes[2].tolist() == [0, 0]


def test_without_a_warm_up_there_is_none_to_learn_from() -> None:
    exploration = explore(2)
    action = drawn(4, 1, None)
    observe(exploration, (4, 1, action), rewards=0.5)
    main, design, warmup = exploration.observed()
    assert warmup is None
    assert main.sums.tolist() == [0.5]
    assert design.group_sizes.sum(axis=1).tolist() == [1, 1]
    assert design.group_sizes[1, action] == 1
    assert explore(2).observed()[0].n_users == 30  # nobody played, and nothing fails


@pytest.mark.parametrize("warmup", [0, 50, 500])
def test_a_restored_exploration_goes_on(warmup: int, rng: np.random.Generator) -> None:
    before, after = explore(3, warmup=warmup), explore(3, warmup=warmup)
    users, contexts = rng.integers(30, size=100), rng.integers(3, size=100)
    before.observe(users, contexts, before.decide(users, contexts), rng.random(100))
    after.restore(before.to_json()["sticky"], before.plays, before.phases())
    assert after.to_json() == before.to_json()
    assert after.n_events == before.n_events == 100
    assert n_plays(after) == n_plays(before)
    assert after.plays.tolist() == before.plays.tolist()
    assert after.warmup_left == before.warmup_left
    assert after.decide(users, contexts).tolist() == before.decide(users, contexts).tolist()


def test_what_does_not_fit_is_not_restored() -> None:
    exploration = explore(2, users=USERS[:2])
    phases = exploration.phases()
    for sticky, plays, sentence in (
        ([True, True], [0], "plays do not fit the users"),
        ([True, True], [0, -1], "plays do not fit the users"),
        ([True], [0, 0], "frequent contexts do not fit the contexts"),
    ):
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            exploration.restore(sticky, np.array(plays), phases)
    exploration.restore([False, True], np.array([0, 7]), phases)
    assert exploration.to_json()["sticky"] == [False, True]
    assert exploration.plays.tolist() == [0, 7]
    exploration.restore(None, np.array([0, 0]), phases)
    assert exploration.to_json()["sticky"] is None
