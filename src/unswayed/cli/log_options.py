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
        help="Share of users that may collude, below 0.5; auto estimates it from above.",
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
    typer.Option(help="Column of the probability of the action [propensity, if it is there]."),
]
TimeColumn = Annotated[str | None, typer.Option(help="Column of the time [time, if it is there].")]
ContextBins = Annotated[
    list[str] | None,
    typer.Option(help="Cut a numeric context column into bins, COLUMN:NUMBER; repeatable."),
]
Query = Annotated[str | None, typer.Option(help="What to read from a database.")]
BadRows = Annotated[
    str, typer.Option(help="error, drop or quarantine=FILE (.parquet, .csv, .jsonl).")
]
MinPropensity = Annotated[float, typer.Option(help="Smaller propensities count as this one.")]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory that may be used, such as 2GB [three quarters of what is free].",
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
    time: str | None,
    bins: list[str] | None,
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
