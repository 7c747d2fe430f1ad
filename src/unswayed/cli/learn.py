"""`unswayed learn`: from the log you already have to a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from unswayed.cli.log_options import (
    ActionColumn,
    AlphaOrAuto,
    BadRows,
    ContextBins,
    ContextColumn,
    Memory,
    MinPropensity,
    PropensityColumn,
    Query,
    RewardColumn,
    TableFormat,
    TimeColumn,
    UserColumn,
    columns_named,
)
from unswayed.errors import InputError
from unswayed.events import OnBadRows
from unswayed.learners.design import DesignName
from unswayed.learners.from_log import STEPS, LearnedLog, learn_log
from unswayed.learners.in_words import decision_rows
from unswayed.learners.methods import DEFAULT_METHOD, METHODS
from unswayed.learners.on_cluster import learn_on_cluster
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.memory import parsed_bytes
from unswayed.reports.policies import TABLE_FORMATS, cells_table, check_table, write_table
from unswayed.reports.tables import Cell, print_json, print_line, print_table, progress_bar
from unswayed.storage import check_writable, check_writable_folder
from unswayed.tallies import MIN_PROPENSITY
from unswayed.tallies.cluster import refuse_query

ENGINES = ("local", "dask")

#: Contexts in the summary; the policy file has all.
_SHOWN = 10


def learn(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="[LOG]",
            help="Parquet, CSV, TSV or JSON lines: a file, a folder or a pattern; or a database "
            "address such as sqlite:///shop.db with --query. Without a log: what --tallies holds.",
            show_default=False,
        ),
    ] = None,
    alpha: AlphaOrAuto = "0.1",
    out: Annotated[Path, typer.Option(help="Where to write the policy.")] = Path("policy.json"),
    method: Annotated[
        str,
        typer.Option(help=f"How to learn: {', '.join(METHODS)}."),
    ] = DEFAULT_METHOD,
    user_column: UserColumn = "user",
    context_column: ContextColumn = "context",
    action_column: ActionColumn = "action",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = None,
    time_column: TimeColumn = None,
    context_bins: ContextBins = None,
    query: Query = None,
    on_bad_rows: BadRows = "error",
    max_interactions_per_user: Annotated[
        int | None, typer.Option(help="Keep a sample of as many of users who have more.")
    ] = None,
    min_propensity: MinPropensity = MIN_PROPENSITY,
    design: Annotated[
        str, typer.Option(help="How actions were chosen: auto, uniform or sticky.")
    ] = "auto",
    tallies: Annotated[
        Path | None, typer.Option(help="Folder of tallies to add this log to and to learn from.")
    ] = None,
    allow_unplayed: Annotated[
        bool,
        typer.Option(
            "--allow-unplayed", help="Go on when actions were never played in some contexts."
        ),
    ] = False,
    users: Annotated[
        Path | None, typer.Option(help="Write the weight of each user to this table.")
    ] = None,
    cells: Annotated[
        Path | None, typer.Option(help="Write every (context, action) to this table.")
    ] = None,
    table_format: TableFormat = None,
    engine: Annotated[
        str, typer.Option(help="Where to work: local, or dask for a cluster.")
    ] = "local",
    scheduler: Annotated[
        str | None,
        typer.Option(help="Dask scheduler, tcp://HOST:PORT [workers on this machine]."),
    ] = None,
    memory: Memory = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Learn a policy from a log, whatever at most a share alpha of its users do."""
    if table_format is not None and table_format not in TABLE_FORMATS:
        raise InputError(f"--format is {' or '.join(TABLE_FORMATS)}, not {table_format!r}.")
    if engine not in ENGINES:
        raise InputError(f"--engine is {' or '.join(ENGINES)}, not {engine!r}.")
    fraction = check_fraction_or_auto(alpha, option="alpha")
    if log is None and tallies is None:
        raise InputError("say what to learn from: a log, or --tallies with a folder of tallies.")
    bad_rows = OnBadRows.parsed(on_bad_rows)
    for output in (out, bad_rows.quarantine):
        if output is not None:
            check_writable(output)
    for table in (users, cells):
        if table is not None:
            check_table(table, table_format)
    if tallies is not None and log is not None:
        check_writable_folder(tallies)
    columns = columns_named(
        user=user_column,
        context=context_column,
        action=action_column,
        reward=reward_column,
        propensity=propensity_column,
        time=time_column,
        bins=context_bins,
    )
    with progress_bar() as bar:
        task = bar.add_task("starting", total=len(STEPS))

        def on_step(step: str) -> None:
            bar.update(task, description=step, completed=STEPS.index(step))

        common: dict[str, Any] = {
            "adversarial_fraction": fraction,
            "columns": columns,
            "on_bad_rows": bad_rows,
            "max_interactions_per_user": max_interactions_per_user,
            "min_propensity": min_propensity,
            "design": _design(design),
            "tallies": tallies,
            "allow_unplayed": allow_unplayed,
            "on_step": on_step,
        }
        if engine == "dask":
            if query is not None:
                refuse_query()
            if memory is not None:
                raise InputError(
                    "--memory is for --engine local; a Dask worker has a limit of its own."
                )
            if log is None:
                raise InputError(
                    "--engine dask needs a log; leave it out to learn from --tallies alone."
                )
            learned = learn_on_cluster(
                log,
                method=method,
                scheduler=scheduler,
                with_users=users is not None,
                **common,
            )
        else:
            learned = learn_log(
                log,
                method=method,
                query=query,
                memory=None if memory is None else parsed_bytes(memory),
                **common,
            )
    learned.policy.save(out)
    if users is not None:
        write_table(_users_table(learned), users, table_format)
    if cells is not None:
        write_table(cells_table(learned.policy), cells, table_format)
    if json:
        print_json(
            {
                **learned.findings.to_json(),
                "decisions": decision_rows(learned.policy),
                "lies": learned.policy.source["evidence"].get("lies", []),
                "notes": list(learned.notes),
                "out": str(out),
            }
        )
    else:
        _print_summary(learned, out)


def _design(name: str) -> DesignName:
    match name:
        case "auto" | "uniform" | "sticky":
            return name
        case _:
            raise InputError(f"--design is auto, uniform or sticky, not {name!r}.")


def _users_table(learned: LearnedLog) -> dict[str, object]:
    return {
        "user": pa.array(learned.user_labels.values),
        "weight": learned.user_weights,
        "interactions": learned.interactions,
    }


def _print_summary(learned: LearnedLog, out: Path) -> None:
    found, policy = learned.findings, learned.policy
    print_table(
        "The log",
        ["events", "users", "contexts", "actions", "per user: median", "most/least", "repeated"],
        [
            [
                f"{found.n_events:,}",
                f"{found.n_users:,}",
                f"{found.n_contexts:,}",
                f"{found.n_actions:,}",
                f"{found.median_interactions:g}",
                f"{found.interaction_ratio:.3g}",
                f"{found.repeated_share:.1%}",
            ]
        ],
    )
    flips = policy.flip_fraction
    every = decision_rows(policy)
    rows: list[list[Cell]] = [
        [
            str(row["context"]),
            f"{row['share']:.2%}",
            str(row["action"]),
            row["mean"],
            "" if row["runner_up"] is None else str(row["runner_up"]),
            row["lead"],
            "" if row["plain"] is None else str(row["plain"]),
            *([] if flips is None else [f"{flips[row['code']]:.2%}"]),
        ]
        for row in every[:_SHOWN]
    ]
    hidden = len(every) - len(rows)
    print_table(
        "The policy",
        ["context", "share", "action", "mean", "runner-up", "lead", "plain mean"]
        + ([] if flips is None else ["withstands"]),
        rows,
        note=f"and {hidden:,} more contexts." if hidden else None,
    )
    print_line(
        "lead: of the action over the runner-up. plain mean: what the plain mean of all users "
        "would choose, where that differs. Intervals are in --cells and in the policy."
    )
    if flips is not None:
        print_line(
            "withstands: changing fewer accounts than this share of all, chosen by somebody who "
            "knows the secret groups, cannot change the decision."
        )
    for note in learned.notes:
        print_line(f"Note: {note}")
    weights = learned.user_weights
    print_line(
        f"Kept {weights.mean():.1%} of the users' weight with alpha = "
        f"{policy.adversarial_fraction:g}. The policy is in {out}."
    )
