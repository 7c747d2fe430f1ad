"""Content and labels of experiment figures."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection

from unswayed.experiments.claims import mean_interval
from unswayed.experiments.drawing import draw_curve
from unswayed.experiments.results import Curve
from unswayed.reports.style import STYLE, new_figure


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
