"""More contexts than actions should cost nothing more: min(S, A)."""

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.judging import NAIVE, does_not_degrade, paper_beats
from unswayed.experiments.results import Results

TITLE = "Figure 2(a): more contexts"
X_LABEL = "contexts S"
N_ACTIONS = 10


def draw(results: Results) -> Figure:
    """Draw suboptimality against the number of contexts."""
    panel = Panel(
        title="A = 10, T/L = 30, 20 % colluders, each learner against its worst attack",
        x_label=X_LABEL,
        log_x=True,
        marks=((N_ACTIONS, "S = A"),),
    )
    return draw_panels(results, [panel], heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what the paper says about this figure."""
    return [
        paper_beats(
            results,
            NAIVE,
            name="beats-naive",
            statement="Robust MCB beats both naive approaches at every S.",
            x_symbol="S",
        ),
        does_not_degrade(
            results,
            name="contexts-do-not-degrade",
            statement="Growing S beyond A does not degrade Robust MCB.",
            x_symbol="S",
            start=N_ACTIONS,
        ),
    ]
