"""Options of the commands that read a log."""

from __future__ import annotations

from typing import Annotated

import typer

from unswayed.events import Columns, parsed_bins

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
UserColumn = Annotated[str, typer.Option(help="Column of the user.")]
ContextColumn = Annotated[
    str, typer.Option(help="Column of the context; several, separated by commas, are joined.")
]
ActionColumn = Annotated[str, typer.Option(help="Column of the action.")]
RewardColumn = Annotated[str, typer.Option(help="Column of the reward.")]
PropensityColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of the probability of the logged action [propensity, if there is one]."
    ),
]
TimeColumn = Annotated[str | None, typer.Option(help="Column of the time [time, if there is one].")]
ContextBins = Annotated[
    list[str] | None,
    typer.Option(help="Bin a numeric context column, COLUMN:NUMBER; repeatable."),
]
Query = Annotated[str | None, typer.Option(help="SQL query to read from the database.")]
BadRows = Annotated[
    str,
    typer.Option(
        help="What to do with unusable rows: error, drop or quarantine=FILE (.parquet, .csv, "
        ".jsonl)."
    ),
]
MinPropensity = Annotated[float, typer.Option(help="Raise smaller propensities to this one.")]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory limit, such as 2GB [three quarters of the free memory].",
        show_default=False,
    ),
]
TableFormat = Annotated[
    str | None, typer.Option("--format", help="Format of the tables: parquet or csv.")
]


def columns_named(
    *,
    user: str,
    context: str,
    action: str,
    reward: str,
    propensity: str | None,
    time: str | None = None,
    bins: list[str] | None = None,
    may_lack_context: bool = False,
) -> Columns:
    """Return the columns that options name."""
    return Columns(
        user=user,
        context=tuple(name.strip() for name in context.split(",") if name.strip()),
        action=action,
        reward=reward,
        propensity=propensity,
        time=time,
        bins=parsed_bins(bins or []),
        may_lack_context=may_lack_context,
    )
