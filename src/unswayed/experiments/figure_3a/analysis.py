"""Users help until L is about SA/alpha; the effective corruption rate is max(SA/L, alpha)."""

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim, all_positive
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.judging import MARGIN, NAIVE, paper_beats
from unswayed.experiments.results import Results

TITLE = "Figure 3(a): more users"
X_LABEL = "users L"
THRESHOLD = 1000
"""SA/alpha at S = 20, A = 10, alpha = 0.2."""


def draw(results: Results) -> Figure:
    """Draw suboptimality against the number of users."""
    panel = Panel(
        title="S = 20, A = 10, T/L = 50, 20 % colluders, each learner against its worst attack",
        x_label=X_LABEL,
        log_x=True,
        marks=((THRESHOLD, r"$L = SA/\alpha$"),),
    )
    return draw_panels(results, [panel], heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what the paper says about this figure."""
    paper = results.curve("paper")
    first, last = float(paper.xs[0]), float(paper.xs[-1])
    at_threshold = paper.at(THRESHOLD)
    return [
        all_positive(
            "users-help-first",
            "More users improve Robust MCB up to L = SA/alpha.",
            {f"loss at L={first:g} minus loss at L={THRESHOLD}": paper.at(first) - at_threshold},
        ),
        all_positive(
            "users-stop-helping",
            "More users stop helping beyond L = SA/alpha (by less than a tenth of the gap).",
            {
                f"{MARGIN:g} minus what grows better from L={THRESHOLD} to L={last:g}": MARGIN
                - (at_threshold - paper.at(last))
            },
        ),
        paper_beats(
            results,
            NAIVE,
            name="beats-naive",
            statement="Robust MCB beats both naive approaches at every L from SA/alpha on.",
            x_symbol="L",
            above=THRESHOLD - 1,
        ),
    ]
