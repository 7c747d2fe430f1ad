"""`unswayed learn`: from the log you already have to a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from unswayed.cli.log_options import LOG_HELP, LogOptions
from unswayed.cli.options import Figures, Json, expanded
from unswayed.errors import InputError
from unswayed.learners.explaining import decision_rows
from unswayed.learners.from_log import STEPS, LearnedLog, learn_log, learn_on_cluster
from unswayed.learners.options import LearnOptions
from unswayed.reports.policies import check_table, write_table
from unswayed.reports.tables import print_json, print_line, print_table, rate, steps_bar
from unswayed.storage import check_writable, check_writable_folder
from unswayed.tallies.log_summary import LogSummary

ENGINES = ("local", "dask")

#: Where the policy goes if nobody says where.
DEFAULT_OUT = "policy.json"

#: Contexts in the summary; the policy file has all.
_SHOWN = 10


@expanded
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
    _check_engine(engine, scheduler=scheduler, log=log, has_tallies=options.tallies is not None)
    out = _policy_path(out)
    options = options.changed(
        columns=source.columns(time=source.time_column),
        query=source.query,
        on_bad_rows=source.on_bad_rows,
        min_propensity=source.min_propensity,
        features=options.features,
    )
    if figures is not None:
        from unswayed.reports.figures import write_policy_figures

        check_writable_folder(figures)
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
        write_table(_users_table(learned), users)
    if cells is not None:
        write_table(learned.policy.cells(), cells)
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


def _check_engine(
    engine: str, *, scheduler: str | None, log: str | None, has_tallies: bool
) -> None:
    """Reject an unknown engine, one without a log, and a scheduler that would not be used."""
    if engine not in ENGINES:
        raise InputError(f"--engine is {' or '.join(ENGINES)}, not {engine!r}.")
    if log is None and not has_tallies:
        raise InputError(
            "nothing to learn from: give a log, or a folder of tallies with --tallies."
        )
    if engine == "dask" and log is None:
        raise InputError("--engine dask needs a log; leave it out to learn from --tallies alone.")
    if scheduler is not None and engine != "dask":
        raise InputError(f"--scheduler requires --engine dask; the engine is {engine}.")


def _policy_path(out: Path | None) -> Path:
    """Return where the policy goes; only a file that was named is replaced."""
    if out is None and Path(DEFAULT_OUT).exists():
        raise InputError(
            f"{DEFAULT_OUT} exists; replace it with --out {DEFAULT_OUT}, or name another file."
        )
    return Path(DEFAULT_OUT) if out is None else out


def _users_table(learned: LearnedLog) -> dict[str, object]:
    return {
        "user": pa.array(learned.user_labels.values),
        "weight": learned.user_weights,
        "interactions": learned.interactions,
    }


def _print_summary(learned: LearnedLog, out: Path) -> None:
    _print_log(learned.summary)
    _print_policy(learned)
    for note in learned.notes:
        print_line(f"Note: {note}")
    removed = 1.0 - float(learned.user_weights.mean())
    print_line(
        f"{rate(removed)} of the accounts' weight was removed as a likely coalition, with alpha = "
        f"{learned.policy.alpha:g}. The policy is in {out}."
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
                _ratio(found.interaction_ratio),
                rate(found.repeated_share),
            ]
        ],
        note="median: events of the median user. ratio: of the most active user's events to the "
        "least active one's. repeated: events whose user had met the context before.",
    )


def _print_policy(learned: LearnedLog) -> None:
    """Print the most visited contexts; means of rewards that are 0 or 1 as percentages."""
    every = decision_rows(learned.policy)
    hidden = len(every) - _SHOWN
    is_binary = learned.summary.is_binary
    shown = rate if is_binary else _as_it_is
    has_flips = learned.policy.flip_fraction is not None
    print_table(
        "The policy",
        ["context", "share", "action", "mean", "runner-up", "lead", "naive"]
        + ["withstands"] * has_flips,
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
            "withstands: no coalition below this share of all accounts can change the decision, "
            "even if it knows the secret groups."
        )


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _as_it_is(value: float | None) -> float | None:
    return value
