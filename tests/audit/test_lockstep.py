"""Lockstep: who rates the same items alike, beyond what popularity explains."""

import numpy as np
import pytest
from scipy import stats

from tests.audit.markets import Market, market
from unswayed.audit.lockstep import Lockstep, find_lockstep, ratings_of
from unswayed.audit.lockstep.kernels import Rated, binomial_tail, pair_evidence, poisson_tail
from unswayed.audit.lockstep.scores import _spread
from unswayed.audit.redteam import area_under_curve
from worlds.reviews import (
    CLEAN,
    ReviewSpec,
    build_reviews,
    with_minority,
    with_releases,
    with_series,
)


@pytest.mark.parametrize(("k", "expected"), [(1, 0.01), (3, 0.5), (7, 2.0), (40, 3.0)])
def test_evidence_of_overlap_is_the_poisson_tail(k: int, expected: float) -> None:
    assert poisson_tail(k, expected) == pytest.approx(-stats.poisson.logsf(k - 1, expected))


def test_no_more_overlap_than_expected_is_no_evidence() -> None:
    assert poisson_tail(2, 3.0) == 0.0


@pytest.mark.parametrize(("c", "k", "q"), [(1, 1, 0.05), (3, 5, 0.1), (9, 10, 0.02)])
def test_evidence_of_closeness_is_the_binomial_tail(c: int, k: int, q: float) -> None:
    assert binomial_tail(c, k, q) == pytest.approx(-stats.binom.logsf(c - 1, k, q))


def test_evidence_is_that_of_all_pairs_counted_one_by_one(rng: np.random.Generator) -> None:
    n_users, n_items = 30, 12
    users, items = np.repeat(np.arange(n_users), 5), rng.integers(n_items, size=150)
    ratings = ratings_of(
        users,
        items,
        rng.integers(1, 3, size=150).astype(np.float64),
        None,
        n_users=n_users,
        n_items=n_items,
    )
    starts, order = ratings.by_key
    everything = np.ones(len(ratings.said_by), dtype=np.bool_)
    rated = Rated(
        ratings.indptr,
        ratings.keys,
        np.empty(0),
        ratings.users,
        starts,
        order,
        everything,
        0.02,
        0.0,
        0.5,
    )
    found = pair_evidence(rated, np.array([0.0, 1.0]))
    said = [set(ratings.keys[ratings.users == u].tolist()) for u in range(n_users)]
    for u in range(n_users):
        evidence = np.array(
            [
                poisson_tail(len(said[u] & said[v]), 0.02 * len(said[u]) * len(said[v]))
                for v in range(n_users)
                if v != u and said[u] & said[v]
            ]
        )
        expected = [np.maximum(evidence - least, 0.0).sum() for least in (0.0, 1.0)]
        assert found[u] == pytest.approx(expected)


def _within_items(found: Lockstep, drawn: Market) -> float:
    wins, pairs = 0.0, 0
    for item in np.unique(drawn.items[drawn.is_paid[drawn.users]]):
        raters = drawn.users[drawn.items == item]
        bad, honest = raters[drawn.is_paid[raters]], raters[~drawn.is_paid[raters]]
        wins += (found.scores[bad][:, None] > found.scores[honest][None, :]).sum()
        pairs += len(bad) * len(honest)
    return wins / pairs


@pytest.mark.parametrize("n_groups", [10, 25, 43])
def test_paid_groups_rank_above_others_over_all_and_within_items(
    rng: np.random.Generator, n_groups: int
) -> None:
    # Shares of .1, .2 and .3. What has to be reached is .90 and .70 on harder data.
    drawn = market(rng, n_groups=n_groups)
    found = find_lockstep(drawn.ratings())
    assert area_under_curve(found.scores, drawn.is_paid) > 0.97
    assert _within_items(found, drawn) > 0.95
    assert found.is_flagged[drawn.is_paid].mean() > 0.5
    assert found.is_flagged[~drawn.is_paid].mean() < 0.01
    # The negative control: neither how much nor how highly somebody rates gives them away.
    activity = drawn.ratings().activity.astype(float)
    assert area_under_curve(activity, drawn.is_paid) < 0.6


def test_nobody_is_flagged_in_a_clean_market(rng: np.random.Generator) -> None:
    for _ in range(3):
        drawn = market(rng, n_groups=0)
        for with_times in (False, True):
            assert not find_lockstep(drawn.ratings(with_times=with_times)).is_flagged.any()


def test_times_help_where_groups_come_in_bursts(rng: np.random.Generator) -> None:
    drawn = market(rng, n_groups=15, group_size=6, n_targets=6, burst=86_400.0)
    without, with_times = (find_lockstep(drawn.ratings(with_times=t)) for t in (False, True))
    caught = [found.is_flagged[drawn.is_paid].mean() for found in (without, with_times)]
    assert caught[1] > caught[0]
    assert with_times.is_flagged[~drawn.is_paid].mean() < 0.01


def test_the_order_of_rows_and_of_accounts_changes_nothing(rng: np.random.Generator) -> None:
    drawn = market(rng, n_honest=400, n_groups=3)
    # Ratings of an item that somebody rated twice differ: the first one counts.
    pairs = drawn.users * drawn.n_items + drawn.items
    _, first = np.unique(pairs, return_index=True)
    drawn = drawn._replace(
        users=drawn.users[first], items=drawn.items[first], stars=drawn.stars[first]
    )
    names, rows = rng.permutation(drawn.n_users), rng.permutation(len(drawn.users))
    moved = drawn._replace(
        users=names[drawn.users[rows]], items=drawn.items[rows], stars=drawn.stars[rows]
    )
    before, after = find_lockstep(drawn.ratings()), find_lockstep(moved.ratings())
    assert after.scores[names] == pytest.approx(before.scores)
    assert (after.is_flagged[names] == before.is_flagged).all()


def test_nobody_counts_for_their_own_score(rng: np.random.Generator) -> None:
    ratings = market(rng, n_honest=300, n_groups=2).ratings()
    own = rng.random(ratings.n_users)
    raised = own.copy()
    raised[7] += 1e-3
    before, after = _spread(own, ratings), _spread(raised, ratings)
    # It comes back by the mean of all, and from others in the second round; never directly.
    assert after[7] - before[7] < 1e-3 * 0.5
    raised[7] += 10.0
    others = np.setdiff1d(
        ratings.users[np.isin(ratings.keys, ratings.keys[ratings.users == 7])], [7]
    )
    if len(others):
        assert (_spread(raised, ratings)[others] > before[others]).all()


def test_scores_differ_wherever_accounts_do(rng: np.random.Generator) -> None:
    drawn = market(rng, n_groups=0)
    scores = find_lockstep(drawn.ratings()).scores
    assert len(np.unique(scores)) > len(scores) / 2


def test_a_log_without_any_overlap_is_no_error() -> None:
    users = np.arange(50)
    found = find_lockstep(ratings_of(users, users, np.ones(50), None, n_users=50, n_items=50))
    assert not found.is_flagged.any()
    assert np.isfinite(found.scores).all()


def test_a_minority_with_items_of_its_own_is_left_in_peace() -> None:
    """Sharing items is no offence; the negative control is a minority that always says five."""
    log, is_member = with_minority(build_reviews(CLEAN[0], 3), 0.1, 60, 3)
    flagged = {}
    for name, stars in (
        ("honest", log.stars),
        ("alike", np.where(is_member[log.users], 5.0, log.stars)),
    ):
        ratings = ratings_of(
            log.users, log.items, stars, None, n_users=log.n_users, n_items=log.n_items
        )
        flagged[name] = find_lockstep(ratings).is_flagged
    assert flagged["honest"].mean() < 0.01
    assert flagged["honest"][is_member].mean() < 0.05
    assert flagged["alike"][is_member].mean() > 0.5


@pytest.mark.parametrize("spec", CLEAN[3:5], ids=lambda spec: spec.name)
@pytest.mark.parametrize("has_times", [False, True])
def test_series_and_releases_are_no_lockstep(spec: ReviewSpec, has_times: bool) -> None:
    for log in (with_series(build_reviews(spec, 5), 5), with_releases(build_reviews(spec, 5), 5)):
        times = log.days * 86_400.0 if has_times else None
        ratings = ratings_of(
            log.users, log.items, log.stars, times, n_users=log.n_users, n_items=log.n_items
        )
        assert find_lockstep(ratings).is_flagged.mean() <= 0.02
