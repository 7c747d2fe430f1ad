"""Reports of evaluations, on a terminal and as a self-contained HTML page."""

from __future__ import annotations

from unswayed.evaluation import Evaluation
from unswayed.evaluation.estimators import Estimate
from unswayed.reports.page import beside, key, page, paragraph, section
from unswayed.reports.page import table as html_table
from unswayed.reports.svg import intervals
from unswayed.reports.tables import Table, print_line, print_some, rate
from unswayed.visible import number

DRAWN = 12
"""Maximum number of contexts in the picture."""

KEY = (
    ("logged", "logging"),
    ("naive", "naive: all users alike"),
    ("robust", "robust: honest users"),
)


def evaluation_tables(found: Evaluation) -> dict[str, Table]:
    """Return the tables of an evaluation by name."""
    return {
        "estimates": Table(
            ["per visit", "estimate", "from", "to"],
            [
                [name, number(one.estimate, sign=sign), number(one.low), number(one.high)]
                for name, one, sign in (
                    ("value, all users", found.naive.value, ""),
                    ("value, honest users", found.honest.value, ""),
                    ("uplift, all users", found.naive.uplift, "+"),
                    ("uplift, honest users", found.honest.uplift, "+"),
                    ("if nobody lies unseen", found.honest.sampling, "+"),
                )
            ],
        ),
        "contexts": Table(
            ["context", "share", "action", "plays", "logging", "value", "uplift"],
            [
                [
                    str(one.context),
                    rate(one.share),
                    str(one.action),
                    f"{one.plays:,}",
                    number(one.logged.estimate),
                    number(one.robust.estimate),
                    f"{number(one.uplift.estimate, sign='+')} ({number(one.uplift.low)} to "
                    f"{number(one.uplift.high)})",
                ]
                for one in found.contexts
            ],
        ),
    }


def print_evaluation(found: Evaluation) -> None:
    """Print the value of a policy."""
    tables = evaluation_tables(found)
    print_line(found.statement)
    print_some("Estimates", tables["estimates"])
    print_line(
        "value: mean reward per visit. uplift: over the baseline. Doubly robust, with 95% "
        f"intervals; those of honest users hold {found.condition}."
    )
    columns = ("context", "share", "action", "plays", "value", "uplift")
    print_some("By context", tables["contexts"].only(*columns))
    print_line(
        "For honest users. share: of the visits. plays: of the policy's action in the log. value: "
        "mean reward of the policy. uplift: what it gains over the baseline, with a 95% interval. "
        "--json also has the values for all users."
    )
    print_line(
        f"Effective sample: {found.effective_sample_size:,.0f} of {found.n_events:,} events, which "
        f"leave the uplift uncertain by ±{number(_half(found.honest.sampling))}. "
        f"{1.0 - found.weight_kept:.1%} of the accounts' weight was removed as a likely coalition."
    )
    for remark in _remarks(found):
        print_line(remark)


def evaluation_page(found: Evaluation) -> str:
    """Return the page of an evaluation."""
    tables = evaluation_tables(found)
    uplift, chance = found.honest.uplift, found.honest.sampling
    holds = "none" if found.holds_to is None else f"{found.holds_to:.1%}"
    everywhere = (found.logged, found.naive.value, found.honest.value)
    drawn = [("all visits", everywhere)] + [
        (str(one.context), (one.logged, one.naive, one.robust)) for one in found.contexts[:DRAWN]
    ]
    kinds = [kind for kind, _ in KEY]
    strips = [(label, list(zip(kinds, some, strict=True))) for label, some in drawn]
    return page(
        "Evaluation",
        found.source,
        f"Events: {found.n_events:,}, accounts: {found.n_users:,}. Baseline: {found.baseline}.",
        found.statement,
        "suspected" if uplift.low <= 0.0 <= uplift.high else "",
        [
            (number(uplift.estimate, sign="+"), "uplift per visit for honest users"),
            (f"±{number(_half(chance))}", "from chance alone (95%)"),
            (holds, "of the accounts may collude without changing the uplift's sign"),
            (f"{found.effective_sample_size:,.0f}", "effective events"),
            (f"{1.0 - found.weight_kept:.1%}", "of the accounts' weight removed as a coalition"),
        ],
        [
            section(
                "Mean reward per visit",
                paragraph(
                    "Doubly robust estimates with 95% intervals; those of honest users hold "
                    f"{found.condition}.",
                    "soft small",
                ),
                beside(
                    intervals(strips, title="mean reward per visit, by context") + key(*KEY),
                    html_table(*tables["estimates"], name="estimates"),
                ),
            ),
            section("By context", html_table(*tables["contexts"], shown=20, name="contexts")),
            section("Remarks", *map(paragraph, _remarks(found) or ["None."])),
        ],
    )


def _remarks(found: Evaluation) -> list[str]:
    return [*(f"Warning: {x}" for x in found.warnings), *(f"Note: {x}" for x in found.notes)]


def _half(found: Estimate) -> float:
    return (found.high - found.low) / 2.0
