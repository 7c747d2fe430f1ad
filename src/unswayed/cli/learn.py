"""`unswayed learn`: learn a policy from an existing log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from unswayed.cli.log_options import LOG_HELP, LogOptions
from unswayed.cli.options import Figures, Json, check_outputs
from unswayed.errors import InputError
from unswayed.learners.explaining import decision_rows
from unswayed.learners.from_log import STEPS, LearnedLog, learn_log, learn_on_cluster
from unswayed.learners.options import LearnOptions
from unswayed.reports.policies import check_table, write_table
from unswayed.reports.tables import (
    Table,
    print_json,
    print_line,
    print_some,
    print_table,
    rate,
    steps_bar,
)
from unswayed.storage import check_writable, check_writable_folder
from unswayed.visible import number

ENGINES = ("local", "dask")

#: Output path if none is given.
DEFAULT_OUT = "policy.json"


def learn(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="LOG",
            help=f"{LOG_HELP} Without a log, learn from --tallies.",
            show_default=False,
        ),
    ] = None,
    out: Path | None = None,
    *,
    source: LogOptions,
    options: LearnOptions,
    users: Path | None = None,
    cells: Path | None = None,
    figures: Figures = None,
    engine: str = "local",
    scheduler: str | None = None,
    json: Json = False,
) -> None:
    """Learn a policy from a log, robust to a share alpha of colluding users.

    out: Where to write the policy [policy.json, unless it exists].
    users: Write the weight of each user to this table.
    cells: Write estimates and intervals of every (context, action) to this table.
    engine: Where to run: local, or dask for a cluster.
    scheduler: Dask scheduler, tcp://HOST:PORT, with --engine dask [workers on this machine].
    """
    if engine not in ENGINES:
        raise InputError(f"--engine is {' or '.join(ENGINES)}, not {engine!r}.")
    if engine == "dask" and log is None:
        raise InputError("--engine dask needs a log; leave it out to learn from --tallies alone.")
    if scheduler is not None and engine != "dask":
        raise InputError(f"--scheduler requires --engine dask; the engine is {engine}.")
    if out is None and Path(DEFAULT_OUT).exists():
        raise InputError(
            f"{DEFAULT_OUT} exists; replace it with --out {DEFAULT_OUT}, or name another file."
        )
    out = out or Path(DEFAULT_OUT)
    options = options.changed(**source.reading(), features=options.features)
    if figures is not None:
        from unswayed.reports.figures import write_policy_figures

        check_writable_folder(figures)
    check_outputs(out, users, cells, inputs=(log, getattr(options.known, "path", None)))
    check_writable(out)
    for table in (users, cells):
        if table is not None:
            check_table(table)
    if options.tallies is not None and log is not None:
        check_writable_folder(options.tallies)
    with steps_bar(STEPS) as on_step:
        if engine == "dask" and log is not None:
            learned = learn_on_cluster(
                log, options, scheduler=scheduler, with_users=users is not None, on_step=on_step
            )
        else:
            learned = learn_log(log, options, on_step=on_step)
    learned.policy.save(out)
    if users is not None:
        write_table(
            pa.table(
                {
                    "user": pa.array(learned.user_labels.values),
                    "weight": learned.user_weights,
                    "interactions": learned.interactions,
                }
            ),
            users,
        )
    if cells is not None:
        write_table(pa.table(learned.policy.cells()), cells)
    if figures is not None:
        write_policy_figures(learned.policy, figures)
    if json:
        print_json(
            {
                **learned.summary.to_json(),
                "decisions": decision_rows(learned.policy),
                "lies": learned.policy.source["evidence"].get("lies", []),
                "notes": list(learned.notes),
                "changes": learned.policy.source.get("changes"),
                "out": str(out),
            }
        )
    else:
        _print_summary(learned, out)


def _print_summary(learned: LearnedLog, out: Path) -> None:
    """Print a summary of the log and the decisions in the most visited contexts."""
    found = learned.summary
    print_table(
        "The log",
        ["events", "users", "contexts", "actions", "median", "ratio", "repeated"],
        [
            [
                found.n_events,
                found.n_users,
                found.n_contexts,
                found.n_actions,
                number(found.median_interactions),
                number(found.interaction_ratio),
                rate(found.repeated_share),
            ]
        ],
        note="median: events of the median user. ratio: of the most active user's events to the "
        "least active one's. repeated: events whose user had met the context before.",
    )
    is_binary = found.is_binary
    has_flips = learned.policy.flip_fraction is not None
    columns = ["context", "share", "action", "mean", "runner-up", "lead", "naive"]
    rows = [
        [
            str(row["context"]),
            rate(row["share"]),
            str(row["action"]),
            rate(row["mean"]) if is_binary else row["mean"],
            "-" if row["runner_up"] is None else str(row["runner_up"]),
            rate(row["lead"]) if is_binary else row["lead"],
            "same" if row["naive"] is None else str(row["naive"]),
            *[rate(row["withstands"])] * has_flips,
        ]
        for row in decision_rows(learned.policy)
    ]
    print_some("The policy", Table([*columns, *["withstands"] * has_flips], rows))
    print_line(
        "share: of the honest users' visits. mean: estimated mean reward of the action for honest "
        f"users. lead: by how {'many percentage points' if is_binary else 'much'} it beats the "
        "runner-up. naive: what plain means over all users would choose. Intervals are in --cells, "
        "in --json and in the policy."
    )
    if has_flips:
        print_line(
            "withstands: no coalition below this share of all accounts can change the decision, "
            "even if it knows the secret groups."
        )
    for note in learned.notes:
        print_line(f"Note: {note}")
    removed = 1.0 - float(learned.user_weights.mean())
    print_line(
        f"{rate(removed)} of the accounts' weight was removed as a likely coalition, with alpha = "
        f"{learned.policy.alpha:g}. The policy is in {out}."
    )
