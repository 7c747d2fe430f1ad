"""Groups of taste in numbers, against loops over users and cells."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.learners.group_twins import LiteralGroups, literal_centres, literal_cluster
from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Labels
from unswayed.learners.design import Design, DesignName, uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.groups import Groups, check_groups, find_groups, group_decisions
from unswayed.learners.groups.clusters import Plays, cluster, log_likelihoods, plays_of
from unswayed.learners.groups.finding import NO_GROUP, _assigned, certain, own_actions
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.learners.personal import Residuals
from unswayed.policy import Policy
from unswayed.tallies import Tallies, tally

USERS, CONTEXTS, ACTIONS = 120, 12, 3


def of_dense(counts: Any, sums: Any) -> Plays:
    return Plays(sparse.csr_array(np.array(counts)), sparse.csr_array(np.array(sums)))


def test_residuals_become_plays_in_units_of_the_noise_and_are_clipped_at_three() -> None:
    residuals = Residuals(
        np.array([0, 0, 2, 2]),
        np.array([1, 3, 0, 3]),
        np.array([2.0, 1.0, 4.0, 5.0]),
        np.array([0.5, -9.0, 1.5, 2.0]),
        0.5,
        np.ones(4),
    )
    plays = plays_of(residuals, 4, 5)
    assert plays.counts.toarray().tolist() == [
        [0, 2, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [4, 0, 0, 5, 0],
        [0, 0, 0, 0, 0],
    ]
    assert plays.sums.toarray().tolist() == [
        [0, 2, 0, -3, 0],
        [0, 0, 0, 0, 0],
        [12, 0, 0, 15, 0],
        [0, 0, 0, 0, 0],
    ]
    some = plays.of_users(np.array([2, 0])).in_cells(np.array([True, False, False, True, True]))
    assert some.counts.toarray().tolist() == [[4, 0, 0, 5, 0], [0, 0, 0, 1, 0]]
    assert some.sums.toarray().tolist() == [[12, 0, 0, 15, 0], [0, 0, 0, -3, 0]]


def test_a_centre_is_as_likely_as_a_normal_density_makes_it() -> None:
    plays = of_dense([[2.0, 0.0], [1.0, 4.0]], [[3.0, 0.0], [-1.0, 2.0]])
    centres = np.array([[1.0, 5.0], [0.0, 0.0], [-2.0, 0.5]])
    # 3 · 1 - 2 · 1/2 = 2, 3 · (-2) - 2 · 4/2 = -10; -1 - 1/2 + 10 - 50, 2 - 2 + 1 - 1/2.
    assert log_likelihoods(plays, centres).tolist() == [[2.0, 0.0, -10.0], [-41.5, 0.0, 0.5]]


def test_a_cluster_is_certain_from_a_lead_of_one_over_the_next() -> None:
    """Likelihoods of the centres 2, 1 and 0 of one cell are 2 s - 2 n, s - n/2 and 0."""
    counts, sums = [[1.0]] * 6, [[2.5], [2.49], [1.5], [1.0], [-0.5], [-0.51]]
    centres = np.array([[2.0], [1.0], [0.0]])
    # 3, 2, 0 · 2.98, 1.99, 0 · 1, 1, 0 · 0, 0.5, 0 · -3, -1, 0 · -3.02, -1.01, 0.
    assert certain(of_dense(counts, sums), centres).tolist() == [
        0,
        NO_GROUP,
        NO_GROUP,
        NO_GROUP,
        2,
        2,
    ]


@pytest.mark.parametrize("n_clusters", [2, 4])
@pytest.mark.parametrize("n_cells", [3, 8])
def test_clusters_are_those_of_loops_over_users(
    n_clusters: int, n_cells: int, rng: np.random.Generator
) -> None:
    """Without any structure, so that every start ends elsewhere; some users never came."""
    counts = rng.poisson(2.0, size=(50, n_cells)) * (rng.random((50, 1)) < 0.9)
    sums = counts * rng.normal(size=counts.shape)
    seed = int(rng.integers(2**32))
    found = cluster(of_dense(counts * 1.0, sums), n_clusters, np.random.default_rng(seed))
    expected = literal_cluster(counts, sums, n_clusters, np.random.default_rng(seed))
    assert found.shape == (n_clusters, n_cells)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_planted_clusters_have_the_mean_of_their_users_and_four_plays_of_nothing(
    rng: np.random.Generator,
) -> None:
    labels = [user % 3 for user in range(30)]
    truth = 2.0 * np.array([[1, -1, 0, 0], [-1, 0, 1, 0], [0, 1, -1, -1]])
    counts = rng.integers(3, 9, size=(30, 4)).astype(float)
    sums = counts * truth[labels]
    found = cluster(of_dense(counts, sums), 3, rng)
    expected = literal_centres(counts, sums, labels, 3)
    order = [int(np.abs(expected - centre).sum(axis=1).argmin()) for centre in found]
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(found, expected[order])


def test_users_who_are_all_alike_make_one_cluster_and_empty_ones(rng: np.random.Generator) -> None:
    found = cluster(of_dense(np.full((6, 2), 2.0), np.full((6, 2), 4.0)), 3, rng)
    # 24 over 12 + 4 plays; nobody is left for the others.
    assert sorted(found.tolist()) == [[0.0, 0.0], [0.0, 0.0], [1.5, 1.5]]


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


@pytest.mark.parametrize(
    ("alpha", "n_groups", "sizes", "noise"),
    [
        (0.0, "auto", range(2, 6), 0.5),
        (0.0, 2, range(2, 4), 0.9),
        (0.05, 2, range(2, 4), 0.5),
        (0.05, 3, range(3, 5), 0.5),
    ],
)
def test_groups_are_those_of_loops_over_users(
    alpha: float, n_groups: Any, sizes: range, noise: float, rng: np.random.Generator
) -> None:
    """With much noise a user's cluster depends on which contexts are held out."""
    tallies, policy = tastes(rng, noise=noise)
    found = find_groups(tallies, policy, alpha=alpha, n_groups=n_groups)
    members, gains = LiteralGroups(tallies, policy, alpha).found(sizes)
    assert gains or noise > 0.5  # groups are found
    assert found.members.tolist() == members
    assert found.gains == pytest.approx(gains, rel=1e-9)
    assert found.n_tried == sum(sizes)
    assert found.sizes.tolist() == [members.count(group) for group in range(len(gains))]


def test_candidates_that_gain_nothing_or_are_no_larger_than_a_coalition_are_no_groups() -> None:
    """Three users are for the first centre, two for the second, four for the third; one doubts."""
    wants = [0, 0, 0, 1, 1, 2, 2, 2, 2]
    sums = np.concatenate([np.eye(3)[wants], np.zeros((1, 3))]) * 9.0
    plays, centres = of_dense(np.ones((10, 3)), sums), np.eye(3)
    labels = np.array([*wants, NO_GROUP])

    def groups(gains: list[float], most: int) -> Groups:
        return _assigned(plays, centres, np.array(gains), most=most)

    every = groups([0.5, 0.25, 0.125], 1)
    assert every.members.tolist() == labels.tolist()
    assert (every.gains, every.n_tried) == ((0.5, 0.25, 0.125), 3)
    larger = groups([0.5, 0.25, 0.125], 2)
    assert larger.members.tolist() == [0, 0, 0, -1, -1, 1, 1, 1, 1, -1]
    assert larger.gains == (0.5, 0.125)
    useful = groups([0.0, 0.25, -np.inf], 1)
    assert useful.members.tolist() == [-1, -1, -1, 0, 0, -1, -1, -1, -1, -1]
    assert (useful.gains, useful.sizes.tolist()) == ((0.25,), [2])


def test_groups_are_looked_for_in_all_numbers_by_default(rng: np.random.Generator) -> None:
    tallies, policy = tastes(rng, plays=20)
    found = find_groups(tallies, policy, alpha=0.2)
    assert found.n_tried == 2 + 3 + 4 + 5
    assert found.gains == ()
    assert found.members.tolist() == [NO_GROUP] * USERS
    for alpha, n_groups in ((0.5, 2), (0.1, 1)):
        with pytest.raises(InputError):
            find_groups(tallies, policy, alpha=alpha, n_groups=n_groups)


def test_own_actions_are_the_best_sums_and_the_policys_where_nothing_was_learned() -> None:
    table = np.array([[0.5, 0.25], [0.5, np.nan], [np.nan, np.nan], [0.25, 0.75]])
    policy = a_policy(table)
    centre = np.array([0.0, 0.5, -9.0, 9.0, 0.0, 9.0, 0.0, 0.0])
    assert policy.default_action == 1
    assert own_actions(policy, centre).tolist() == [1, 0, 1, 1]
    assert own_actions(policy, -centre).tolist() == [0, 0, 1, 1]


def test_groups_say_how_many_there_are_and_what_they_gain() -> None:
    members = np.array([1, 0, 1, NO_GROUP] + [1] * 1000)
    assert Groups(members, (0.25, 0.123), 5).sizes.tolist() == [1, 1002]
    assert Groups(members, (0.25, 0.123), 5).statement() == (
        "2 groups of taste (error rate 1%, colluders allowed for): 1 users gain at least 0.25 a "
        "play, 1,002 users gain at least 0.12 a play where decisions differ; 1 users keep the "
        "common policy."
    )
    nobody = np.full(3, NO_GROUP)
    assert Groups(nobody, (0.5,), 3).sizes.tolist() == [0]
    assert Groups(nobody, (), 14).statement() == (
        "the data do not support groups of taste: none of 14 candidates gains on held-out plays "
        "(error rate 1%, colluders allowed for), and everybody gets the common policy."
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
