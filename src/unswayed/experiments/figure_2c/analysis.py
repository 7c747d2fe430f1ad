"""More interactions of each user help, and how fast."""

import numpy as np
from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim, all_positive, contains, log_slope, resampled
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.judging import NAIVE, paper_beats
from unswayed.experiments.results import Curve, Results

TITLE = "Figure 2(c): more interactions per user"
X_LABEL = "interactions per user T/L"
UNIFORM_LOSS = 0.3
"""About what uniform play loses at the paper's gap."""

UNSATURATED = (0.1, 0.9)
"""Ours: "before saturation" means between these shares of the loss of uniform play."""

WIDEST = 0.5
"""Ours: an interval for the slope that is wider than this resolves nothing."""


def draw(results: Results) -> Figure:
    """Draw suboptimality against interactions per user."""
    panel = Panel(
        title="S = A = 10, 20 % colluders, each learner against its worst attack",
        x_label=X_LABEL,
        log_x=True,
    )
    return draw_panels(results, [panel], heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what the paper says about this figure."""
    paper = results.curve("paper")
    return [
        paper_beats(
            results,
            NAIVE,
            name="beats-naive",
            statement="Robust MCB beats both naive approaches at every T/L.",
            x_symbol="T/L",
        ),
        all_positive(
            "interactions-help",
            "More interactions of each user make Robust MCB better.",
            {
                "loss at the smallest T/L minus loss at the largest": paper.values[:, 0]
                - paper.values[:, -1]
            },
        ),
        _slope(paper),
    ]


def _slope(paper: Curve) -> Claim:
    low, high = (share * UNIFORM_LOSS for share in UNSATURATED)
    chosen = np.flatnonzero((paper.means >= low) & (paper.means <= high))
    xs = paper.xs[chosen]
    told = ", ".join(f"{x:g}" for x in xs) or "none"
    claim = resampled(
        "slope-one-half",
        "Before saturation suboptimality falls like (T/L)^-1/2: the log-log slope is -1/2.",
        f"log-log slope over T/L in {told}",
        paper.values[:, chosen],
        lambda values: log_slope(xs, values.mean(axis=0)),
    )
    return contains(claim, -0.5, widest=WIDEST)
