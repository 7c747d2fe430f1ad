"""The rounds that spectral filters share, with scores that are made up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from tests.refusals import refusal
from unswayed.arrays import FloatArray
from unswayed.estimators import MeanEstimate, spectral_filter
from unswayed.estimators.rows import as_rows
from unswayed.estimators.spectral_filter import (
    Look,
    Suspicion,
    _first,
    _is_sane,
    _look,
    _tail_score,
    _within_budget,
    prune,
)
from unswayed.estimators.spectrum import WeightedRows, believable_column_variances, top_direction
from unswayed.estimators.tails import kept_shares, weighted_quantile

N_ROWS = 20
TINY = 1e-9  # a noise scale at which no spectrum looks honest


class Accuser:
    """Wants to remove a share of some rows, the same in every round; keeps what it was shown."""

    def __init__(self, share: float, rows: slice, deviations: float) -> None:
        self.kept = np.ones(N_ROWS)
        self.kept[rows] = 1.0 - share
        self.deviations = np.full(N_ROWS, deviations)
        self.looks: list[Look] = []
        self.n_threads: set[int] = set()

    def __call__(self, look: Look) -> Suspicion:
        """Accuse the rows."""
        self.looks.append(look)
        self.n_threads |= {
            pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
        }
        n_rows = look.sample.weights.size
        return Suspicion(self.kept[:n_rows], self.deviations[:n_rows])


def pruned(
    array: FloatArray, score: Accuser, *, alpha: float = 0.1, **options: Any
) -> MeanEstimate:
    defaults = {"noise_scale": TINY, "row_weights": None, "max_iterations": 9}
    return prune(array, score, alpha=alpha, **(defaults | options))


@pytest.fixture
def array(rng: np.random.Generator) -> FloatArray:
    return 5.0 + rng.standard_normal((N_ROWS, 3))


def test_each_round_removes_what_the_score_wants(array: FloatArray) -> None:
    result = pruned(array, Accuser(0.5, slice(0, 1), 3.0), max_iterations=2)
    assert result.weights.tolist() == [0.25] + [1.0] * 19
    assert (result.iterations, result.stopped) == (2, "iterations")
    assert [step.removed for step in result.spectrum] == pytest.approx([0.0, 0.5 / 20, 0.75 / 20])
    assert result.removed == pytest.approx(0.75 / 20)
    np.testing.assert_allclose(
        result.estimate, np.average(array, axis=0, weights=result.weights), rtol=1e-12
    )


def test_a_round_that_would_remove_hardly_anything_is_the_last(array: FloatArray) -> None:
    """The first wants .5, .25 and .125 of a row in turn, then less than a tenth."""
    result = pruned(array, Accuser(0.5, slice(0, 1), 3.0))
    assert (result.iterations, result.stopped) == (3, "tail")
    assert result.weights[0] == 0.125
    tenth = pruned(array, Accuser(0.125, slice(0, 1), 3.0), max_iterations=1)
    assert tenth.iterations == 1
    assert pruned(array, Accuser(0.09, slice(0, 1), 3.0)).iterations == 0


@pytest.mark.parametrize(
    ("alpha", "deviations", "budget"),
    [(0.1, 10.0, 4.0), (0.1, 10.5, 9.8), (0.3, 3.0, 9.8), (0.2, 3.0, 8.0)],
)
def test_twice_the_stated_fraction_is_removed_and_more_only_of_blatant_rows(
    array: FloatArray, alpha: float, deviations: float, budget: float
) -> None:
    result = pruned(array, Accuser(1.0, slice(0, 12), deviations), alpha=alpha)
    assert (result.stopped, result.iterations) == ("budget", 1)
    assert result.weights[:12].sum() == pytest.approx(12.0 - budget)
    assert result.weights[12:].tolist() == [1.0] * 8
    assert result.removed == pytest.approx(budget / N_ROWS)


def test_the_budget_is_one_for_all_rounds(array: FloatArray) -> None:
    """Half of eight rows fills a budget of four rows in the first round; 4.8 take two."""
    result = pruned(array, Accuser(0.5, slice(0, 6), 3.0))
    assert [step.removed for step in result.spectrum] == pytest.approx([0.0, 3 / 20, 4 / 20])
    assert result.stopped == "budget"
    blatant = pruned(array, Accuser(0.5, slice(0, 16), 11.0))
    assert [step.removed for step in blatant.spectrum] == pytest.approx([0.0, 8 / 20, 9.8 / 20])


def test_a_spectrum_within_the_threshold_ends_the_rounds_at_once(array: FloatArray) -> None:
    score = Accuser(1.0, slice(0, 5), 3.0)
    result = pruned(array, score, noise_scale=100.0)
    assert (result.stopped, result.iterations, score.looks) == ("spectrum", 0, [])
    assert len(result.spectrum) == 1


def test_who_may_remove_nobody_gets_the_weighted_mean(array: FloatArray) -> None:
    weights = np.arange(1.0, 21.0)
    result = pruned(array, Accuser(1.0, slice(0, 5), 3.0), alpha=0.0, row_weights=weights)
    np.testing.assert_allclose(result.estimate, np.average(array, axis=0, weights=weights))
    np.testing.assert_allclose(result.weights, weights / 20.0)
    assert (result.iterations, result.spectrum, result.removed) == (0, (), 0.0)
    assert result.stopped == "budget"


def test_absurdly_long_rows_are_dropped_unseen_and_count_as_removed(array: FloatArray) -> None:
    array[[3, 7]] = 1e9
    score = Accuser(1.0, slice(0, 0), 3.0)
    weights = np.ones(N_ROWS)
    weights[7] = 0.5
    result = pruned(array, score, row_weights=weights)
    assert result.weights[[3, 7]].tolist() == [0.0, 0.0]
    assert score.looks[0].sample.rows.shape == (18, 3)
    assert result.removed == pytest.approx(1.5 / 19.5)
    assert result.spectrum[0].removed == pytest.approx(1.5 / 19.5)
    others = np.delete(array, [3, 7], axis=0)
    np.testing.assert_allclose(result.estimate, others.mean(axis=0), rtol=1e-12)


def test_products_use_one_thread(array: FloatArray) -> None:
    score = Accuser(0.5, slice(0, 1), 3.0)
    pruned(array, score)
    assert score.n_threads == {1}


def test_rows_are_absurd_beyond_a_million_times_the_typical_one() -> None:
    sizes = np.array([0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2e6, np.nextafter(2e6, 3e6)])
    assert _is_sane(as_rows(sizes[:, None])).tolist() == [True] * 7 + [False]
    assert _is_sane(as_rows(np.zeros((3, 2)))).tolist() == [True] * 3


@pytest.mark.parametrize("size", [1e120, 1e-120])
def test_rows_whose_squares_leave_the_range_are_refused(size: float) -> None:
    rows = np.full((4, 2), size)
    assert refusal(spectral_filter, rows, alpha=0.1) == (
        f"Typical entries are about {size:.0e}: rescale the rows towards 1 first."
    )
    for factor in (0.5, 2.0):
        inside = size * factor
        if 1e-120 < inside < 1e120:
            spectral_filter(np.full((4, 2), inside), alpha=0.1)


def test_amounts_are_taken_in_order_until_the_room_is_full() -> None:
    amounts = np.array([1.0, 2.0, 3.0])
    assert _first(amounts, 4.0).tolist() == [1.0, 2.0, 1.0]
    assert _first(amounts, 0.5).tolist() == [0.5, 0.0, 0.0]
    assert _first(amounts, 9.0).tolist() == [1.0, 2.0, 3.0]
    assert _first(amounts, -1.0).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("room", "largest_room", "expected"),
    [
        # Blatant are the fourth (12 deviations) and the first (11), in this order; ten is not.
        (9.0, 9.0, [0.5, 0.0, 1.0, 1.0, 1.0]),
        (1.25, 9.0, [0.5, 0.0, 0.0, 1.0, 0.0]),
        (2.75, 9.0, [0.5, 0.0, 0.25, 1.0, 1.0]),
        (2.0, 1.25, [0.25, 0.0, 0.0, 1.0, 0.75]),
        (0.5, 0.75, [0.0, 0.0, 0.0, 0.75, 0.0]),
    ],
)
def test_blatant_rows_come_first_and_leave_the_others_less_room(
    room: float, largest_room: float, expected: list[float]
) -> None:
    found = _within_budget(
        np.array([0.5, 0.0, 1.0, 1.0, 1.0]),
        np.array([11.0, 50.0, 3.0, 12.0, 10.0]),
        room=room,
        largest_room=largest_room,
    )
    assert found.tolist() == expected


def test_of_equally_far_rows_the_first_go_first() -> None:
    found = _within_budget(np.ones(40), np.full(40, 4.0), room=7.0, largest_room=9.0)
    assert found.tolist() == [1.0] * 7 + [0.0] * 33


def test_a_look_says_how_rows_spread_along_the_top_direction(rng: np.random.Generator) -> None:
    array, weights = 2.0 + rng.standard_normal((200, 4)), rng.random(200)
    array[:20, 0] += 8.0
    sample = WeightedRows.centred(as_rows(array), weights)
    look = _look(sample, None, alpha=0.1, noise_scale=None)
    values, vectors = np.linalg.eigh(np.cov(array, rowvar=False, aweights=weights, bias=True))
    assert look.eigenvalue == pytest.approx(values[-1])
    assert abs(look.direction @ vectors[:, -1]) == pytest.approx(1.0)
    assert abs(look.next_start @ vectors[:, -2]) == pytest.approx(1.0)
    assert look.next_start @ look.direction == pytest.approx(1.0)
    centred = array - np.average(array, axis=0, weights=weights)
    np.testing.assert_allclose(look.projections, centred @ look.direction)
    assert look.centre == weighted_quantile(look.projections, weights, 0.5)
    variances = believable_column_variances(sample, alpha=0.1)
    np.testing.assert_array_equal(look.noise.column_variances, variances)
    assert look.noise.n_rows == pytest.approx(weights.sum() ** 2 / np.square(weights).sum())
    distances = np.abs(look.projections - look.centre)
    spread = (weighted_quantile(distances, weights, 0.5) / 0.6744897501960817) ** 2
    honest = look.noise.variance_and_threshold(np.square(look.direction), spread)
    assert (look.honest_variance, look.threshold) == pytest.approx(honest)
    other = believable_column_variances(sample, alpha=0.3)
    assert not np.array_equal(variances, other)
    assert _look(sample, None, alpha=0.1, noise_scale=3.0).noise.noise_scale == 3.0


def test_the_next_look_begins_where_the_last_one_pointed(rng: np.random.Generator) -> None:
    """In more columns than are solved directly the start shows in the last digits."""
    array = rng.standard_normal((N_ROWS, 40))
    score = Accuser(1.0, slice(0, 1), 3.0)
    pruned(array, score, max_iterations=3, alpha=0.2)
    first, second = score.looks[:2]
    expected = top_direction(second.sample, first.next_start)
    np.testing.assert_array_equal(second.direction, expected.vector)
    assert not np.array_equal(second.direction, top_direction(second.sample, None).vector)


def test_both_tails_are_compared_with_the_normal_law(rng: np.random.Generator) -> None:
    array = rng.standard_normal((400, 3))
    array[:10, 0], array[10:30, 0] = 9.0, -7.0
    look = _look(WeightedRows.centred(as_rows(array), np.ones(400)), None, alpha=0.1, noise_scale=1)
    found = _tail_score(look)
    deviations = (look.projections - look.centre) / math.sqrt(look.honest_variance)
    np.testing.assert_allclose(found.deviations, np.abs(deviations))
    normal = np.vectorize(lambda x: 0.5 * math.erfc(x / math.sqrt(2.0)))
    upper = kept_shares(deviations, np.ones(400), normal(deviations))
    lower = kept_shares(-deviations, np.ones(400), normal(-deviations))
    np.testing.assert_allclose(found.shares, np.minimum(upper, lower), rtol=1e-9)
    assert found.shares[:30].max() < 0.5 < found.shares[30:].mean()
