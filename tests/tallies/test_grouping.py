import numpy as np
import pytest

from unswayed.tallies import tally
from unswayed.tallies.summing import grouped


@pytest.mark.parametrize(
    ("n_entries", "n_users", "n_cells"),
    [
        (0, 0, 1),
        (1, 1, 1),
        (1_000, 70, 1),
        (1_000, 200_000, 300),  # most users have no entry
        (200_000, 3, 70_000),  # long rows
        (300_000, 9_000, 1_000),  # several threads
    ],
)
def test_entries_are_sorted_by_user_and_cell_and_keep_their_order(
    rng: np.random.Generator, n_entries: int, n_users: int, n_cells: int
) -> None:
    """NumPy's lexsort, which is stable, is the yardstick."""
    users = rng.integers(max(n_users, 1), size=n_entries, dtype=np.int32)
    cells = rng.integers(n_cells, size=n_entries, dtype=np.int32)
    found = grouped(users, cells, n_users)
    order = np.lexsort((cells, users))
    np.testing.assert_array_equal(found.entry_cells, cells[order])
    np.testing.assert_array_equal(found.positions, order)
    np.testing.assert_array_equal(
        found.starts, np.append(0, np.bincount(users, minlength=n_users).cumsum())
    )
    pairs = np.unique(users.astype(np.int64) * n_cells + cells)
    np.testing.assert_array_equal(found.cells, pairs % n_cells)
    n_groups = np.bincount(pairs // n_cells, minlength=n_users)
    np.testing.assert_array_equal(found.indptr, np.append(0, n_groups.cumsum()))


def test_a_negative_zero_is_a_zero_in_binary_and_in_other_logs() -> None:
    """Else the sums of two logs would depend on which rewards stand beside a zero."""
    codes = np.array([0, 1])
    for other in (1.0, 0.5):
        rewards = np.array([-0.0, other])
        found = tally(codes, codes, codes, rewards, n_users=2, n_contexts=2, n_actions=2)
        assert not np.signbit(found.sums).any()
