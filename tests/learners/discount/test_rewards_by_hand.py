"""What single plays bring, read off sums: small examples worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.learners.discount.small import sample_of, tallies_from
from unswayed.learners.discount.responses import sampling
from unswayed.learners.discount.responses.sampling import (
    lean_of_users,
    sampled,
    single_rewards,
)
from unswayed.randomness import generator


def test_entries_of_one_play_or_of_equal_ones_are_rewards_themselves() -> None:
    t = sample_of([3.0, 5.0, 7.0], [0, 0, 1], plays=[1.0, 6.0, 2.0])
    assert sorted(single_rewards(t)) == [3.0, 5.0, 7.0]


def test_two_values_are_returned_in_the_right_numbers() -> None:
    """Means .25 and .6 of values 2 and 4: two entries of single plays, and 2.5 and 3.2."""
    t = sample_of(
        [2.0, 4.0, 2.5, 3.2],
        [0, 1, 2, 3],
        plays=[1.0, 1.0, 8.0, 5.0],
        variances=[0.0, 0.0, 4 * 0.25 * 0.75, 4 * 0.6 * 0.4],
    )
    # Shares 0, 1, .25 and .6 are 1.85 of four entries: two.
    assert single_rewards(t).tolist() == [2.0, 2.0, 4.0, 4.0]


def test_other_entries_stand_for_two_rewards_with_their_mean_and_variance() -> None:
    t = sample_of(
        [1.0, 2.5, 4.7, 3.1, 0.3],
        [0, 1, 2, 3, 4],
        plays=[1.0, 1.0, 1.0, 4.0, 2.0],
        variances=[0.0, 0.0, 0.0, 0.49, 2.25],
    )
    found = single_rewards(t)
    expected = [1.0, 2.5, 4.7, 1.0, 2.5, 4.7, 3.1 - 0.7, 0.3 - 1.5, 3.1 + 0.7, 0.3 + 1.5]
    assert_allclose(found, expected)


def test_rewards_beyond_a_common_one_are_told_by_their_share_of_plays() -> None:
    """Six single plays, four of them without a purchase. Eight plays with two of 30 each."""
    t = sample_of(
        [0.0, 0.0, 0.0, 0.0, 12.0, 77.3, 7.5, 41.0],
        range(8),
        plays=[1, 1, 1, 1, 1, 1, 8, 2],
        variances=[0, 0, 0, 0, 0, 0, 0.25 * 900 - 7.5**2, 0.5],
        n_users=8,
    )
    found = single_rewards(t)
    # Of two rewards each: half a purchase of 30, and two of 41, of which sums reach 0 and 2.
    assert_allclose(sorted(found[-4:]), [0.0, 0.0, 41.0, 41.0])
    assert_allclose(sorted(found[:12]), sorted(2 * [0.0, 0.0, 0.0, 0.0, 12.0, 77.3]))


def test_stars_stay_on_their_scale() -> None:
    t = sample_of(
        [1.0, 2.0, 3.0, 5.0, 3.25, 4.5],
        range(6),
        plays=[1, 1, 1, 1, 4, 2],
        variances=[0, 0, 0, 0, 2.0, 0.25],
        n_users=6,
    )
    found = single_rewards(t)
    # 3.25 ± 1.41 is 1.84 and 4.66; 4.5 ± .5 is 4 and 5.
    assert_allclose(sorted(found[-4:]), [2.0, 4.0, 5.0, 5.0])


@pytest.mark.parametrize(
    ("exact", "means", "expected"),
    [
        ([0.0, 0.0, 3.0, 4.0], [1.0, 2.0], 0.0),
        ([0.0, 0.0, 3.0, 4.0, 5.0], [1.0, 2.0], None),  # not half of them
        ([0.0, 0.0, 3.0], [1.0, -2.0], None),  # not at an end
        ([9.0, 9.0, 3.0], [1.0, 9.0], 9.0),
        ([], [1.0], None),
    ],
)
def test_the_commonest_reward_is_an_end_or_none(
    exact: list[float], means: list[float], expected: float | None
) -> None:
    assert sampling._end(np.array(exact), np.array(means)) == expected


def test_one_in_a_thousand_may_lie_beyond_the_end() -> None:
    for n, expected in ((2000, 0.0), (1000, None)):
        means = np.append(np.ones(n - 1), -1.0)
        assert sampling._end(np.zeros(3), means) == expected
        assert sampling._end(np.zeros(3), -means) == expected


def test_larger_rewards_come_by_their_share_of_plays() -> None:
    """Entries with shares 1/4, 1/2 and 1 of 40, 10 and 5 beyond a common 100."""
    plays = np.array([4.0, 2.0, 3.0])
    means = 100.0 + np.array([10.0, 5.0, 5.0])
    variances = np.array([0.25 * 0.75 * 1600.0, 0.25 * 100.0, 0.0])
    found = sampling._beyond(100.0, plays, means, variances)
    # In order of size twice the shares add up to 2, 3 and 3.5.
    assert_allclose(found, [105.0, 105.0, 110.0, 100.0, 100.0, 100.0])


def test_a_scale_has_ends_and_the_smallest_step_of_single_rewards() -> None:
    exact, plays = np.array([1.0, 2.0, 4.0, 5.0]), np.full(100, 4.0)
    means = np.full(100, 2.25)
    assert sampling._scale(exact, plays, means) == pytest.approx((1.0, 5.0, 1.0))
    means[0] = 2.3  # one in a hundred may lie beside it
    assert sampling._scale(exact, plays, means) == pytest.approx((1.0, 5.0, 1.0))
    means[1] = 5.25
    assert sampling._scale(exact, plays, means) is None
    means[:2] = 2.25, 0.75
    assert sampling._scale(exact, plays, means) is not None
    means[2] = 0.75
    assert sampling._scale(exact, plays, means) is None
    assert sampling._scale(np.zeros(0), plays, means) is None
    assert sampling._scale(np.full(3, 2.0), plays, means) is None


def test_two_values_lie_on_a_line_of_means_and_mean_squares() -> None:
    means = np.array([2.0, 2.5, 3.2, 4.0])
    variances = (means - 2.0) * (4.0 - means)
    assert sampling._two_values(means, variances) == pytest.approx((2.0, 4.0))
    wrong = variances.copy()
    wrong[1] += 1e-3
    assert sampling._two_values(means, wrong) is None
    assert sampling._two_values(np.full(3, 2.0), np.full(3, 1.0)) is None
    far = 1e6 + means
    assert sampling._two_values(far, variances) == pytest.approx((1e6 + 2.0, 1e6 + 4.0))


def test_values_are_taken_as_they_were_seen() -> None:
    seen = np.array([0.1, 0.1 + 1e-9, 0.7])
    assert sampling._nearest(seen, (0.1 + 1e-8, 0.5)) == (0.1, 0.5)
    assert sampling._nearest(seen[:0], (0.2, 0.5)) == (0.2, 0.5)


def test_at_most_ten_entries_of_a_user_are_taken_evenly_by_their_means() -> None:
    """User 0 has 25 entries in any order, user 1 has three, user 2 none, user 3 ten."""
    rng = generator(0, "entries")
    means = np.concatenate([rng.permutation(25.0 * np.ones(25).cumsum()), [3.0, 1.0, 2.0]])
    means = np.concatenate([means, np.arange(10.0)])
    users = np.repeat([0, 1, 3], [25, 3, 10])
    t = sample_of(list(means), list(users), n_users=4)
    kept = sampling._some_of_each(t)
    order = np.argsort(means[:25])
    # The k-th of ten ends where (place + 1)·10/25 reaches it: places 2, 4, 7, 9 and so on.
    assert kept[:10].tolist() == order[[2, 4, 7, 9, 12, 14, 17, 19, 22, 24]].tolist()
    assert kept[10:13].tolist() == [26, 27, 25]
    assert kept[13:].tolist() == list(range(28, 38))


def test_users_ranks_are_from_the_middle_and_shared_by_equal_values() -> None:
    groups = np.array([1, 0, 1, 1, 0, 1])
    values = np.array([5.0, 2.0, 1.0, 5.0, 1.0, 9.0])
    assert sampling._ranks(groups, values, 3).tolist() == [0.0, 0.5, -1.5, 0.0, -0.5, 1.5]


def test_a_vote_by_scatter_is_a_rank_correlation(rng: np.random.Generator) -> None:
    users = np.repeat([0, 1, 2, 3], [6, 5, 9, 6])
    values, variances = rng.integers(0, 5, len(users)).astype(float), rng.random(len(users))
    values[users == 3] = 1.0
    found = sampling._rank_votes(users, values, variances, 5)
    expected = stats.spearmanr(values[users == 2], variances[users == 2]).statistic
    assert found[2] == pytest.approx(expected)
    assert np.isfinite(found[0])
    assert np.isnan(found[[1, 3, 4]]).all()  # too few entries, all alike, and none


def test_a_vote_by_tails_is_how_far_they_reach_from_the_median() -> None:
    users = np.repeat([0, 1, 2, 3], [6, 5, 40, 6])
    values = np.concatenate(
        [[0, 1, 2, 3, 4, 10], np.arange(5), np.arange(40.0) ** 2, np.zeros(6)]
    ).astype(float)
    found = sampling._tail_votes(users, values, 5)
    assert found[0] == pytest.approx((10.0 + 0.0 - 2.0 * 2.5) / 10.0)
    low, high, middle = 2.0**2, 37.0**2, (19.0**2 + 20.0**2) / 2.0
    assert found[2] == pytest.approx((high + low - 2.0 * middle) / (high - low))
    assert np.isnan(found[[1, 3, 4]]).all()


def test_cells_with_eight_entries_have_a_median_of_their_own() -> None:
    cells = np.repeat([0, 1], [8, 7]).astype(np.int32)
    means = np.concatenate([np.arange(8.0), 100.0 + np.arange(7.0)])
    found = sampling._centres(cells, means, 3)
    assert_array_equal(found, [3.5] * 8 + [7.0] * 0 + [float(np.median(means))] * 7)
    assert sampling._centres(cells[:0], means[:0], 3).tolist() == []


def test_a_hundred_users_can_tell_to_which_side_rewards_lean() -> None:
    """Every user has six entries of one play that lean alike, in a cell of their own each."""
    for n_users, expected in ((100, 0.5), (99, 0.0)):
        users = np.repeat(np.arange(n_users), 6)
        means = np.tile([0.0, 1.0, 2.0, 3.0, 4.0, 10.0], n_users)
        t = tallies_from(
            users, np.tile(np.arange(6), n_users) + 6 * users, np.ones(len(users)), means,
            np.zeros(len(users)), n_users=n_users, n_contexts=n_users, n_actions=6,
        )  # fmt: skip
        assert lean_of_users(t) == pytest.approx(expected)


def test_votes_by_scatter_come_before_those_by_tails(rng: np.random.Generator) -> None:
    """Entries of several plays: larger means scatter more, in every user; tails lean down."""
    n_users, per_user = 120, 12
    users = np.repeat(np.arange(n_users), per_user)
    is_many = np.tile(np.arange(per_user) < 6, n_users)
    means = np.where(is_many, np.tile(np.arange(per_user), n_users), -(rng.random(len(users)) ** 4))
    t = tallies_from(
        users, np.tile(np.arange(per_user), n_users) + per_user * users,
        np.where(is_many, 3.0, 1.0), means, np.where(is_many, 1.0 + means, 0.0),
        n_users=n_users, n_contexts=n_users, n_actions=per_user,
    )  # fmt: skip
    assert lean_of_users(t) == pytest.approx(1.0)


def test_samples_of_plays_have_no_importance_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sample_of([5.0, 9.0, 2.0], [0, 1, 2], plays=[2.0, 4.0, 3.0], variances=[0.5, 3.0, 1.0])
    weighted = plain.scaled(np.array([0.5, 2.0, 4.0]))
    found, chosen = sampled(weighted, generator(0))
    assert chosen == slice(None)
    assert not found.is_weighted
    assert_allclose(found.counts, plain.counts)
    assert_allclose(found.sums, plain.sums)
    assert_allclose(found.squares, plain.squares)
    monkeypatch.setattr(sampling, "SAMPLE_ENTRIES", 3)
    assert sampled(weighted, generator(0))[1] == slice(None)
    monkeypatch.setattr(sampling, "SAMPLE_ENTRIES", 2)
    found, chosen = sampled(weighted, generator(5))
    assert_array_equal(chosen, np.sort(generator(5).choice(3, size=2, replace=False)))
    assert_allclose(found.sums, plain.sums[chosen])
    monkeypatch.setattr(sampling, "SAMPLE_ENTRIES", 0)
    assert len(np.asarray(sampled(weighted, generator(5))[1])) == 1
