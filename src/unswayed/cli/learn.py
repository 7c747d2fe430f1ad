"""`unswayed learn`: from the log you already have to a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import pyarrow as pa
import typer

from unswayed.cli.log_options import AlphaOrAuto, LogOptions
from unswayed.cli.options import Figures, Json, TableFormat, expanded
from unswayed.errors import InputError
from unswayed.learners.design import DesignName
from unswayed.learners.explaining import decision_rows
from unswayed.learners.flips import CERTIFY_CHOICES, check_certify
from unswayed.learners.from_log import STEPS, LearnedLog, learn_log, learn_on_cluster
from unswayed.learners.methods import DEFAULT_METHOD, method_names
from unswayed.learners.options import MAX_LEAVES, LearnOptions, listed_names
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.reports.policies import TABLE_FORMATS, check_table, write_table
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
            help="Parquet, CSV, TSV or JSON lines: a file, a folder or a pattern; or a database "
            "address such as sqlite:///shop.db with --query. Without a log, learn from --tallies.",
            show_default=False,
        ),
    ] = None,
    alpha: AlphaOrAuto = "0.1",
    out: Annotated[
        Path | None,
        typer.Option(help=f"Where to write the policy [{DEFAULT_OUT}, unless it exists]."),
    ] = None,
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
        str,
        typer.Option(
            help="How actions were chosen: uniform, sticky (a fixed action per user and context), "
            "or auto to infer it."
        ),
    ] = "auto",
    tallies: Annotated[
        Path | None,
        typer.Option(help="Folder of per-user sums: add this log to it, and learn from all of it."),
    ] = None,
    allow_unplayed: Annotated[
        bool,
        typer.Option(
            "--allow-unplayed",
            help="Learn even if some actions were never played in some contexts.",
        ),
    ] = False,
    half_life: Annotated[
        str | None,
        typer.Option(
            help="Keep half of the events this old (such as 7d or 12h), a quarter of those twice "
            "as old, and test whether mean rewards changed. Needs a time column."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="INTEGER|auto",
            help="Number of user groups with different tastes to look for; a group gets its own "
            "policy if that gains on held-out plays.",
        ),
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="CSV of reviewed accounts (user, status honest or fake): fake ones do not count, "
            "honest ones are never flagged, and a group is what most of its reviewed members are."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Attributes to learn the contexts from, such as country,device,age, instead of "
            "--context-column.",
        ),
    ] = None,
    max_leaves: Annotated[
        int, typer.Option(help="Most contexts that --features may become.")
    ] = MAX_LEAVES,
    honest: Annotated[
        bool,
        typer.Option(
            "--honest",
            help="Take intervals from a half of the users who had no say in the contexts.",
        ),
    ] = False,
    trusted: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Features that the server sets, such as hour, so that no account can claim them.",
        ),
    ] = None,
    advice: Annotated[
        str,
        typer.Option(
            help="Which model advises the contexts: a linear one (auto), none (off), or the column "
            "with the choices of your own model.",
        ),
    ] = "auto",
    personal: Annotated[
        bool,
        typer.Option(
            "--personal", help="Also learn decisions for single users whose tastes differ."
        ),
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
    figures: Figures = None,
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
            help="Certify how many accounts it takes to change each decision "
            f"({', '.join(CERTIFY_CHOICES)}): bounds computes proven bounds; attack also runs "
            "attacks on decisions without an upper bound, about 15 learning runs each.",
        ),
    ] = "bounds",
    reward_range: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="Smallest and largest reward that there can be, such as 1,5. Worst-case intervals "
            "need it or --reward-deviation.",
        ),
    ] = None,
    reward_deviation: Annotated[
        float | None,
        typer.Option(
            help="Largest standard deviation of an honest user's reward in a context and action, "
            "tastes included."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Learn a policy from a log, robust to a share alpha of colluding users."""
    _check_engine(engine, scheduler=scheduler, log=log, tallies=tallies)
    out = _policy_path(out)
    options = LearnOptions(
        alpha=check_fraction_or_auto(alpha),
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
        reward_range=reward_range,
        reward_deviation=reward_deviation,
        known=known,
        allow_unplayed=allow_unplayed,
        half_life=half_life,
        groups=groups,
        features=listed_names(features or ""),
        max_leaves=max_leaves,
        honest=honest,
        trusted=listed_names(trusted or ""),
        advice=advice,
        personal=personal,
    )
    if figures is not None:
        check_writable_folder(figures)
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
        write_table(learned.policy.cells(), cells, table_format)
    if figures is not None:
        from unswayed.reports.figures import write_policy_figures

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
        _print_summary(learned, out, with_attacks=certify == "attack")


def _check_engine(
    engine: str, *, scheduler: str | None, log: str | None, tallies: Path | None
) -> None:
    """Reject an unknown engine, one without a log, and a scheduler that would not be used."""
    if engine not in ENGINES:
        raise InputError(f"--engine is {' or '.join(ENGINES)}, not {engine!r}.")
    if log is None and tallies is None:
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


def _check_outputs(
    options: LearnOptions,
    out: Path,
    tables: tuple[Path | None, ...],
    table_format: str | None,
    *,
    has_log: bool,
) -> None:
    """Reject outputs that cannot be written, before any work is done."""
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
            "withstands: no coalition below this share of all accounts can change the decision, "
            "even if it knows the secret groups."
        )
    if with_attacks:
        print_line(
            "falls to: an attack that replaced this share of the accounts was run and changed the "
            "decision; none: no such coalition of up to half of the accounts was found."
        )


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def _as_it_is(value: float | None) -> float | None:
    return value


def _share_or_none(share: float | None) -> str | None:
    return "none" if share is None else rate(share)
