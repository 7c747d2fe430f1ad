"""Options of the commands that read a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from unswayed.cli.options import Memory, reading_option
from unswayed.events import Columns, OnBadRows, parsed_bins
from unswayed.memory import parsed_bytes
from unswayed.storage import check_writable
from unswayed.tallies import MIN_PROPENSITY

CONTEXT = "context"

Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="Parquet, CSV, TSV or JSON lines: a file, a folder or a pattern; or a database "
        "address such as sqlite:///shop.db with --query.",
        show_default=False,
    ),
]
AlphaOrAuto = Annotated[
    str,
    typer.Option(
        metavar="FLOAT|auto",
        help="Share of users that may collude, below 0.5; auto: use an upper estimate from "
        "the data.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read a log: its columns, the query of a database, the memory limit."""

    user_column: Annotated[str, reading_option(help="Column of the user.")] = "user"
    context_column: Annotated[
        str, reading_option(help="Column of the context; several, separated by commas, are joined.")
    ] = CONTEXT
    action_column: Annotated[str, reading_option(help="Column of the action.")] = "action"
    reward_column: Annotated[str, reading_option(help="Column of the reward.")] = "reward"
    propensity_column: Annotated[
        str | None,
        reading_option(
            help="Column with the probability of the logged action [propensity, if present]."
        ),
    ] = None
    context_bins: Annotated[
        list[str] | None,
        reading_option(
            metavar="NAME:N", help="Cut a numeric context column into N bins; repeatable."
        ),
    ] = None
    query: Annotated[str | None, reading_option(help="SQL query to read from the database.")] = None
    memory: Memory = None

    def columns(self, *, time: str | None = None, may_lack_context: bool = False) -> Columns:
        """Return the columns; a log without contexts may lack the default column only."""
        return Columns(
            user=self.user_column,
            context=tuple(name.strip() for name in self.context_column.split(",") if name.strip()),
            action=self.action_column,
            reward=self.reward_column,
            propensity=self.propensity_column,
            time=time,
            bins=parsed_bins(self.context_bins or []),
            may_lack_context=may_lack_context and self.context_column == CONTEXT,
        )

    @property
    def memory_bytes(self) -> int | None:
        """Return the memory limit."""
        return None if self.memory is None else parsed_bytes(self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions(SourceOptions):
    """How to read a log and what to do with its rows."""

    time_column: Annotated[
        str | None, reading_option(help="Column of the time [time, if present].")
    ] = None
    on_bad_rows: Annotated[
        str,
        reading_option(
            help="What to do with unusable rows: error, drop or quarantine=FILE (.parquet, .csv, "
            ".jsonl)."
        ),
    ] = "error"
    min_propensity: Annotated[
        float, reading_option(help="Raise smaller propensities to this value.")
    ] = MIN_PROPENSITY

    def checked_bad_rows(self) -> OnBadRows:
        """Return what to do with unusable rows; a quarantine must be writable."""
        bad_rows = OnBadRows.parsed(self.on_bad_rows)
        if bad_rows.quarantine is not None:
            check_writable(bad_rows.quarantine)
        return bad_rows
