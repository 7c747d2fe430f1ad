"""Options of the commands that read a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from unswayed.cli.options import names_in
from unswayed.defaults import MIN_PROPENSITY
from unswayed.events import Columns
from unswayed.events.columns import parsed_bins

CONTEXT = "context"

LOG_HELP = (
    "Parquet, CSV, TSV or JSON lines: a file, a folder or a pattern; or a database address such as "
    "sqlite:///shop.db with --query."
)
Log = Annotated[str, typer.Argument(metavar="LOG", help=LOG_HELP, show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How to read a log: its columns, and the query of a database.

    user_column: Column of the user.
    context_column: Column of the context; several, separated by commas, are joined.
    action_column: Column of the action.
    reward_column: Column of the reward.
    propensity_column: Column with the probability of the logged action [propensity, if present].
    context_bins (NAME:N): Cut a numeric context column into N bins; repeatable.
    query: SQL query to read from the database.
    """

    panel: ClassVar[str] = "Reading the log"

    user_column: str = "user"
    context_column: str = CONTEXT
    action_column: str = "action"
    reward_column: str = "reward"
    propensity_column: str | None = None
    context_bins: list[str] | None = None
    query: str | None = None

    def columns(self, *, time: str | None = None, may_lack_context: bool = False) -> Columns:
        """Return the columns; ``may_lack_context`` lets the default context column be missing."""
        return Columns(
            user=self.user_column,
            context=tuple(name for name in names_in(self.context_column) if name),
            action=self.action_column,
            reward=self.reward_column,
            propensity=self.propensity_column,
            time=time,
            bins=parsed_bins(self.context_bins or []),
            may_lack_context=may_lack_context and self.context_column == CONTEXT,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions(SourceOptions):
    """How to read a log and what to do with its rows.

    time_column: Column of the time [time, if present].
    on_bad_rows: What to do with unusable rows: error or drop.
    min_propensity: Raise smaller propensities to this value.
    """

    time_column: str | None = None
    on_bad_rows: str = "error"
    min_propensity: float = MIN_PROPENSITY

    def reading(self, *, may_lack_context: bool = False) -> dict[str, Any]:
        """Return keyword arguments for ``learn_log``, ``audit_log`` and ``evaluate_policy``."""
        return {
            "columns": self.columns(time=self.time_column, may_lack_context=may_lack_context),
            "query": self.query,
            "on_bad_rows": self.on_bad_rows,
            "min_propensity": self.min_propensity,
        }
