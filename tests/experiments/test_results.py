"""Results of experiments: their table, their pictures, and damaged files."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection

from unswayed.errors import InputError
from unswayed.experiments.claims import mean_interval
from unswayed.experiments.drawing import draw_curve
from unswayed.experiments.results import Curve, Results, Row, Store
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.reports.style import STYLE, new_figure


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


def test_only_repetitions_common_to_all_cells_are_reported() -> None:
    rows = [row(number, repetition, 0.0) for number in range(4) for repetition in range(3)]
    results = Results([one for one in rows if (one["number"], one["repetition"]) != (2, 1)])
    assert results.repetitions == 2
    assert {one["repetition"] for one in results.main} == {0, 2}


def test_our_own_learner_may_have_fewer_repetitions_for_its_comparisons() -> None:
    rows = [
        row(number, repetition, 10.0 * repetition + number)
        for number in range(4)
        for repetition in range(5)
    ]
    own = [
        row(4 + x, repetition, repetition, x=float(x), algorithm=DEFAULT_METHOD)
        for x in range(2)
        for repetition in (1, 3, 7)
    ]
    results = Results([*rows, *own])
    assert results.repetitions == 5
    assert len(results.curve("paper").values) == 5
    assert results.curve(DEFAULT_METHOD).repetitions == (1, 3)
    paper, ours = results.curve("paper"), results.curve(DEFAULT_METHOD)
    assert paper.minus(ours, 1.0).tolist() == [10, 28]
    assert ours.minus(paper, 1.0).tolist() == [-10, -28]


@pytest.mark.parametrize("n_cells", [0, 3])
def test_cells_without_a_finished_repetition_are_reported(n_cells: int) -> None:
    with pytest.raises(InputError, match="run the experiment to its end"):
        Results([row(number, 0, 0.0) for number in range(n_cells)])


@pytest.mark.parametrize("damage", [b"", b"[", b"7", b"\xff", b"[" * 100_000])
def test_damaged_settings_are_reported(damage: bytes, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open({"seed": 0})
    (tmp_path / "settings.json").write_bytes(damage)
    for use in (store.settings, lambda: store.open({"seed": 0})):
        with pytest.raises(InputError, match="damaged"):
            use()


def test_a_damaged_part_is_reported(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open({"seed": 0})
    (tmp_path / "parts/000-main-push-0000.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="damaged"):
        store.rows()


def test_a_single_point_is_drawn_with_an_error_bar_instead_of_a_band() -> None:
    values = np.array([[1.0], [2.0], [4.0]])
    with mpl.rc_context(STYLE):
        _, (ax,) = new_figure(width=4, height=3)
        draw_curve(
            ax,
            Curve(algorithm="epochs", xs=np.zeros(1), values=values, repetitions=(0, 1, 2)),
        )
    (bar,) = [artist for artist in ax.collections if isinstance(artist, LineCollection)]
    low, high = mean_interval(values[:, 0])
    assert bar.get_segments()[0][:, 1].tolist() == [max(low, 0.0), high]
