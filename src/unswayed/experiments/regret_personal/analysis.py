"""When a user's own taste is worth learning."""

from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.regret_personal.sweep import ALONE, COMMON, OURS
from unswayed.experiments.results import Results
from unswayed.learners.interface import FloatArray
from unswayed.simulation.settings import PAPER_GAP

X_LABEL = "size of tastes eps_0"
Y_LABEL = "regret of a good user, mean"
MOST_PAID = 1.25
"""Ours: what learning tastes may cost where there are none, as a factor."""


def _paid_without_tastes(results: Results) -> dict[str, FloatArray]:
    ours, common = results.curve(OURS), results.curve(COMMON)
    none = float(ours.xs[0])
    return {
        f"1.25 epochs minus ours at eps_0={none:g}": MOST_PAID * common.at(none) - ours.at(none)
    }


def _gained_at_the_largest(results: Results) -> dict[str, FloatArray]:
    ours = results.curve(OURS)
    largest = float(ours.xs[-1])
    return {
        f"half of {name} minus ours at eps_0={largest:g}": results.curve(name).at(largest) / 2.0
        - ours.at(largest)
        for name in (COMMON, ALONE)
    }


def _gained_over_users_alone(results: Results) -> dict[str, FloatArray]:
    ours, alone = results.curve(OURS), results.curve(ALONE)
    return {f"alone minus ours at eps_0={x:g}": alone.at(x) - ours.at(x) for x in ours.xs}


ANALYSES = {
    "regret-personal": Analysis(
        title="Tastes: regret of good users who differ by up to eps_0",
        x_label=X_LABEL,
        y_label=Y_LABEL,
        panels=(
            Panel(
                title="S = A = 5, 500 interactions per user, 10 % colluders who push",
                x_label=X_LABEL,
                y_label=Y_LABEL,
                marks=((PAPER_GAP, "the gap"),),
            ),
        ),
        judges=(
            compared(
                "without-tastes-little-is-paid",
                "Where users do not differ, learning tastes costs at most a quarter more.",
                _paid_without_tastes,
            ),
            compared(
                "large-tastes-are-learned",
                "At twice the gap ours loses less than half of the common policy, and of users "
                "alone.",
                _gained_at_the_largest,
            ),
            compared(
                "better-than-users-alone",
                "Whatever the size of tastes, ours loses less than users who learn alone.",
                _gained_over_users_alone,
            ),
        ),
    )
}
