"""An evaluation as one self-contained HTML page."""

from __future__ import annotations

import math

from unswayed.evaluation import Evaluation
from unswayed.evaluation.estimators import Estimate
from unswayed.reports.page import key, page, paragraph, section, table, tiles
from unswayed.reports.svg import Strip, intervals, text_of

DRAWN = 12
"""Contexts in the picture; the table has all."""

KEY = (
    ("logged", "logging"),
    ("naive", "naive: all users alike"),
    ("robust", "robust: honest users"),
)


def evaluation_page(found: Evaluation) -> str:
    """Return the page of an evaluation."""
    is_open = found.honest.uplift.low <= 0.0 <= found.honest.uplift.high
    answer = f'<div class="answer{" attacked" if is_open else ""}">'
    parts = [
        "<h1>Evaluation</h1>",
        paragraph(
            f"{found.source}. Events: {found.n_events:,}, accounts: {found.n_users:,}. Baseline: "
            f"{found.baseline}.",
            "soft",
        ),
        f"{answer}{text_of(found.statement, most=4_000)}</div>",
        _tiles(found),
        _estimates(found),
        _contexts(found),
        _remarks(found),
    ]
    return page(f"Evaluation on {found.source}", parts)


def _tiles(found: Evaluation) -> str:
    half = (found.honest.sampling.high - found.honest.sampling.low) / 2.0
    holds = "none" if found.holds_to is None else f"{found.holds_to:.1%}"
    return tiles(
        [
            (f"{found.honest.uplift.estimate:+.3g}", "uplift per visit for honest users"),
            (f"±{half:.3g}", "chance alone (95%)"),
            (holds, "of the accounts may collude before the sign is open"),
            (f"{found.effective_sample_size:,.0f}", "effective events"),
            (f"{1.0 - found.weight_kept:.1%}", "of the accounts' weight taken out as a coalition"),
        ]
    )


def _estimates(found: Evaluation) -> str:
    kinds = {True: "robust", False: "naive"}
    drawn = [("logging", [("logged", _strip(found.logged))])]
    for name in dict.fromkeys(one.estimator for one in found.estimates):
        some = [one for one in found.estimates if one.estimator == name]
        drawn.append((name.upper(), [(kinds[one.robust], _strip(one.value)) for one in some]))
    return section(
        "Mean reward per visit",
        paragraph(f"95% intervals; those of honest users hold {found.condition}.", "soft small"),
        intervals(drawn, title="values by estimator, beside what was logged"),
        key(*KEY),
        table(
            ["estimator", "users", "value", "uplift", "if nobody lies unseen"],
            [
                [
                    one.estimator.upper(),
                    "honest" if one.robust else "all",
                    _text(one.value),
                    _text(one.uplift),
                    _text(one.sampling),
                ]
                for one in found.estimates
            ],
        ),
    )


def _contexts(found: Evaluation) -> str:
    drawn = [
        (
            str(one.context),
            [
                ("logged", _strip(one.logged)),
                ("naive", _strip(one.naive)),
                ("robust", _strip(one.robust)),
            ],
        )
        for one in found.contexts[:DRAWN]
    ]
    return section(
        "By context",
        intervals(drawn, title="values by context") if drawn else "",
        key(*KEY),
        table(
            ["context", "share of visits", "action", "plays", "logging", "robust", "uplift"],
            [
                [
                    str(one.context),
                    f"{one.share:.2%}",
                    str(one.action),
                    one.plays,
                    one.logged.estimate,
                    one.robust.estimate,
                    _text(one.uplift),
                ]
                for one in found.contexts
            ],
            shown=20,
        ),
    )


def _remarks(found: Evaluation) -> str:
    lines = [f"Warning: {text}" for text in found.warnings] + [
        f"Note: {text}" for text in found.notes
    ]
    return section("Remarks", *map(paragraph, lines or ["None."]))


def _strip(found: Estimate) -> Strip:
    """Return what is drawn of an estimate; ends without a bound reach the edge."""
    low, high = (x if math.isfinite(x) else None for x in (found.low, found.high))
    mean = found.estimate if math.isfinite(found.estimate) else 0.0
    return Strip(mean, low, high, None)


def _text(found: Estimate) -> str:
    return f"{found.estimate:.3g} ({found.low:.3g} to {found.high:.3g})"
