from typing import Any

import numpy as np
import pytest

from unswayed.engine import Blocked, order_statistics


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([3.0]),
        np.array([0.0, -0.0, 0.0]),
        np.array([-1e308, -5e-324, 0.0, 5e-324, 1e308]),
        np.repeat([2.5, -7.0], 40),
    ],
)
def test_every_rank_is_found_among_awkward_numbers(numbers: np.ndarray) -> None:
    blocks = Blocked.here([np.sort(part) for part in np.array_split(numbers, 3)])
    assert order_statistics(blocks, range(len(numbers))) == np.sort(numbers).tolist()


def test_ranks_among_blocks_are_ranks_among_all_numbers(rng: np.random.Generator) -> None:
    numbers = rng.standard_cauchy(5_000) ** 3
    blocks = Blocked.here([np.sort(part) for part in np.split(numbers, [10, 10, 4_000])])
    ranks = sorted(rng.integers(5_000, size=30).tolist())
    assert order_statistics(blocks, ranks) == np.sort(numbers)[ranks].tolist()


def test_a_few_passes_are_enough() -> None:
    """Six bits a pass: ⌈64/6⌉ = 11."""
    passes = []

    class Counting(Blocked[Any]):
        def add_blocks(self, *arguments: object, **options: object) -> object:
            passes.append(arguments)
            return super().add_blocks(*arguments, **options)  # type: ignore[arg-type]

    order_statistics(Counting.here([np.arange(100.0)]), [0, 50, 99])
    assert len(passes) <= 11
