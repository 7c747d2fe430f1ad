"""Overstating the share of colluders against understating it."""

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim, all_positive
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.figure_3b.sweep import BELIEF_VARIES, TOLD, TRUTH_VARIES
from unswayed.experiments.judging import NAIVE, paper_beats
from unswayed.experiments.results import Results

TITLE = "Figure 3(b): a misstated share of colluders"
X_LABEL = "share of colluders"


def draw(results: Results) -> Figure:
    """Draw suboptimality against the true share, and against the share that learners are told."""
    panels = [
        Panel(
            title="learners are told 0.1 (the paper's panel)",
            x_label=r"true share of colluders $\alpha$",
            series=TRUTH_VARIES,
            marks=((TOLD, "told the truth"),),
        ),
        Panel(
            title="the true share is 0.1",
            x_label="share that learners are told",
            series=BELIEF_VARIES,
            marks=((TOLD, "told the truth"),),
        ),
    ]
    return draw_panels(results, panels, heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what the paper says about this figure."""
    truth = results.curve("paper", TRUTH_VARIES)
    belief = results.curve("paper", BELIEF_VARIES)
    return [
        paper_beats(
            results,
            NAIVE,
            name="overstated-still-beats-naive",
            statement="Told 0.1, Robust MCB beats both naive approaches while 0 < alpha <= 0.1.",
            series=TRUTH_VARIES,
            x_symbol="alpha",
            above=0.0,
            up_to=TOLD,
        ),
        all_positive(
            "understating-loses-robustness",
            "Told 0.1, Robust MCB loses more at a true 0.2 than at a true 0.1.",
            {"loss at alpha=0.2 minus loss at alpha=0.1": truth.at(0.2) - truth.at(TOLD)},
        ),
        all_positive(
            "overstating-is-safer",
            "At a true 0.1, stating half of it costs more than stating twice as much.",
            {"loss when told 0.05 minus loss when told 0.2": belief.at(0.05) - belief.at(0.2)},
        ),
    ]
