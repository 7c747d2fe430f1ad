"""More actions than contexts should cost nothing more: min(S, A)."""

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.judging import NAIVE, does_not_degrade, paper_beats
from unswayed.experiments.results import Results

TITLE = "Figure 2(b): more actions"
X_LABEL = "actions A"
N_CONTEXTS = 10


def draw(results: Results) -> Figure:
    """Draw suboptimality against the number of actions."""
    panel = Panel(
        title="S = 10, T/L = 30, 20 % colluders, each learner against its worst attack",
        x_label=X_LABEL,
        log_x=True,
        marks=((N_CONTEXTS, "A = S"),),
    )
    return draw_panels(results, [panel], heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what the paper says about this figure."""
    return [
        paper_beats(
            results,
            NAIVE,
            name="beats-naive",
            statement="Robust MCB beats both naive approaches at every A.",
            x_symbol="A",
        ),
        does_not_degrade(
            results,
            name="actions-do-not-degrade",
            statement="Growing A beyond S at fixed S does not degrade Robust MCB.",
            x_symbol="A",
            start=N_CONTEXTS,
        ),
    ]
