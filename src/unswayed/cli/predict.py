"""`unswayed predict`: the actions of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

import typer

from unswayed.cli.options import Json
from unswayed.errors import InputError
from unswayed.events import Label, parsed_label
from unswayed.names import closest
from unswayed.policy import NO_BOUND, Policy
from unswayed.policy.documents import json_number
from unswayed.reports.tables import Cell, print_json, print_line, print_table, rate

NOT_USEFUL = "none useful"
"""What is shown where the interval is the whole range of rewards."""


def predict(
    policy: Annotated[Path, typer.Argument(help="A policy that `unswayed learn` wrote.")],
    context: Annotated[
        list[str] | None,
        typer.Option(help="A context; repeatable. Join several context columns with |."),
    ] = None,
    file: Annotated[str | None, typer.Option(help="A file with one context per row.")] = None,
    column: Annotated[
        str | None,
        typer.Option(
            "--context-column",
            help="Context columns of the file [those the policy was learned from].",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the rows with the policy's actions.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a policy's action for given contexts, or add actions to the rows of a file."""
    if (context is None) == (file is None):
        raise InputError("nothing to predict for: give either --context or --file.")
    if file is None and (out, column) != (None, None):
        raise InputError("--out and --context-column require --file.")
    loaded = Policy.load(policy)
    if file is not None:
        if out is None:
            raise InputError(
                "--file needs --out, where to write the actions, such as actions.parquet."
            )
        from unswayed.reports.policies import check_table, predicted_table, write_table

        check_table(out)
        columns = None if column is None else [name.strip() for name in column.split(",")]
        table, n_unknown = predicted_table(loaded, file, columns=columns)
        write_table(table, out)
        if json:
            print_json({"out": str(out), "rows": len(table), "unknown": n_unknown})
            return
        print_line(
            f"Wrote {len(table):,} rows to {out}, with the policy's actions in the column "
            f"{table.column_names[-2]!r}; {n_unknown:,} have a context that the policy does not "
            f"know and got the default action {loaded.action_labels[loaded.default_action]!r}."
        )
        return
    rows = [_row(text, loaded) for text in context or []]
    if json:
        print_json(rows)
    else:
        _print(rows, loaded)


class _Row(TypedDict):
    """What a policy decides in a context; None for what is not known or has no bound.

    ``condition`` is what the interval rests on; ``bound`` says so where there is none, or where it
    is the whole range of rewards.
    """

    context: Label
    action: Label
    is_known: bool
    mean: float | None
    low: float | None
    high: float | None
    bound: NotRequired[str]
    condition: NotRequired[str | None]
    sampling_error: NotRequired[float | None]
    bias_bound: NotRequired[float | None]
    did_you_mean: str | None


def _row(text: str, policy: Policy) -> _Row:
    label = parsed_label(text, policy.context_labels.type_name)
    decision = policy.decide(label)
    row: _Row = {
        "context": label,
        "action": decision.action,
        "is_known": decision.is_known,
        "mean": json_number(decision.mean),
        "low": json_number(decision.low),
        "high": json_number(decision.high),
        "did_you_mean": _hint(text, policy),
    }
    if decision.is_known:
        known = policy.source.get("intervals", {})
        row["condition"] = known.get("condition")
        if None in (row["low"], row["high"]):
            row["bound"] = NO_BOUND
        elif [row["low"], row["high"]] == known.get("reward_range"):
            row["bound"] = NOT_USEFUL
    if decision.is_known and policy.sampling_errors is not None:
        cell = policy.context_labels.code(label), policy.action_labels.code(decision.action)
        row["sampling_error"] = json_number(policy.sampling_errors[cell])
        row["bias_bound"] = json_number(policy.bias_bounds[cell])
    return row


def _print(rows: list[_Row], policy: Policy) -> None:
    is_rate = bool(policy.source.get("findings", {}).get("is_binary"))

    def shown(value: float | None) -> Cell:
        return rate(value) if is_rate and value is not None else value

    def cells(row: _Row) -> list[Cell]:
        values: list[Cell] = [shown(row["mean"]), shown(row.get("sampling_error"))]
        if not row["is_known"]:
            return [*values, None, None]
        if "bound" in row:
            return [*values, row["bound"], row["bound"]]
        return [*values, shown(row["low"]), shown(row["high"])]

    print_table(
        "Decisions",
        ["context", "action", "mean", "sampling", "at least", "at most", "known"],
        [
            [
                str(row["context"]),
                str(row["action"]),
                *cells(row),
                "yes" if row["is_known"] else "no",
            ]
            for row in rows
        ],
        note="mean: the action's mean reward for honest users. sampling: half-width due to chance, "
        "if nobody lies. at least, at most: the worst that a share alpha of colluders can hide. "
        "known: whether the log had the context.",
    )
    alpha = f"alpha = {policy.alpha:g}"
    conditions = {row["condition"] for row in rows if row.get("condition")}
    for condition in conditions:
        print_line(f"At least and at most hold if {condition}.")
    if any(row.get("bound") == NOT_USEFUL for row in rows):
        what = "click rate" if is_rate else "number of visitors"
        print_line(
            f"{NOT_USEFUL}: no useful worst-case bound at this {what} and {alpha}; as many users "
            "as may collude could have made any mean in the range."
        )
    if any(row.get("bound") == NO_BOUND for row in rows):
        print_line(
            f"{NO_BOUND}: without a range or deviation of rewards there is none; state it with "
            "learn --reward-range or --reward-deviation."
        )
    for row in rows:
        if not row["is_known"]:
            words = policy.words_on_unknown([row["context"]])
            print_line(words[0].upper() + words[1:])


def _hint(text: str, policy: Policy) -> str | None:
    """Return the known context that was probably meant by one that is not known."""
    names = policy.context_labels.texts
    return None if text in names else closest(text, names)
