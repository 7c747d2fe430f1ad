"""What pictures of experiments show, and where."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection

from unswayed.experiments.claims import mean_interval
from unswayed.experiments.drawing import draw_attacks, draw_curve
from unswayed.experiments.results import Curve, Results
from unswayed.reports.style import STYLE, new_figure

RIVALS = ("naive-ucb", "fed-mom-ucb", "rclub", "barbat", "thompson", "liu", "barbar")


def results_of(algorithms: tuple[str, ...]) -> Results:
    """Return results of a pilot and one repetition at two points."""
    return Results(
        [
            {
                "number": 2 * i + x,
                "repetition": 0,
                "value": float(i + x),
                "x": float(x),
                "series": "",
                "algorithm": algorithm,
                "attack": attack,
                "stage": stage,
            }
            for i, algorithm in enumerate(algorithms)
            for x in range(2)
            for attack, stage in (("push", "pilot"), ("push", "main"))
        ]
    )


@pytest.mark.parametrize(("n", "shape"), [(3, (1, 3)), (6, (1, 6)), (7, (2, 4))])
def test_attacks_on_many_algorithms_are_drawn_in_rows(n: int, shape: tuple[int, int]) -> None:
    """Oracles have no panel, and what is left of the last row is empty."""
    figure = draw_attacks(results_of((*RIVALS[:n], "oracle", "oracle-ucb")), heading="")
    assert figure is not None
    spec = figure.axes[0].get_subplotspec()
    assert spec is not None
    assert spec.get_gridspec().get_geometry() == shape
    assert [bool(ax.lines) for ax in figure.axes] == [True] * n + [False] * (
        shape[0] * shape[1] - n
    )
    assert [ax.axison for ax in figure.axes] == [bool(ax.lines) for ax in figure.axes]


def test_a_single_point_has_a_bar_where_a_curve_has_a_band() -> None:
    values = np.array([[1.0], [2.0], [4.0]])
    with mpl.rc_context(STYLE):
        _, (ax,) = new_figure(width=4, height=3)
        draw_curve(
            ax,
            Curve(
                algorithm="epochs",
                series="",
                xs=np.zeros(1),
                values=values,
                repetitions=(0, 1, 2),
            ),
        )
    (bar,) = [artist for artist in ax.collections if isinstance(artist, LineCollection)]
    low, high = mean_interval(values[:, 0])
    assert bar.get_segments()[0][:, 1].tolist() == [max(low, 0.0), high]
