"""Intervals of cells, compared with their literal twin, and the parts that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import numpy as np
import pytest

from tests.learners.paper.interval_twin import interval_tables, rate_ends
from tests.learners.tiny_logs import cut_after, tallied
from unswayed.learners.design import Design, sticky_design, uniform_design
from unswayed.learners.paper import intervals
from unswayed.learners.paper.intervals import CellIntervals, cell_intervals
from unswayed.learners.paper.reward_units import RewardUnits
from unswayed.randomness import generator
from unswayed.tallies import Tallies

N_USERS, N_CONTEXTS, N_ACTIONS = 240, 3, 3
NOT_BINARY = RewardUnits(0.75, np.nan, 0)
BINARY = RewardUnits(3.0, 2.0, 0)


class Options(TypedDict):
    """What intervals are asked for with."""

    alpha: float
    failure_probability: float


OPTIONS: Options = {"alpha": 0.1, "failure_probability": 0.2}


def world(
    rng: np.random.Generator, kind: str, *, is_sticky: bool = True, is_weighted: bool = False
) -> Tallies:
    """Return a log of uneven cells with one that nobody met; the last three users did nothing.

    A few visit context 2, fewer in one of its cells than may collude. In context 1 tastes differ.
    """
    users = np.repeat(np.arange(N_USERS - 3), 1 + 5 * (np.arange(N_USERS - 3) % 4))
    contexts = rng.choice(N_CONTEXTS, p=[0.55, 0.4, 0.05], size=users.size)
    assigned = rng.choice(N_ACTIONS, p=[0.5, 0.4, 0.1], size=(N_USERS, N_CONTEXTS))
    actions = assigned[users, contexts]
    if not is_sticky:
        actions = rng.choice(N_ACTIONS, p=[0.6, 0.3, 0.1], size=users.size)
    actions[(contexts == 2) & (actions == 2)] = 1
    rates = np.array([[0.3, 0.6, 0.2], [0.5, 0.4, 0.1], [0.2, 0.7, 0.5]])[contexts, actions]
    rates = np.where(contexts == 1, np.where(users % 2 == 0, 0.1, 0.9), rates)
    rewards = {
        "binary": np.where(rng.random(users.size) < rates, 5.0, 3.0),
        "real": rates + rng.standard_normal(users.size),
    }[kind]
    rewards[users < 12] = 5.0
    weights = rng.uniform(0.5, 2.0, users.size).tolist() if is_weighted else None
    events = np.column_stack([users, contexts, actions, rewards])
    return tallied(
        events, n_users=N_USERS, n_contexts=N_CONTEXTS, n_actions=N_ACTIONS, weights=weights
    )


def assert_same(found: CellIntervals, tables: tuple[np.ndarray, ...]) -> None:
    """Compare with the twin's low ends, high ends and sampling errors."""
    given = (found.low, found.high, found.sampling_errors)
    for table, expected in zip(given, tables, strict=True):
        np.testing.assert_allclose(table, expected, rtol=1e-7, atol=1e-9)


def mixed(tallies: Tallies) -> Design:
    """Return a design in which contexts 0 and 2 are sticky, with groups larger than who came."""
    return Design(np.array([True, False, True]), tallies.cell_users() + np.array([9, 4, 25]))


@pytest.mark.parametrize("design", [sticky_design, uniform_design, mixed])
@pytest.mark.parametrize("kind", ["binary", "real"])
def test_intervals_equal_their_literal_twin(
    rng: np.random.Generator, kind: str, design: Callable[[Tallies], Design]
) -> None:
    tallies = world(rng, kind, is_sticky=design is sticky_design)
    units = BINARY if kind == "binary" else NOT_BINARY
    given = (tallies, design(tallies), units)
    tables = interval_tables(*given, **OPTIONS)
    assert np.isnan(tables[0]).sum() == 1
    assert_same(cell_intervals(*given, **OPTIONS), tables)


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("kind", ["binary", "real"])
def test_intervals_equal_their_literal_twin_whatever_the_share_of_colluders(
    rng: np.random.Generator, kind: str, alpha: float
) -> None:
    tallies = world(rng, kind)
    units = BINARY if kind == "binary" else NOT_BINARY
    given = (tallies, sticky_design(tallies), units)
    options: Options = {"alpha": alpha, "failure_probability": 0.05}
    assert_same(cell_intervals(*given, **options), interval_tables(*given, **options))


def test_means_of_weighted_plays_are_not_taken_for_binomial(rng: np.random.Generator) -> None:
    tallies = world(rng, "binary", is_weighted=True)
    given = (tallies, sticky_design(tallies), BINARY)
    assert_same(cell_intervals(*given, **OPTIONS), interval_tables(*given, **OPTIONS))


def test_rewards_beyond_the_two_values_count_as_the_nearer_one(rng: np.random.Generator) -> None:
    tallies = world(rng, "binary")
    tallies.sums[:9] = 1e3
    tallies.sums[-9:] = -1e3
    given = (tallies, sticky_design(tallies), BINARY)
    assert_same(cell_intervals(*given, **OPTIONS), interval_tables(*given, **OPTIONS))


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_neither_blocks_nor_parts_of_the_cells_change_an_interval(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    tallies = world(rng, kind)
    units = BINARY if kind == "binary" else NOT_BINARY
    design = sticky_design(tallies)
    whole = cell_intervals(tallies, design, units, **OPTIONS)
    expected = (whole.low, whole.high, whole.sampling_errors)
    assert_same(cell_intervals(cut_after(tallies, 50, 237), design, units, **OPTIONS), expected)
    monkeypatch.setattr(intervals, "ENTRIES_AT_ONCE", 90)
    assert_same(cell_intervals(tallies, design, units, **OPTIONS), expected)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_large_cells_are_judged_by_a_sample_of_their_users(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    tallies = world(rng, kind)
    units = BINARY if kind == "binary" else NOT_BINARY
    given = (tallies, sticky_design(tallies), units)
    monkeypatch.setattr(intervals, "MOST_VISITORS", 60)
    visitors = tallies.cell_users().ravel()
    assert (visitors > 60).any()
    assert (visitors < 60).any()
    # One draw for every entry of cells that are open; the others are not looked at.
    shares = np.minimum(60 / np.maximum(visitors, 1), 1.0)
    is_drawn = generator(0, "intervals").random(len(tallies.cells)) < shares[tallies.cells]
    is_sampled = tallies.csr(is_drawn.astype(float)).toarray() > 0
    for failure in (0.05, 0.1, 0.2, 0.3, 0.4):
        options: Options = {"alpha": 0.1, "failure_probability": failure}
        assert_same(
            cell_intervals(*given, **options),
            interval_tables(*given, **options, is_sampled=is_sampled),
        )


@pytest.mark.parametrize(
    ("visitors", "parts"),
    [
        ([10.0, 10.0, 10.0], [(0, 3)]),
        ([60.0, 60.0, 60.0], [(0, 1), (1, 3)]),
        ([100.0, 0.0, 99.0, 1.0, 5.0], [(0, 3), (3, 5)]),
        ([40.0, 70.0, 10.0, 150.0], [(0, 1), (1, 3), (3, 4)]),
        ([0.0], [(0, 1)]),
    ],
)
def test_parts_of_the_cells_end_where_another_hundred_of_visitors_is_full(
    monkeypatch: pytest.MonkeyPatch, visitors: list[float], parts: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(intervals, "ENTRIES_AT_ONCE", 100)
    assert intervals._parts(np.array(visitors)) == parts


def test_dispersion_is_the_variance_over_what_one_rate_explains() -> None:
    """Users of 4 and 4 trials with 1 and 3 successes; one alone; nobody; all alike."""
    values = np.array([0.25, 0.75, 1.0, 1.0, 1.0])
    trials, groups = np.array([4, 4, 1, 1, 3]), np.array([0, 0, 1, 3, 3])
    found, by_chance = intervals._dispersion(values, trials, groups, 4)
    # Rate one half: 2 · 4 · (1/4)² over two users and 1/4.
    assert found.tolist() == [1.0, 0.0, 0.0, 0.0]
    # Terms of variance 2 + (1 - 6/4)/(4/4) each.
    assert by_chance[0] == pytest.approx(1 + 3 * np.sqrt(1.5 / 2))
    uneven, _ = intervals._dispersion(
        np.array([0.0, 1.0, 0.5]), np.array([1, 1, 2]), np.zeros(3, np.int64), 1
    )
    assert uneven.tolist() == [(0.25 + 0.25) / 3 / 0.25]


@pytest.mark.parametrize(("rate", "most"), [(0.02, 3), (0.3, 1), (0.5, 1), (0.5, 12)])
def test_chance_rarely_makes_users_of_one_rate_differ_more_than_it_may(
    rng: np.random.Generator, rate: float, most: int
) -> None:
    """One group in 741 has a normal number above three errors; skewed ones a few more."""
    n_groups, n = 1000, 400
    trials = rng.integers(1, most, n_groups * n, endpoint=True)
    values, groups = rng.binomial(trials, rate) / trials, np.repeat(np.arange(n_groups), n)
    found, by_chance = intervals._dispersion(values, trials, groups, n_groups)
    assert (found > by_chance).mean() < 0.01
    if most == 12:  # single trials cannot differ, and few rare successes hardly show it
        tasted = rng.binomial(trials, rng.beta(rate, 1 - rate, n_groups * n)) / trials
        found, by_chance = intervals._dispersion(tasted, trials, groups, n_groups)
        assert (found > by_chance).mean() > 0.9


def test_standard_errors_are_those_of_plain_means() -> None:
    values = np.array([1.0, 2.0, 6.0])
    found = intervals._standard_errors(
        np.array([3, 1, 0, 2]),
        np.array([values.sum(), 4.0, 0.0, 6.0]),
        np.array([(values**2).sum(), 16.0, 0.0, 20.0]),
    )
    # The last group is 2 and 4.
    np.testing.assert_allclose(found, [values.std(ddof=1) / np.sqrt(3), 0.0, 0.0, 1.0])


def test_cells_of_one_or_two_users_have_intervals_too() -> None:
    """Action 0 has one visitor in context 0, action 1 two, action 2 nobody."""
    events = [(0, 0, 0, 5.0), (1, 0, 1, 3.0), (2, 0, 1, 5.0), (2, 0, 1, 3.0)]
    events += [(user, 1, user % 3, 3.0 + 2.0 * (user % 2)) for user in range(30)]
    tallies = tallied(events, n_contexts=2, n_actions=3)
    for units in (BINARY, NOT_BINARY):
        for alpha in (0.0, 0.1):
            given = (tallies, sticky_design(tallies), units)
            options: Options = {"alpha": alpha, "failure_probability": 0.1}
            found = cell_intervals(*given, **options)
            assert_same(found, interval_tables(*given, **options))
            assert np.isnan(found.low).tolist() == [[False, False, True], [False] * 3]


@pytest.mark.parametrize("most_trials", [2, 60])
def test_rates_of_many_kinds_of_groups_equal_their_literal_twin(
    rng: np.random.Generator, most_trials: int
) -> None:
    """All alike, tastes that differ, and a few users with most of the plays; some groups empty."""
    n_groups, pilot, failure = 40, 0.3, 0.15
    values, trials, groups = [], [], []
    for group in range(n_groups):
        n = int(rng.integers(0, 60))
        tries = rng.choice([[1, 1], [1, 2], [2, most_trials]][group % 3], size=n)
        tastes = np.where(rng.random(n) < 0.5, 0.05, 0.95)
        rates = [*(np.full(n, rate) for rate in (0.0, 0.02, 0.5, 1.0)), tastes][group % 5]
        values.append(rng.binomial(tries, rates, size=n) / tries)
        trials.append(tries)
        groups.append(np.full(n, group))
    n_bad = np.array([0, 1, len(values[2]) // 3, 5] * 10)
    n_bad = np.minimum(n_bad, [len(group) for group in values])
    shares = np.where(np.arange(n_groups) % 4 == 1, 0.1, np.where(n_bad > 0, np.nan, 0.0))
    order = rng.permutation(sum(map(len, values)))
    found = intervals._rates(
        np.concatenate(values)[order],
        np.concatenate(trials)[order],
        np.concatenate(groups)[order],
        n_groups,
        n_bad=n_bad,
        bad_shares=shares,
        failure_probability=failure,
        pilot=pilot,
    )
    spreads, by_chance = intervals._dispersion(
        np.concatenate(values), np.concatenate(trials), np.concatenate(groups), n_groups
    )
    for group in range(n_groups):
        # Where the spread is just the largest that is allowed, rounding decides.
        if len(values[group]) > n_bad[group] and not np.isclose(
            spreads[group], min(1.5, by_chance[group])
        ):
            expected = rate_ends(
                values[group],
                trials[group],
                n_bad=int(n_bad[group]),
                bad_share=float(shares[group]),
                failure_probability=failure,
                pilot=pilot,
            )
            np.testing.assert_allclose((found.low[group], found.high[group]), expected, atol=1e-9)


def test_colluders_can_be_as_many_as_there_are_or_as_an_assignment_lets_in() -> None:
    """Of 21 active users 3 may collude; all contexts but one are sticky."""
    events = [(user, 0, user % 2, 1.0) for user in range(21)]
    events += [(0, 1, 0, 1.0), (1, 2, 0, 1.0), (1, 2, 1, 1.0)]
    tallies = tallied(events, n_users=25, n_contexts=4, n_actions=2)
    design = Design(
        np.array([True, True, False, True]), np.array([[11, 10], [1, 0], [9, 9], [40, 0]])
    )
    shares = intervals._bad_shares(tallies, design, alpha=0.11)
    nan = np.nan
    np.testing.assert_array_equal(shares, [3 / 21, 3 / 21, 1.0, 1.0, nan, nan, 1.0, 1.0])
    most = intervals._most_bad(tallies, design, alpha=0.11, failure_probability=0.3)
    # P(B(11, .11) > 1) = .35 and P(B(10, .11) > 1) = .303, but P(B(1, .11) > 0) = .11. Of 40 it
    # could be 5, which are more than there are.
    assert most.tolist() == [[2, 2], [0, 0], [3, 3], [3, 0]]


def test_entries_of_some_cells_are_counted_from_the_first() -> None:
    tallies = tallied(
        [(0, 0, 0, 3.0), (0, 0, 1, 5.0), (0, 0, 1, 3.0), (1, 1, 0, 9.0), (1, 1, 1, 1.0)],
        n_contexts=2,
        n_actions=2,
    )
    values, trials, cells = intervals._entries(tallies, 1, np.ones(2), BINARY)
    assert (values.tolist(), trials.tolist(), cells.tolist()) == ([0.5, 1.0], [2, 1], [0, 1])
    assert trials.dtype == cells.dtype == np.int64
    values, trials, cells = intervals._entries(tallies, 0, np.ones(4), NOT_BINARY)
    assert values.tolist() == [2.25, 3.25, 8.25, 0.25]
    assert (trials.tolist(), cells.tolist()) == ([1, 1, 1, 1], [0, 1, 2, 3])
    assert trials.dtype == cells.dtype == np.int64
    nobody = intervals._entries(tallies, 0, np.zeros(4), BINARY)
    assert [len(column) for column in nobody] == [0, 0, 0]
