"""`unswayed learn`: from the log you already have to a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import pyarrow as pa
import typer

from unswayed.cli.expanding import expanded
from unswayed.cli.log_options import AlphaOrAuto, LogOptions, TableFormat
from unswayed.errors import InputError
from unswayed.learners.design import DesignName
from unswayed.learners.explaining import decision_rows
from unswayed.learners.flips.fraction import CERTIFY_CHOICES, check_certify
from unswayed.learners.from_log import STEPS, LearnedLog, learn_log, learn_on_cluster
from unswayed.learners.methods import DEFAULT_METHOD, method_names
from unswayed.learners.options import LearnOptions
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.reports.policies import TABLE_FORMATS, cells_table, check_table, write_table
from unswayed.reports.tables import print_json, print_line, print_table, rate, steps_bar
from unswayed.storage import check_writable, check_writable_folder
from unswayed.tallies.log_summary import LogSummary

ENGINES = ("local", "dask")

#: Contexts in the summary; the policy file has all.
_SHOWN = 10


@expanded
def learn(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="LOG",
            help="Parquet, CSV, TSV or JSON lines: a file, a folder or a pattern; or a database "
            "address such as sqlite:///shop.db with --query. Without a log: learn from --tallies.",
            show_default=False,
        ),
    ] = None,
    alpha: AlphaOrAuto = "0.1",
    out: Annotated[Path, typer.Option(help="Where to write the policy.")] = Path("policy.json"),
    method: Annotated[
        str,
        typer.Option(help=f"How to learn: {', '.join(method_names())}."),
    ] = DEFAULT_METHOD,
    *,
    source: LogOptions,
    max_interactions_per_user: Annotated[
        int | None, typer.Option(help="Down-sample users with more interactions to this many.")
    ] = None,
    design: Annotated[
        str, typer.Option(help="How actions were chosen: auto, uniform or sticky.")
    ] = "auto",
    tallies: Annotated[
        Path | None, typer.Option(help="Folder of tallies to add this log to and to learn from.")
    ] = None,
    allow_unplayed: Annotated[
        bool,
        typer.Option(
            "--allow-unplayed",
            help="Learn although some actions were never played in some contexts.",
        ),
    ] = False,
    half_life: Annotated[
        str | None,
        typer.Option(
            help="Forget: keep half of the events that are this old, such as 7d or 12h, a quarter "
            "of those twice as old; and test for change. Needs a time column."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="INTEGER|auto",
            help="Look for so many groups of users with a taste of their own; each that gains on "
            "held-out plays gets a policy.",
        ),
    ] = None,
    personal: Annotated[
        bool,
        typer.Option("--personal", help="Also decide for users whose taste differs from the rest."),
    ] = False,
    users: Annotated[
        Path | None, typer.Option(help="Write the weight of each user to this table.")
    ] = None,
    cells: Annotated[
        Path | None,
        typer.Option(
            help="Write estimates and intervals of every (context, action) to this table."
        ),
    ] = None,
    table_format: TableFormat = None,
    engine: Annotated[
        str, typer.Option(help="Where to run: local, or dask for a cluster.")
    ] = "local",
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Dask scheduler, tcp://HOST:PORT, with --engine dask [workers on this machine]."
        ),
    ] = None,
    certify: Annotated[
        str,
        typer.Option(
            help=f"How many accounts would change each decision, {', '.join(CERTIFY_CHOICES)}: "
            "bounds computes what is certain, attack also attacks the decisions without an upper "
            "bound, learning some 15 times for each.",
        ),
    ] = "bounds",
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Learn a policy from a log that is robust to a share alpha of colluding users."""
    _check_engine(engine, scheduler=scheduler, log=log, tallies=tallies)
    options = LearnOptions(
        adversarial_fraction=check_fraction_or_auto(alpha),
        method=method,
        design=cast("DesignName", design),
        columns=source.columns(time=source.time_column),
        query=source.query,
        memory=source.memory_bytes,
        on_bad_rows=source.checked_bad_rows(),
        max_interactions_per_user=max_interactions_per_user,
        min_propensity=source.min_propensity,
        tallies=tallies,
        certify=check_certify(certify),
        allow_unplayed=allow_unplayed,
        half_life=half_life,
        groups=groups,
        personal=personal,
    )
    _check_outputs(options, out, (users, cells), table_format, has_log=log is not None)
    with steps_bar(STEPS) as on_step:
        if engine == "dask" and log is not None:
            learned = learn_on_cluster(
                log, options, scheduler=scheduler, with_users=users is not None, on_step=on_step
            )
        else:
            learned = learn_log(log, options, on_step=on_step)
    learned.policy.save(out)
    if users is not None:
        write_table(_users_table(learned), users, table_format)
    if cells is not None:
        write_table(cells_table(learned.policy), cells, table_format)
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
        _print_summary(learned, out, with_attacks=certify == "attack")


def _check_engine(
    engine: str, *, scheduler: str | None, log: str | None, tallies: Path | None
) -> None:
    """Reject an engine that does not exist, lacks a log, or has nothing to do with a scheduler."""
    if engine not in ENGINES:
        raise InputError(f"--engine is {' or '.join(ENGINES)}, not {engine!r}.")
    if log is None and tallies is None:
        raise InputError("say what to learn from: a log, or --tallies with a folder of tallies.")
    if engine == "dask" and log is None:
        raise InputError("--engine dask needs a log; leave it out to learn from --tallies alone.")
    if scheduler is not None and engine != "dask":
        raise InputError(f"--scheduler is for --engine dask; the engine here is {engine}.")


def _check_outputs(
    options: LearnOptions,
    out: Path,
    tables: tuple[Path | None, ...],
    table_format: str | None,
    *,
    has_log: bool,
) -> None:
    """Reject outputs that could not be written, before any work is done for them."""
    if table_format is not None and table_format not in TABLE_FORMATS:
        raise InputError(f"--format is {' or '.join(TABLE_FORMATS)}, not {table_format!r}.")
    check_writable(out)
    for table in tables:
        if table is not None:
            check_table(table, table_format)
    if options.tallies is not None and has_log:
        check_writable_folder(options.tallies)


def _users_table(learned: LearnedLog) -> dict[str, object]:
    return {
        "user": pa.array(learned.user_labels.values),
        "weight": learned.user_weights,
        "interactions": learned.interactions,
    }


def _print_summary(learned: LearnedLog, out: Path, *, with_attacks: bool) -> None:
    _print_log(learned.summary)
    _print_policy(learned, with_attacks=with_attacks)
    for note in learned.notes:
        print_line(f"Note: {note}")
    print_line(
        f"Kept {rate(float(learned.user_weights.mean()))} of the users' weight with alpha = "
        f"{learned.policy.adversarial_fraction:g}. The policy is in {out}."
    )


def _print_log(found: LogSummary) -> None:
    print_table(
        "The log",
        ["events", "users", "contexts", "actions", "median", "ratio", "repeated"],
        [
            [
                f"{found.n_events:,}",
                f"{found.n_users:,}",
                f"{found.n_contexts:,}",
                f"{found.n_actions:,}",
                f"{found.median_interactions:g}",
                f"{found.interaction_ratio:.3g}",
                rate(found.repeated_share),
            ]
        ],
        note="median: events of the median user. ratio: of the most active user's events to the "
        "least active one's. repeated: events whose user had met the context before.",
    )


def _print_policy(learned: LearnedLog, *, with_attacks: bool) -> None:
    """Print the most visited contexts; means of rewards that are 0 or 1 as percentages."""
    every = decision_rows(learned.policy)
    hidden = len(every) - _SHOWN
    is_binary = learned.summary.is_binary
    shown = rate if is_binary else _as_it_is
    has_flips = learned.policy.flip_fraction is not None
    print_table(
        "The policy",
        ["context", "share", "action", "mean", "runner-up", "lead", "naive"]
        + ["withstands"] * has_flips
        + ["falls to"] * with_attacks,
        [
            [
                str(row["context"]),
                rate(row["share"]),
                str(row["action"]),
                shown(row["mean"]),
                "-" if row["runner_up"] is None else str(row["runner_up"]),
                shown(row["lead"]),
                "same" if row["naive"] is None else str(row["naive"]),
                *([rate(row["withstands"])] if has_flips else []),
                *([_share_or_none(row["falls_to"])] if with_attacks else []),
            ]
            for row in every[:_SHOWN]
        ],
        note=f"and {hidden:,} more contexts, less visited." if hidden > 0 else None,
    )
    print_line(
        "share: of the honest users' visits. mean: estimated mean reward of the action for honest "
        f"users. lead: by how {'many percentage points' if is_binary else 'much'} it beats the "
        "runner-up. naive: what plain means over all users would choose. Intervals are in --cells, "
        "in --json and in the policy."
    )
    if has_flips:
        print_line(
            "withstands: changing fewer accounts than this share of all, chosen by somebody who "
            "knows the secret groups, cannot change the decision."
        )
    if with_attacks:
        print_line(
            "falls to: an attack that replaced this share of the accounts was carried out and "
            "changed the decision; none: no coalition of up to half of the accounts was found."
        )


def _as_it_is(value: float | None) -> float | None:
    return value


def _share_or_none(share: float | None) -> str | None:
    return "none" if share is None else rate(share)
