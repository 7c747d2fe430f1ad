"""Evaluations of policies as tables."""

from __future__ import annotations

from unswayed.evaluation import Evaluation
from unswayed.evaluation.estimators import Estimate
from unswayed.evaluation.results import LOGGING
from unswayed.reports.tables import print_line, print_table

SHOWN = 10


def print_evaluation(found: Evaluation) -> None:
    """Print what a policy is worth, for a person at a terminal."""
    honest = next(one for one in found.estimates if one.robust and one.estimator == "dr")
    against = "what was logged" if found.baseline == LOGGING else found.baseline
    print_line(
        f"For honest users the policy brings {_text(honest.uplift)} a visit more than {against} "
        "(DR, robust, 95 %)."
    )
    print_table(
        "Estimates",
        ["estimator", "users", "value", "uplift"],
        [
            [
                one.estimator.upper(),
                "honest" if one.robust else "all",
                _text(one.value),
                _text(one.uplift),
            ]
            for one in found.estimates
        ],
    )
    print_table(
        "By context (DR)",
        ["context", "share", "action", "plays", "all users", "honest users", "uplift"],
        [
            [
                str(one.context),
                f"{one.share:.2%}",
                str(one.action),
                f"{one.plays:,}",
                one.naive.estimate,
                _text(one.robust),
                _text(one.robust_uplift),
            ]
            for one in found.contexts[:SHOWN]
        ],
    )
    print_line(
        f"Effective sample: {found.effective_sample_size:,.0f} of {found.n_events:,} events. Kept "
        f"{found.weight_kept:.1%} of the users' weight (by {found.found_by}, alpha = "
        f"{found.alpha:.3g})."
    )
    for warning in found.warnings:
        print_line(f"Warning: {warning}")
    for note in found.notes:
        print_line(f"Note: {note}")


def _text(found: Estimate) -> str:
    return f"{found.estimate:+.4g} ({found.low:.4g} to {found.high:.4g})"
