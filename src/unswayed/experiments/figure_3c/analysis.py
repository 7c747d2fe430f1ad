"""Small differences between good users should do no harm."""

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.judging import NAIVE, does_not_degrade, paper_beats
from unswayed.experiments.results import Results

TITLE = "Figure 3(c): similar, not equal preferences"
X_LABEL = r"size of personal tastes $\epsilon_0$"
SMALL = 0.1
"""Ours: a third of the paper's gap; larger tastes are not small differences."""


def draw(results: Results) -> Figure:
    """Draw suboptimality for the common preferences against the size of tastes."""
    panel = Panel(
        title="S = A = 10, T/L = 30, 20 % colluders, each learner against its worst attack",
        x_label=X_LABEL,
    )
    return draw_panels(results, [panel], heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what the paper says about this figure."""
    return [
        does_not_degrade(
            results,
            name="small-differences-are-tolerated",
            statement="Tastes of up to 0.1, a third of the gap, do not degrade Robust MCB.",
            x_symbol="eps_0",
            start=0.0,
            up_to=SMALL,
        ),
        paper_beats(
            results,
            NAIVE,
            name="beats-naive",
            statement="Robust MCB beats both naive approaches at every eps_0.",
            x_symbol="eps_0",
        ),
    ]
