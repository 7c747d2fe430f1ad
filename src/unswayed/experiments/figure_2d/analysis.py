"""Corruption that is linear in T breaks corruption-robust learners; identifiers do not let it."""

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim, all_positive
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.judging import MARGIN, paper_beats
from unswayed.experiments.results import Results

TITLE = "Figure 2(d): more colluders, against corruption-robust learners"
X_LABEL = r"true share of colluders $\alpha$"
CORRUPTION_ROBUST = ("liu", "barbar", "active-arm-elimination")
SMALL_SHARE = 0.1
LARGEST_SHARE = 0.3
"""Theorem 5.1 is for alpha < 1/3."""

BROKEN = 0.15
"""Ours: half of the paper's gap; who loses more is broken."""


def draw(results: Results) -> Figure:
    """Draw suboptimality against the share of colluders."""
    panel = Panel(
        title="S = 2, A = 5, L = 500, T/L = 500, each learner against its worst attack",
        x_label=X_LABEL,
    )
    return draw_panels(results, [panel], heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge what the paper says about this figure."""
    paper = results.curve("paper")
    return [
        paper_beats(
            results,
            CORRUPTION_ROBUST,
            name="beats-corruption-robust",
            statement="Robust MCB beats the corruption-robust learners at every alpha from 0.1 on.",
            x_symbol="alpha",
            above=SMALL_SHARE - 1e-9,
        ),
        all_positive(
            "small-share-breaks-corruption-robust",
            "A tenth of colluders breaks every corruption-robust learner (half of the gap lost).",
            {
                f"loss of {name} at alpha={SMALL_SHARE:g} minus half of the gap": results.curve(
                    name
                ).at(SMALL_SHARE)
                - BROKEN
                for name in CORRUPTION_ROBUST
            },
        ),
        all_positive(
            "defends",
            "Robust MCB loses less than a tenth of the gap at every alpha up to 0.3.",
            {
                f"tenth of the gap minus loss at alpha={x:g}": MARGIN - paper.at(x)
                for x in paper.xs
                if x <= LARGEST_SHARE
            },
        ),
    ]
