"""Flips of the paper's decisions, compared with the same counts in plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.learners.tiny_logs import cut_after, tallied
from unswayed.estimators import trim_count
from unswayed.estimators.trimmed_flips import NO_RIVAL, TrimmedFlips, trimmed_flips
from unswayed.learners.design import Design, sticky_design, uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.flips.bounds import Certificate
from unswayed.learners.paper import learn_paper
from unswayed.learners.paper.flips import (
    _certain_replacements,
    _largest_shares,
    _visitors,
    attack_frequent,
    certify_paper,
    frequent_flips,
)
from unswayed.learners.paper.reward_units import measure_units
from unswayed.tallies import Tallies

ALPHA = 0.1


def world(
    rng: np.random.Generator,
    *,
    is_binary: bool = False,
    n_users: int = 80,
    n_contexts: int = 3,
    n_actions: int = 3,
    lead: float = 0.6,
) -> tuple[Tallies, Design]:
    """Return a sticky log in which few come to context 1 and two users never came."""
    users = np.repeat(np.arange(n_users - 2), 8)
    likely = np.where(np.arange(n_contexts) == 1, 0.1, 1.0) if n_contexts > 1 else np.ones(1)
    contexts = rng.choice(n_contexts, p=likely / likely.sum(), size=users.size)
    actions = rng.integers(n_actions, size=(n_users, n_contexts))[users, contexts]
    means = 0.2 + lead * ((actions + contexts) % n_actions == 0)
    rewards = means + 0.3 * rng.standard_normal(users.size)
    if is_binary:
        rewards = 1.0 + 2.0 * (rng.random(users.size) < means)
    events = np.column_stack([users, contexts, actions, rewards])
    tallies = tallied(events, n_users=n_users, n_contexts=n_contexts, n_actions=n_actions)
    return tallies, sticky_design(tallies)


def learned(tallies: Tallies, design: Design) -> Estimates:
    return learn_paper(tallies, design, alpha=ALPHA)


def tables(tallies: Tallies) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and sums; shape (n_users, n_contexts, n_actions)."""
    shape = (-1, tallies.n_contexts, tallies.n_actions)
    counts, sums = (tallies.csr(x).toarray().reshape(shape) for x in (tallies.counts, tallies.sums))
    return counts, sums


def counted(
    tallies: Tallies,
    design: Design,
    estimates: Estimates,
    contexts: list[int],
    margins: np.ndarray | None = None,
) -> tuple[TrimmedFlips, np.ndarray]:
    """Return the flips of some contexts, and how many are trimmed, from dense tables."""
    counts, sums = tables(tallies)
    origin = measure_units(tallies, alpha=ALPHA).origin
    values, groups, n_zeros, n_cut = [], [], [], []
    for row, s in enumerate(contexts):
        for a in range(tallies.n_actions):
            came = np.flatnonzero(counts[:, s, a])
            values += [(sums[i, s, a] - origin * counts[i, s, a]) / counts[i].sum() for i in came]
            groups += [row * tallies.n_actions + a] * len(came)
            n_zeros.append(max(int(design.group_sizes[s, a]) - len(came), 0))
            n_points = len(came) + n_zeros[-1]
            n_bad = trim_count(
                n_points,
                alpha=ALPHA,
                failure_probability=0.1 / (tallies.n_contexts * tallies.n_actions),
            )
            n_cut.append(min(n_bad, max((n_points - 1) // 2, 0)))
    means = estimates.mean_rewards[contexts]
    shape = means.shape
    flips = trimmed_flips(
        np.array(values),
        np.array(groups),
        n_zeros=np.array(n_zeros).reshape(shape),
        n_cut=np.array(n_cut).reshape(shape),
        leaders=np.nanargmax(means, axis=1),
        is_known=~np.isnan(means),
        margins=margins,
    )
    return flips, np.array(n_cut).reshape(shape)


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("cut", [(), (30, 78)])
def test_flips_of_frequent_contexts_are_those_of_their_trimmed_means(
    rng: np.random.Generator, is_binary: bool, cut: tuple[int, ...]
) -> None:
    tallies, design = world(rng, is_binary=is_binary, n_contexts=4)
    # One action that was learned nothing of, and one group smaller than who came.
    sizes = design.group_sizes.copy()
    sizes[0, 0] = 2
    design = Design(design.is_sticky, sizes)
    before = learned(tallies, design)
    means = before.mean_rewards.copy()
    frequent = np.flatnonzero(before.frequent_contexts).tolist()
    means[frequent[-1], 1] = np.nan
    before = replace(before, mean_rewards=means)
    flips = frequent_flips(
        cut_after(tallies, *cut) if cut else tallies, design, before, alpha=ALPHA
    )
    trimmed, n_cut = counted(tallies, design, before, frequent)
    assert flips.contexts.tolist() == frequent
    assert flips.leaders.tolist() == np.nanargmax(means[frequent], axis=1).tolist()
    for name in ("fewest", "enough", "rivals", "from_leader", "from_rival"):
        assert getattr(flips.trimmed, name).tolist() == getattr(trimmed, name).tolist()
    counts, _ = tables(tallies)
    for row, (s, leader) in enumerate(zip(frequent, flips.leaders, strict=True)):
        assert flips.visitors[row] == np.count_nonzero(counts[:, s, leader])
        rival = trimmed.rivals[row]
        assert flips.is_loud[row] == (
            trimmed.from_leader[row] > n_cut[row, leader]
            or trimmed.from_rival[row] > n_cut[row, rival]
        )
    units = measure_units(tallies, alpha=ALPHA)
    assert flips.units == units or math.isnan(units.span)
    assert flips.units.origin == units.origin


def test_a_frequent_context_without_any_estimate_has_no_flips(rng: np.random.Generator) -> None:
    tallies, design = world(rng)
    before = learned(tallies, design)
    means = before.mean_rewards.copy()
    means[1] = np.nan
    flips = frequent_flips(tallies, design, replace(before, mean_rewards=means), alpha=ALPHA)
    assert flips.contexts.tolist() == [0, 2]


def test_binary_decisions_withstand_what_cannot_change_the_two_values(
    rng: np.random.Generator,
) -> None:
    tallies, design = world(rng, is_binary=True)
    flips = frequent_flips(tallies, design, learned(tallies, design), alpha=ALPHA)
    assert flips.units.is_binary
    fewest = flips.trimmed.fewest
    assert flips.withstood.tolist() == np.minimum(fewest, flips.units.n_certain + 1).tolist()
    assert flips.units.n_certain > 0


def test_in_a_single_context_it_does_not_matter_where_rewards_are_measured_from(
    rng: np.random.Generator,
) -> None:
    for is_binary in (True, False):
        tallies, design = world(rng, is_binary=is_binary, n_contexts=1)
        flips = frequent_flips(tallies, design, learned(tallies, design), alpha=ALPHA)
        assert flips.withstood.tolist() == flips.trimmed.fewest.tolist()


@pytest.mark.parametrize(("n_users", "n_contexts"), [(149, 3), (150, 3), (150, 2)])
def test_other_decisions_withstand_every_move_of_the_median_users_mean(
    rng: np.random.Generator, n_users: int, n_contexts: int
) -> None:
    """Replacing j accounts moves the median by j ranks; each number is tried in turn."""
    tallies, design = world(rng, n_users=n_users, n_contexts=n_contexts, lead=0.1)
    before = learned(tallies, design)
    flips = frequent_flips(tallies, design, before, alpha=ALPHA)
    counts, sums = tables(tallies)
    active = counts.sum(axis=(1, 2)) > 0
    counts, sums = counts[active], sums[active]
    n = counts.sum(axis=(1, 2))
    means = np.sort(sums.sum(axis=(1, 2)) / n)
    origin = float(np.median(means))
    largest = (counts / n[:, None, None]).max(axis=(0, 2))
    expected = [1] * n_contexts
    for replaced in range(1, int(flips.trimmed.fewest.max())):
        low = means[max((len(means) - 1) // 2 - replaced, 0)]
        high = means[min(len(means) // 2 + replaced, len(means) - 1)]
        margins = max(origin - low, high - origin) * largest
        trimmed, _ = counted(tallies, design, before, list(range(n_contexts)), margins)
        for row in range(n_contexts):
            if expected[row] == replaced and trimmed.fewest[row] > replaced:
                expected[row] = replaced + 1
    assert flips.withstood.tolist() == expected
    assert (flips.withstood <= flips.trimmed.fewest).all()


def test_the_largest_share_of_visits_is_over_all_users_of_a_context() -> None:
    tallies = tallied(
        [(0, 0, 0, 1.0), (0, 1, 1, 1.0), (0, 1, 1, 1.0), (0, 2, 0, 1.0), (1, 1, 0, 1.0)]
        + [(1, 2, 1, 1.0)] * 4
        + [(2, 0, 0, 1.0), (2, 0, 1, 1.0), (2, 2, 0, 1.0)],
        n_users=4,
        n_contexts=4,
        n_actions=2,
    )
    # Contexts 0 and 2 are left out; context 3 was never visited.
    found = _largest_shares(tallies, np.array([NO_RIVAL, 1, NO_RIVAL, 0]), 2)
    assert found.tolist() == [0.0, 0.5]
    # Of the entries of a user and context the largest counts.
    other = _largest_shares(tallies, np.array([0, NO_RIVAL, 1, NO_RIVAL]), 2)
    assert other.tolist() == [1 / 3, 4 / 5]


def test_visitors_are_counted_once_for_each_context() -> None:
    tallies = tallied(
        [
            (0, 0, 0, 1.0),
            (0, 0, 1, 1.0),
            (0, 2, 1, 1.0),
            (2, 2, 0, 1.0),
            (2, 2, 1, 1.0),
            (3, 2, 0, 1.0),
        ],
        n_users=6,
        n_contexts=4,
        n_actions=2,
    )
    assert _visitors(tallies).tolist() == [1, 0, 3, 0]
    nobody = tallied([], n_users=2, n_contexts=2, n_actions=2)
    assert _visitors(nobody).tolist() == [0, 0]


def test_a_context_stays_while_more_accounts_come_than_a_filter_removes() -> None:
    """Ten accounts: at most 4.9 of their weight is removed. 10, 6 and 2 of them came."""
    events = [(user, 0, 0, 1.0) for user in range(10)]
    events += [(user, 1, 0, 1.0) for user in range(6)] + [(user, 2, 0, 1.0) for user in range(2)]
    tallies = tallied(events, n_users=12, n_contexts=3, n_actions=3)
    design = sticky_design(tallies)
    for log in (tallies, cut_after(tallies, 4)):
        certain = _certain_replacements(log, design, None)
        assert certain.dtype == np.int64
        assert certain.tolist() == [5, 1, -3]
    # In the warm-up ten came to context 2 and nobody elsewhere.
    warmup = tallied([(user, 2, 0, 1.0) for user in range(10)], n_contexts=3, n_actions=3)
    assert _certain_replacements(tallies, design, warmup).tolist() == [-5, -5, 5]
    # As many contexts as actions are all frequent, more are ranked by the data.
    narrow = replace(tallies, n_actions=2, cells=tallies.cells // 3 * 2)
    assert _certain_replacements(narrow, sticky_design(narrow), None).tolist() == [-1, -1, -1]
    played = Design(np.array([True, True, False]), np.zeros((3, 2), np.int64))
    assert _certain_replacements(narrow, played, None).tolist() == [5, 1, -3]


def test_uniform_plays_have_nothing_but_the_bound_of_one_account(
    rng: np.random.Generator,
) -> None:
    tallies, _ = world(rng)
    design = uniform_design(tallies)
    bounds = certify_paper(tallies, design, learned(tallies, design), alpha=ALPHA)
    assert bounds.n_accounts == 78
    assert bounds.lower.tolist() == [1 / 78] * 3
    assert not bounds.is_certified
    assert bounds.untried == {}


@pytest.mark.parametrize("lead", [0.1, 0.6])
@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("n_contexts", [1, 3, 4])
def test_certified_bounds_follow_from_the_flips(
    rng: np.random.Generator, is_binary: bool, n_contexts: int, lead: float
) -> None:
    tallies, design = world(rng, is_binary=is_binary, n_contexts=n_contexts, lead=lead, n_users=150)
    before = learned(tallies, design)
    bounds = certify_paper(tallies, design, before, alpha=ALPHA)
    flips = frequent_flips(tallies, design, before, alpha=ALPHA)
    in_place = _certain_replacements(tallies, design, None)
    n = 148
    assert bounds.n_accounts == n
    untried = []
    for s in range(n_contexts):
        if not before.frequent_contexts[s]:
            assert (bounds.lower[s], bounds.held[s]) == (1 / n, 1 / n)
            assert bounds.certificates[s] == Certificate.ONE_ACCOUNT
            assert np.isnan(bounds.upper[s])
            continue
        row = flips.contexts.tolist().index(s)
        fewest = min(flips.trimmed.fewest[row], flips.visitors[row])
        enough = min(flips.trimmed.enough[row], flips.visitors[row])
        sure = min(flips.withstood[row] - 1, in_place[s])
        assert bounds.held[s] == fewest / n
        is_exact = sure >= fewest - 1
        word = Certificate.EXACT if is_exact else Certificate.CONTEXT_STEP
        assert bounds.certificates[s] == word
        assert bounds.lower[s] == (fewest if is_exact else max(1, sure + 1)) / n
        is_anywhere = flips.is_loud[row] or n_contexts == 1
        is_sure = in_place[s] >= enough and (is_anywhere or flips.units.n_certain >= enough)
        assert np.isnan(bounds.upper[s]) == (not is_sure)
        if is_sure:
            assert bounds.upper[s] == enough / n
        else:
            untried.append(s)
    assert sorted(bounds.untried) == untried
    for s in untried:
        attacked, accounts = bounds.untried[s]()
        same, chosen = attack_frequent(tallies, design, flips, flips.contexts.tolist().index(s))
        assert accounts.tolist() == chosen.tolist()
        np.testing.assert_array_equal(attacked.sums, same.sums)
    elsewhere = tallies.transformed(lambda block: block)
    apart = certify_paper(elsewhere, design, before, alpha=ALPHA)
    assert apart.untried == {}
    np.testing.assert_array_equal(apart.upper, bounds.upper)
    np.testing.assert_array_equal(apart.lower, bounds.lower)


def test_a_context_is_in_place_if_it_was_visited_in_the_warm_up(rng: np.random.Generator) -> None:
    tallies, design = world(rng)
    before = learned(tallies, design)
    warmup = tallied([(user, 0, 0, 1.0) for user in range(78)], n_contexts=3, n_actions=3)
    plain = certify_paper(tallies, design, before, alpha=ALPHA)
    bounds = certify_paper(tallies, design, before, alpha=ALPHA, warmup=warmup)
    assert plain.certificates[[0, 2]].tolist() == ["exact", "exact"]
    assert bounds.certificates[[0, 2]].tolist() == ["exact", "context step"]
    assert bounds.lower[2] == 1 / 78
    assert np.isnan(bounds.upper[2])
    assert bounds.lower[0] == plain.lower[0]
    assert bounds.held.tolist() == plain.held.tolist()


def test_a_context_with_one_action_has_no_rival_and_the_next_one_may_have() -> None:
    """Groups of five, of which two are trimmed at each end; nobody has the last action."""
    events = [(user, 0, 0, 1.0 + user / 8) for user in range(10)]
    events += [(user, 1, user % 2, user / 16 + 4.0 * (user % 2)) for user in range(10)]
    tallies = tallied(events, n_contexts=2, n_actions=3)
    design = Design(np.ones(2, np.bool_), np.array([[10, 0, 0], [5, 5, 0]]))
    before = learned(tallies, design)
    flips = frequent_flips(tallies, design, before, alpha=ALPHA)
    assert flips.trimmed.rivals.tolist() == [NO_RIVAL, 0]
    # Three of five decide a median.
    assert flips.trimmed.fewest.tolist() == [10, 3]
    assert flips.trimmed.enough.tolist() == [0, 3]
    bounds = certify_paper(tallies, design, before, alpha=ALPHA)
    np.testing.assert_array_equal(bounds.upper, [np.nan, 3 / 10])
    assert bounds.untried == {}
    assert bounds.held.tolist() == [1.0, 3 / 10]
    # With 8 of 10 visitors in the warm-up context 1 stays for up to 3 replaced accounts.
    for n_visitors, is_sure in ((8, True), (7, False)):
        warmup = tallied(
            [(user, int(user < n_visitors), 0, 1.0) for user in range(10)],
            n_contexts=2,
            n_actions=3,
        )
        found = certify_paper(tallies, design, before, alpha=ALPHA, warmup=warmup)
        assert np.isfinite(found.upper).tolist() == [False, is_sure]
        assert list(found.untried) == ([] if is_sure else [1])
