"""When a user's own taste is worth learning."""

from matplotlib.figure import Figure

from unswayed.experiments.claims import Claim, all_positive
from unswayed.experiments.drawing import Panel, draw_panels
from unswayed.experiments.regret_personal.sweep import ALONE, COMMON, OURS
from unswayed.experiments.results import Results
from unswayed.simulation.settings import PAPER_GAP

TITLE = "Tastes: regret of good users who differ by up to eps_0"
X_LABEL = "size of tastes eps_0"
Y_LABEL = "regret of a good user, mean"
MOST_PAID = 1.25
"""Ours: what learning tastes may cost where there are none, as a factor."""


def draw(results: Results) -> Figure:
    """Draw regret against the size of tastes."""
    panel = Panel(
        title="S = A = 5, 500 interactions per user, 10 % colluders who push",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        marks=((PAPER_GAP, "the gap"),),
    )
    return draw_panels(results, [panel], heading=TITLE)


def judge(results: Results) -> list[Claim]:
    """Judge when tastes are worth learning."""
    ours, common, alone = (results.curve(name) for name in (OURS, COMMON, ALONE))
    none, largest = float(ours.xs[0]), float(ours.xs[-1])
    return [
        all_positive(
            "without-tastes-little-is-paid",
            "Where users do not differ, learning tastes costs at most a quarter more.",
            {
                f"1.25 epochs minus ours at eps_0={none:g}": MOST_PAID * common.at(none)
                - ours.at(none)
            },
        ),
        all_positive(
            "large-tastes-are-learned",
            "At twice the gap ours loses less than half of the common policy, and of users alone.",
            {
                f"half of {name} minus ours at eps_0={largest:g}": curve.at(largest) / 2.0
                - ours.at(largest)
                for name, curve in ((COMMON, common), (ALONE, alone))
            },
        ),
        all_positive(
            "better-than-users-alone",
            "Whatever the size of tastes, ours loses less than users who learn alone.",
            {f"alone minus ours at eps_0={x:g}": alone.at(x) - ours.at(x) for x in ours.xs},
        ),
    ]
