"""Numbers of replaced points, compared with brute force over all replacements."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unswayed.learners.flips import NO_RIVAL, TrimmedFlips, trimmed_flips

LOUD = 1e6

# Sums of quarters are exact, so ties are exact and no tolerance is needed.
points = st.lists(st.integers(-8, 8).map(lambda number: number / 4), min_size=1, max_size=5)


def mean_after_cut(values: list[float], cut: int) -> float:
    kept = sorted(values)[cut : len(values) - cut]
    return sum(kept) / len(kept)


def flips_of(groups: list[list[float]], cuts: list[int]) -> TrimmedFlips:
    means = [mean_after_cut(group, cut) for group, cut in zip(groups, cuts, strict=True)]
    return trimmed_flips(
        np.concatenate([np.array(group, float) for group in groups]),
        np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        n_zeros=np.zeros((1, len(groups)), np.int64),
        n_cut=np.array([cuts]),
        leaders=np.array([int(np.argmax(means))]),
        is_known=np.ones((1, len(groups)), np.bool_),
    )


def reachable(values: list[float], cut: int, number: int) -> list[float]:
    """Return every trimmed mean after replacing some points by very small or very large ones."""
    return [
        mean_after_cut([*(v for i, v in enumerate(values) if i not in gone), *new], cut)
        for gone in combinations(range(len(values)), number)
        for new in product([-LOUD, LOUD], repeat=number)
    ]


def fewest_by_trial(groups: list[list[float]], cuts: list[int], *, ties_count: bool) -> int:
    means = [mean_after_cut(group, cut) for group, cut in zip(groups, cuts, strict=True)]
    leader = int(np.argmax(means))
    for total in range(1, sum(map(len, groups)) + 1):
        for rival in range(len(groups)):
            if rival == leader:
                continue
            for fallen in range(total + 1):
                if fallen > len(groups[leader]) or total - fallen > len(groups[rival]):
                    continue
                low = min(reachable(groups[leader], cuts[leader], fallen))
                high = max(reachable(groups[rival], cuts[rival], total - fallen))
                if high > low or (ties_count and high == low):
                    return total
    raise AssertionError("replacing everything changes every leader")


@settings(max_examples=150, deadline=None)
@given(first=points, second=points, third=points, data=st.data())
def test_the_bounds_equal_a_search_over_all_replacements(
    first: list[float], second: list[float], third: list[float], data: st.DataObject
) -> None:
    groups = [first, second, third]
    cuts = [data.draw(st.integers(0, (len(group) - 1) // 2)) for group in groups]
    flips = flips_of(groups, cuts)
    assert flips.fewest[0] == fewest_by_trial(groups, cuts, ties_count=True)
    assert flips.enough[0] == fewest_by_trial(groups, cuts, ties_count=False)


@settings(max_examples=150, deadline=None)
@given(first=points, second=points, data=st.data())
def test_removing_points_is_never_cheaper_than_replacing_them(
    first: list[float], second: list[float], data: st.DataObject
) -> None:
    """The cut may decrease by one per removed point, like quantiles of a binomial number."""
    groups = [first, second]
    cuts = [data.draw(st.integers(0, (len(group) - 1) // 2)) for group in groups]
    fewest = int(flips_of(groups, cuts).fewest[0])
    means = [mean_after_cut(group, cut) for group, cut in zip(groups, cuts, strict=True)]
    leader = int(np.argmax(means))
    for numbers in product(*(range(len(group)) for group in groups)):
        if not 0 < sum(numbers) < fewest:
            continue
        after = []
        for group, cut, number in zip(groups, cuts, numbers, strict=True):
            most = min(cut, (len(group) - number - 1) // 2)
            smaller = data.draw(st.integers(max(0, cut - number), most))
            after.append(
                [
                    mean_after_cut([v for i, v in enumerate(group) if i not in gone], smaller)
                    for gone in combinations(range(len(group)), number)
                ]
            )
        rival = 1 - leader
        assert max(after[rival]) < min(after[leader])


def test_implicit_zeros_count_like_stored_zeros() -> None:
    stored = flips_of([[0.0, 0, 0, 1, 2, 3], [-1.0, -1, 0, 0, 0, 1]], [1, 2])
    implicit = trimmed_flips(
        np.array([1.0, 2, 3, -1, -1, 1]),
        np.repeat([0, 1], 3),
        n_zeros=np.array([[3, 3]]),
        n_cut=np.array([[1, 2]]),
        leaders=np.array([0]),
        is_known=np.ones((1, 2), np.bool_),
    )
    for name in ("fewest", "enough", "rivals", "from_leader", "from_rival"):
        assert getattr(stored, name).tolist() == getattr(implicit, name).tolist()


def test_a_single_point_changes_a_plain_mean() -> None:
    """Negative control: without trimming, no margin is large enough."""
    assert flips_of([[100.0] * 50, [0.0] * 50], [0, 0]).fewest[0] == 1


def test_an_unseen_column_takes_part_once_a_point_is_replaced() -> None:
    """All means are zero; the unseen first column wins ties once it has a point."""
    flips = trimmed_flips(
        np.array([0.0, 0, 0]),
        np.array([1, 1, 1]),
        n_zeros=np.array([[5, 0]]),
        n_cut=np.array([[2, 1]]),
        leaders=np.array([1]),
        is_known=np.array([[False, True]]),
    )
    assert flips.fewest[0] == 1
    assert flips.rivals[0] == 0


def test_a_leader_without_rivals_is_lost_only_if_all_its_points_are_replaced() -> None:
    flips = trimmed_flips(
        np.array([1.0, 2.0, 3.0]),
        np.array([0, 0, 0]),
        n_zeros=np.zeros((1, 2), np.int64),
        n_cut=np.array([[1, 0]]),
        leaders=np.array([0]),
        is_known=np.array([[True, False]]),
    )
    assert (flips.fewest[0], flips.rivals[0]) == (3, NO_RIVAL)


def test_every_row_has_its_own_leader() -> None:
    """The rows have points 3…9 and 0…6 (means 6 and 3), and the reverse, with a cut of two.

    Each of up to two replacements changes a mean by one.
    """
    high, low = np.arange(3.0, 10.0), np.arange(7.0)
    flips = trimmed_flips(
        np.concatenate([high, low, low, high]),
        np.repeat(np.arange(4), 7),
        n_zeros=np.zeros((2, 2), np.int64),
        n_cut=np.full((2, 2), 2),
        leaders=np.array([0, 1]),
        is_known=np.ones((2, 2), np.bool_),
    )
    assert flips.fewest.tolist() == flips.enough.tolist() == [3, 3]
    assert flips.rivals.tolist() == [1, 0]
    assert (flips.from_leader + flips.from_rival).tolist() == [3, 3]
