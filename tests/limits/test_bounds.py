from __future__ import annotations

import numpy as np
import pytest

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.limits import (
    instance_complexity,
    interactions_alone,
    largest_swap_interactions,
    lower_bound_interactions,
    normal_total_variation,
    smallest_coalition,
    smallest_swap_coalition,
    swap_separation,
    upper_bound_suboptimality,
    users_needed,
)


def uniform(n_contexts: int) -> FloatArray:
    """Return equally likely contexts."""
    return np.full(n_contexts, 1 / n_contexts)


def power_law(n_contexts: int, gamma: float) -> FloatArray:
    """Return probabilities proportional to j^−(1+gamma)."""
    weights = np.arange(1, n_contexts + 1) ** -(1.0 + gamma)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        (uniform(10), 3.16227766),
        (uniform(100), 4.0),
        (power_law(100, 0.5), 3.73581999),
        (power_law(100, 1.0), 3.01259097),
        (power_law(100, 2.0), 2.01292120),
    ],
)
def test_complexities_equal_those_of_the_notes(probabilities: FloatArray, expected: float) -> None:
    """Source: notes on the paper, section 4; ten actions."""
    assert instance_complexity(probabilities, 10) == pytest.approx(expected, abs=5.1e-9)


def test_complexity_does_not_depend_on_the_order_of_contexts(rng: np.random.Generator) -> None:
    probabilities = power_law(50, 1.0)
    shuffled = rng.permutation(probabilities)
    assert instance_complexity(shuffled, 7) == pytest.approx(instance_complexity(probabilities, 7))


def test_context_errors_matter_only_with_more_contexts_than_actions() -> None:
    """The term sqrt(2·error·A) is in the proof of Theorem 5.1, but not in the theorem."""
    assert instance_complexity(uniform(100), 10, context_error=0.05) == pytest.approx(5.0)
    assert instance_complexity(uniform(10), 10, context_error=0.05) == instance_complexity(
        uniform(10), 10
    )


def test_bounds_follow_the_papers_formulas() -> None:
    """Uniform contexts: K² = S for S ≤ A, and between A and 4A beyond, by (x + y)² ≤ 2x² + 2y²."""
    assert upper_bound_suboptimality(uniform(5), 10, 0.2, 50) == pytest.approx(
        (5 * 0.2 / 50) ** 0.5
    )
    for n_contexts in (20, 100, 1000):
        assert 10 <= instance_complexity(uniform(n_contexts), 10) ** 2 <= 40
    assert lower_bound_interactions(20, 10, 0.2, 0.01) == pytest.approx(10 * 0.2**2 / 0.03**2)
    assert users_needed(10, 10, 0.2) == int(np.ceil(100 * np.log(100) / 0.2))
    assert users_needed(1, 1, 0.5) == 2
    assert interactions_alone(uniform(5), 10, 0.1) == pytest.approx(50 / 0.01)


def test_the_limit_of_a_swap_is_the_distance_of_two_normals() -> None:
    """2Φ(d'/2) − 1, from tables of the normal distribution: Φ(1) = .8413447461."""
    assert swap_separation(0.1, 200, 4) == pytest.approx(2.0)
    assert normal_total_variation(2.0) == pytest.approx(2 * 0.8413447461 - 1, abs=2e-10)
    tv = 2 * 0.8413447461 - 1
    assert smallest_swap_coalition(0.1, 200, 4) == pytest.approx(tv / (1 + tv), abs=2e-10)
    assert largest_swap_interactions(0.1, 4, tv / (1 + tv)) == pytest.approx(200, rel=1e-8)


def test_the_normal_limit_is_close_to_the_exact_one_for_many_plays() -> None:
    """One action moved by 0.02 over 2500 plays: d' = gap·sqrt(n)/sd, half a swap's plays each.

    By Berry–Esseen, the error of each of the two tails is at most 0.4748/sqrt(n), since for fair
    coins the third absolute moment over sd³ is 1 (1.0016 at 0.52). The standard deviations differ
    by less than 0.1%.
    """
    n, gap = 2500, 0.02
    exact = float(smallest_coalition(gap, n))
    normal = float(smallest_swap_coalition(gap, n, 2))  # 2N/A = n
    assert abs(exact - normal) <= 2 * 0.4748 * 1.01 / np.sqrt(n)


@pytest.mark.parametrize(
    ("alpha", "epsilon", "told"),
    [
        (0.2, 0.2, "nothing to plan"),
        (0.2, 0.5, "nothing to plan"),
        (0.2, 0.0, "finite number above 0"),
        (0.4, 0.1, "below one third"),
        (0.0, 0.1, "without a coalition"),
        (1.0, 0.1, "share of the users"),
    ],
)
def test_invalid_targets_are_rejected(alpha: float, epsilon: float, told: str) -> None:
    with pytest.raises(InputError, match=told):
        lower_bound_interactions(4, 3, alpha, epsilon)


@pytest.mark.parametrize(
    ("probabilities", "told"),
    [
        ([0.5, 0.4], "sum to 0.9, not to 1"),
        ([1.5, -0.5], "contains -0.5"),
        ([0.5, float("nan")], "contains nan"),
        ([], "one list"),
        ([[0.5, 0.5]], "one list"),
    ],
)
def test_invalid_probabilities_are_rejected(probabilities: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        instance_complexity(probabilities, 3)  # type: ignore[arg-type]  # bad on purpose


def test_other_invalid_input_is_rejected() -> None:
    with pytest.raises(InputError, match="n_actions"):
        instance_complexity([1.0], 0)
    with pytest.raises(InputError, match="context_error"):
        instance_complexity([1.0], 2, context_error=-1.0)
    with pytest.raises(InputError, match="nothing to hide"):
        swap_separation(0.0, 5, 2)
    with pytest.raises(InputError, match="at least 2"):
        swap_separation(0.1, 5, 1)
    with pytest.raises(InputError, match="noise"):
        swap_separation(0.1, 5, 2, noise=0.0)
    with pytest.raises(InputError, match="half the users or more"):
        largest_swap_interactions(0.1, 2, 0.5)
