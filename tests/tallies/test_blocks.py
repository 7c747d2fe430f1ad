import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.events.logs import random_log
from tests.learners.tiny_logs import shape
from unswayed.engine import Blocked, BlockedRows
from unswayed.estimators import spectral_filter
from unswayed.estimators.rows import Rows, SparseRows
from unswayed.events import Labels, read_events
from unswayed.events.hashing import user_hashes
from unswayed.tallies import Tallies, tally, tally_events
from unswayed.tallies.tallies import n_blocks_for, user_bounds

BOUNDS = (0, 40, 40, 100, 300)


def tallies(rng: np.random.Generator, n: int = 6_000) -> Tallies:
    return tally(
        rng.integers(300, size=n),
        rng.integers(12, size=n),
        rng.integers(4, size=n),
        rng.normal(size=n),
        **shape(300, 12, 4),
    )


def rows_of(part: Tallies) -> SparseRows:
    return SparseRows(part.sums, part.cells, part.indptr, part.n_cells)


def both(rng: np.random.Generator, bounds: tuple[int, ...]) -> tuple[SparseRows, BlockedRows]:
    whole = tallies(rng)
    return rows_of(whole), replace(whole, bounds=bounds).rows(rows_of)


@pytest.mark.parametrize("bounds", [(0, 300), BOUNDS])
def test_rows_in_blocks_equal_the_rows_of_one_matrix(
    bounds: tuple[int, ...], rng: np.random.Generator
) -> None:
    """One block gives the same bits; several differ only by the order of additions."""
    one, blocks = both(rng, bounds)
    weights, centre, directions = rng.random(300), rng.normal(size=48), rng.normal(size=(48, 3))
    pairs = [
        (rows.total(SparseRows.weighted_sum, weights) for rows in (one, blocks)),
        (rows.each(SparseRows.largest_entries) for rows in (one, blocks)),
        (rows.each(SparseRows.squared_distances, centre) for rows in (one, blocks)),
        (rows.total(SparseRows.column_squares, weights, centre) for rows in (one, blocks)),
        (rows.each(SparseRows.project, centre, directions) for rows in (one, blocks)),
        (rows.total(SparseRows.gram, weights, centre, directions) for rows in (one, blocks)),
        (rows.total(SparseRows.gram, weights, centre, directions[:, :1]) for rows in (one, blocks)),
    ]
    for expected, found in pairs:
        if len(bounds) == 2:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert one.shape == blocks.shape
    assert isinstance(blocks, Rows)


def test_keep_returns_the_marked_rows_even_after_equal_weights(
    rng: np.random.Generator,
) -> None:
    one, blocks = both(rng, BOUNDS)
    total = SparseRows.weighted_sum
    blocks.total(total, np.ones(300))  # weights of one must not be confused with a mask
    assert blocks.keep(np.ones(300, np.bool_)).shape == (300, 48)
    is_kept = rng.random(300) < 0.5
    weights = rng.random(int(is_kept.sum()))
    np.testing.assert_allclose(
        blocks.keep(is_kept).total(total, weights),
        one.keep(is_kept).weighted_sum(weights),
        rtol=1e-10,
        atol=1e-12,
    )


def test_a_filter_gives_the_same_result_on_blocks_as_on_one_matrix(
    rng: np.random.Generator,
) -> None:
    one, blocks = both(rng, BOUNDS)
    whole = spectral_filter(one, alpha=0.1)
    in_blocks = spectral_filter(blocks, alpha=0.1)
    np.testing.assert_allclose(in_blocks.estimate, whole.estimate, rtol=1e-6, atol=1e-9)


def test_results_are_in_block_order_and_row_values_go_to_their_block() -> None:
    blocks = Blocked.here([10, 20, 30], sizes=(1, 2, 0))
    assert blocks.map_blocks(lambda block, extra: block + extra, 1) == [11, 21, 31]
    rows = np.array([7, 8, 9])
    found = blocks.map_blocks(lambda block, own, extra: (block, own.tolist(), extra), 5, rows=rows)
    assert found == [(10, [7], 5), (20, [8, 9], 5), (30, [], 5)]
    assert blocks.transformed(lambda block: -block).map_blocks(abs) == [10, 20, 30]
    assert blocks.add_blocks(lambda block: np.array([block, 1])).tolist() == [60, 3]


def test_sums_over_many_blocks_are_sums_of_sums(rng: np.random.Generator) -> None:
    values = rng.normal(size=(300, 5))
    total = Blocked.here(list(values)).add_blocks(lambda block: block)
    np.testing.assert_allclose(total, values.sum(axis=0), rtol=1e-12)


def test_sums_over_cells_do_not_depend_on_blocks(rng: np.random.Generator) -> None:
    whole = tallies(rng)
    blocked = replace(whole, bounds=BOUNDS)
    np.testing.assert_array_equal(blocked.interactions, whole.interactions)
    np.testing.assert_array_equal(
        blocked.cell_sums("counts").ravel(), np.bincount(whole.cells, whole.counts, minlength=48)
    )
    assert blocked.cell_users().sum() == len(whole.cells)


def test_transformed_blocks_have_the_same_users(rng: np.random.Generator) -> None:
    whole = replace(tallies(rng), bounds=BOUNDS)
    doubled = whole.transformed(lambda block, factor: block.scaled(factor), 2.0)
    assert (doubled.n_users, doubled.n_contexts, doubled.n_actions) == (300, 12, 4)
    assert doubled.blocks.sizes == whole.blocks.sizes == (40, 0, 60, 200)
    np.testing.assert_array_equal(doubled.interactions, 2.0 * whole.interactions)
    np.testing.assert_array_equal(doubled.plays_of_users, whole.interactions)
    np.testing.assert_array_equal(doubled.cell_users(), whole.cell_users())


def test_selected_rows_of_tallies_are_one_block(rng: np.random.Generator) -> None:
    whole = replace(tallies(rng), bounds=BOUNDS)
    for part in (whole.of_range(0, 100), whole.of_users(np.arange(100))):
        assert part.bounds == ()
        assert part.blocks.sizes == (100,)


@pytest.mark.parametrize("kind", ["string", "integer", "number"])
def test_blocks_are_ranges_of_the_hash_of_users(kind: str, rng: np.random.Generator) -> None:
    numbers = rng.permutation(500)
    values: dict[str, Any] = {
        "string": [f"u{i}" for i in numbers],
        "integer": numbers,
        "number": numbers / 7,
    }
    table = random_log(rng, 500).set_column(0, "user", [list(values[kind])])
    users = tally_events(read_events(table).events).user_labels
    hashes = user_hashes(users)
    assert (hashes[1:] >= hashes[:-1]).all()
    bounds = user_bounds(users, 8)
    for block, (first, last) in enumerate(itertools.pairwise(bounds)):
        assert (hashes[first:last] >> np.uint64(61) == block).all()


def test_the_number_of_blocks_depends_on_the_number_of_events_alone() -> None:
    assert [n_blocks_for(n) for n in (0, 1, 1 << 21, (1 << 21) + 1, 20_000_000)] == [1, 1, 1, 2, 16]
    assert n_blocks_for(10**12) == 256
    assert user_bounds(Labels.of([]), 4) == [0, 0, 0, 0, 0]
