from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.limits import (
    RewardUrns,
    binomial_counts,
    hiding_distance,
    one_sided_adversary,
    two_sided_adversaries,
)

one_sided_distance = partial(hiding_distance, is_one_sided=True)

CASES = [(0.1, 10, 0.2, 0.5), (0.05, 40, 0.2, 0.5), (0.3, 6, 0.45, 0.1), (0.4, 5, 0.3, 0.6)]
ENDS = [(0.2, 3, 0.2, 0.0), (1.0, 3, 0.7, 0.0)]  # worlds that a single play can distinguish


def distance(first: FloatArray, second: FloatArray) -> float:
    """Return the total variation distance."""
    return 0.5 * float(np.abs(first - second).sum())


def prefix(counts: FloatArray, length: int) -> FloatArray:
    """Return the counts of ones in the first plays, when all orders are equally likely."""
    n = counts.size - 1
    ones = np.arange(length + 1)
    return np.array(sum(q * hypergeom.pmf(ones, n, k, length) for k, q in enumerate(counts) if q))


@pytest.mark.parametrize(("gap", "n", "alpha", "base"), CASES + ENDS)
def test_the_one_sided_coalition_attains_the_least_distance(
    gap: float, n: int, alpha: float, base: float
) -> None:
    adversary = one_sided_adversary(gap, n, alpha, base=base)
    ordinary, better = binomial_counts(n, base).dense(), binomial_counts(n, base + gap).dense()
    mixture = (1 - alpha) * better + alpha * adversary.counts.dense()
    least = float(one_sided_distance(gap, n, alpha, base=base))
    assert adversary.counts.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert distance(ordinary, mixture) == pytest.approx(least, abs=1e-12)
    assert adversary.distance == pytest.approx(least, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(weights=st.lists(st.floats(0, 1), min_size=11, max_size=11).filter(lambda w: sum(w) > 0.1))
def test_no_other_coalition_attains_a_smaller_distance(weights: list[float]) -> None:
    other = np.array(weights) / sum(weights)
    mixture = 0.8 * binomial_counts(10, 0.6).dense() + 0.2 * other
    assert (
        distance(binomial_counts(10, 0.5).dense(), mixture)
        >= one_sided_distance(0.1, 10, 0.2) - 1e-12
    )


def test_every_prefix_is_hidden_at_least_as_well_as_the_whole() -> None:
    gap, n, alpha, base = 0.1, 12, 0.2, 0.4
    counts = one_sided_adversary(gap, n, alpha, base=base).counts.dense()
    whole = float(one_sided_distance(gap, n, alpha, base=base))
    left = [
        distance(
            binomial_counts(m, base).dense(),
            (1 - alpha) * binomial_counts(m, base + gap).dense() + alpha * prefix(counts, m),
        )
        for m in range(1, n + 1)
    ]
    assert left[-1] == pytest.approx(whole, abs=1e-12)
    assert np.all(np.diff(left) >= -1e-12)


@pytest.mark.parametrize(("gap", "n", "alpha", "base"), CASES + ENDS)
def test_the_two_sided_pair_attains_the_least_distance(
    gap: float, n: int, alpha: float, base: float
) -> None:
    pair = two_sided_adversaries(gap, n, alpha, base=base)
    ordinary, better = binomial_counts(n, base).dense(), binomial_counts(n, base + gap).dense()
    seen_ordinary = (1 - alpha) * ordinary + alpha * pair.ordinary.counts.dense()
    seen_better = (1 - alpha) * better + alpha * pair.better.counts.dense()
    least = float(hiding_distance(gap, n, alpha, base=base))
    assert seen_ordinary.sum() == pytest.approx(1, abs=1e-12)
    assert seen_better.sum() == pytest.approx(1, abs=1e-12)
    assert distance(seen_ordinary, seen_better) == pytest.approx(least, abs=1e-12)
    assert pair.ordinary.distance == pair.better.distance == pytest.approx(least, abs=1e-12)
    assert np.allclose(pair.observed.dense(), seen_ordinary, atol=1e-15)


def test_a_larger_coalition_gives_the_same_observations_as_the_smallest() -> None:
    """Both mixtures are then max(P0, P1)/(1 + TV)."""
    small, large = (two_sided_adversaries(0.1, 9, alpha).observed.dense() for alpha in (0.2, 0.4))
    assert np.allclose(small, large, atol=1e-14)


def test_a_million_plays_have_a_normalised_distribution() -> None:
    adversary = one_sided_adversary(0.001, 10**6, 0.2)
    assert adversary.counts.probabilities.sum() == pytest.approx(1, abs=1e-10)
    assert np.all(adversary.counts.probabilities >= 0)
    assert adversary.distance == pytest.approx(
        float(one_sided_distance(0.001, 10**6, 0.2)), abs=1e-12
    )


def band(size: int, failure: float = 1e-9) -> float:
    """Return the Dvoretzky–Kiefer–Wolfowitz band: sup |F_m − F| ≤ sqrt(ln(2/failure)/(2m))."""
    return math.sqrt(math.log(2 / failure) / (2 * size))


def largest_gap(drawn: IntArray, law: FloatArray) -> float:
    """Return sup |F_m − F| over counts."""
    seen = np.cumsum(np.bincount(drawn, minlength=law.size)) / drawn.size
    return float(np.abs(seen - np.cumsum(law)).max())


def test_drawing_play_by_play_keeps_the_law_of_every_prefix(rng: np.random.Generator) -> None:
    adversary = one_sided_adversary(0.1, 10, 0.2)
    members = np.arange(40_000)
    urns = adversary.start(members.size, rng)
    sums = np.zeros(members.size, dtype=np.int64)
    for play in range(1, 11):
        sums += urns.draw(members, rng).astype(np.int64)
        if play in (1, 4, 10):
            law = prefix(adversary.counts.dense(), play)
            assert largest_gap(sums, law) <= band(members.size)
    assert not urns.remaining.any()


def test_the_pair_hides_which_world_it_is_while_a_crude_coalition_does_not(
    rng: np.random.Generator,
) -> None:
    """A coalition of 20% hides 9 plays exactly. Negative control: always reporting 0."""
    n_users, n, alpha = 40_000, 9, 0.2
    n_bad = int(alpha * n_users)
    pair = two_sided_adversaries(0.1, n, alpha)
    members = np.repeat(np.arange(n_bad), n)

    def world(mean: float, bad: IntArray) -> IntArray:
        return np.concatenate([rng.binomial(n, mean, n_users - n_bad), bad])

    def drawn(urns: RewardUrns) -> IntArray:
        return np.bincount(members, weights=urns.draw(members, rng)).astype(np.int64)

    ordinary = world(0.5, drawn(pair.ordinary.start(n_bad, rng)))
    better = world(0.6, drawn(pair.better.start(n_bad, rng)))
    crude = world(0.6, np.zeros(n_bad, dtype=np.int64))
    # Good and bad users are samples of fixed size, each with its own band.
    allowed = (1 - alpha) * band(n_users - n_bad) + alpha * band(n_bad)
    law = pair.observed.dense()
    assert largest_gap(ordinary, law) <= allowed
    assert largest_gap(better, law) <= allowed
    assert largest_gap(crude, law) > allowed


def test_repeated_members_and_empty_urns_are_supported(
    rng: np.random.Generator,
) -> None:
    urns = RewardUrns([2, 0], 3, afterwards=0.0)
    rewards = urns.draw([0, 1, 0, 0, 0, 1], rng)
    assert rewards[[0, 2, 3]].sum() == 2
    assert rewards[4] == 0
    assert rewards[[1, 5]].sum() == 0
    assert urns.remaining.tolist() == [0, 1]
    always = RewardUrns([0], 2, afterwards=1.0)
    assert always.draw([0] * 4, rng).tolist() == [0, 0, 1, 1]


def test_a_million_plays_are_drawn_without_storing_them(rng: np.random.Generator) -> None:
    urns = one_sided_adversary(0.001, 10**6, 0.2).start(5, rng)
    urns.draw(np.zeros(100, dtype=np.int64), rng)
    assert urns.remaining.tolist() == [10**6 - 100, *[10**6] * 4]


def test_invalid_urns_are_rejected(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="at least 1"):
        one_sided_adversary(0.1, 0, 0.2)
    with pytest.raises(InputError, match="without a coalition"):
        two_sided_adversaries(0.1, 5, 0.0)
    with pytest.raises(InputError, match="between 0 and interactions"):
        RewardUrns([4], 3, afterwards=0.5)
    with pytest.raises(InputError, match="probability"):
        RewardUrns([3], 3, afterwards=1.5)
    with pytest.raises(InputError, match="probability"):
        binomial_counts(3, -0.1)
    urns = RewardUrns([1, 2], 3, afterwards=0.5)
    with pytest.raises(InputError, match="from 0 to 1"):
        urns.draw([2], rng)
