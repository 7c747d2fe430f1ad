from __future__ import annotations

import pytest

from unswayed.errors import InputError
from unswayed.experiments.results import Results
from unswayed.experiments.store import Row


def row(number: int, repetition: int, value: float, **changes: object) -> Row:
    x = float(number % 2)
    algorithm = "paper" if number < 2 else "oracle"
    made = {
        "number": number,
        "repetition": repetition,
        "value": value,
        "x": x,
        "series": "",
        "algorithm": algorithm,
        "attack": "push",
        "stage": "main",
    }
    return made | changes


def test_curves_have_a_row_for_each_repetition_and_a_column_for_each_point() -> None:
    rows = [
        row(number, repetition, 10 * repetition + number)
        for number in range(4)
        for repetition in (1, 0)
    ]
    results = Results(rows)
    assert results.algorithms == ["paper", "oracle"]
    assert results.curve("paper").values.tolist() == [[0, 1], [10, 11]]
    assert results.curve("oracle").at(1.0).tolist() == [3, 13]
    assert results.curve("oracle").means.tolist() == [7, 8]


def test_only_repetitions_that_every_cell_has_are_reported() -> None:
    rows = [row(number, repetition, 0.0) for number in range(4) for repetition in range(3)]
    results = Results([one for one in rows if (one["number"], one["repetition"]) != (2, 1)])
    assert results.repetitions == 2
    assert {one["repetition"] for one in results.main} == {0, 2}


@pytest.mark.parametrize("n_cells", [0, 3])
def test_cells_without_a_finished_repetition_are_told(n_cells: int) -> None:
    with pytest.raises(InputError, match="run the experiment to its end"):
        Results([row(number, 0, 0.0) for number in range(n_cells)])


def test_an_attack_that_a_longer_zoo_outdid_is_reported_no_more() -> None:
    rows = [
        row(0, 0, 0.1, stage="pilot"),
        row(0, 0, 0.2, stage="pilot", attack="new"),
        row(0, 0, 0.3),
        row(0, 0, 0.4, attack="new"),
    ]
    results = Results(rows)
    assert results.curve("paper").values.tolist() == [[0.4]]
    assert results.curve("paper").attacks == ("new",)
    assert results.pilot_means("paper") == {"push": {"": [0.1]}, "new": {"": [0.2]}}
