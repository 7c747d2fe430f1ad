"""Evaluations of policies as tables."""

from __future__ import annotations

from unswayed.evaluation import Evaluation
from unswayed.evaluation.estimators import Estimate
from unswayed.evaluation.results import LOGGING
from unswayed.reports.tables import print_line, print_table, rate

SHOWN = 10


def print_evaluation(found: Evaluation) -> None:
    """Print the value of a policy."""
    honest = next(one for one in found.estimates if one.robust and one.estimator == "dr")
    against = "what was logged" if found.baseline == LOGGING else found.baseline
    print_line(
        f"For honest users the policy gains {_text(honest.uplift)} per visit over {against} "
        "(doubly robust, 95% interval)."
    )
    print_table(
        "Estimates",
        ["estimator", "users", "value", "uplift"],
        [
            [
                one.estimator.upper(),
                "honest" if one.robust else "all",
                _text(one.value, sign=""),
                _text(one.uplift),
            ]
            for one in found.estimates
        ],
        note="value: mean reward per visit. uplift: over the baseline. IPS: inverse propensity "
        "scores; SNIPS: the same, normalised; DR: doubly robust, used below.",
    )
    print_table(
        "By context",
        ["context", "share", "action", "plays", "value", "uplift"],
        [
            [
                str(one.context),
                rate(one.share),
                str(one.action),
                f"{one.plays:,}",
                f"{one.robust.estimate:.3g}",
                _text(one.robust_uplift),
            ]
            for one in found.contexts[:SHOWN]
        ],
        note="For honest users. share: of the visits. plays: of the policy's action in the log. "
        "value: mean reward of the policy. uplift: what it gains over the baseline, with a 95% "
        "interval. --json also has the values for all users.",
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


def _text(found: Estimate, sign: str = "+") -> str:
    return f"{found.estimate:{sign}.3g} ({found.low:.3g} to {found.high:.3g})"
