"""`unswayed predict`: the actions of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unswayed.cli.options import Json, check_outputs, names_in
from unswayed.errors import InputError
from unswayed.events import parsed_label
from unswayed.names import closest
from unswayed.policy import NO_BOUND, Policy
from unswayed.policy.documents import json_number
from unswayed.reports.tables import print_json, print_line, print_table, rate
from unswayed.visible import Cell

NOT_USEFUL = "none useful"
"""Shown in place of an interval that contains all possible rewards."""


def predict(
    policy: Annotated[Path, typer.Argument(help="A policy that `unswayed learn` wrote.")],
    context: list[str] | None = None,
    file: str | None = None,
    context_column: str | None = None,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Print a policy's action for given contexts, or add actions to the rows of a file.

    context: A context; repeatable. Join several context columns with |.
    file: A file with one context per row.
    context_column: Context columns of the file [those the policy was learned from].
    out: Where to write the rows with the policy's actions.
    """
    if (context is None) == (file is None):
        raise InputError("nothing to predict for: give either --context or --file.")
    if file is None and (out, context_column) != (None, None):
        raise InputError("--out and --context-column require --file.")
    check_outputs(out, inputs=(policy, file))
    loaded = Policy.load(policy)
    if file is None:
        rows = [_row(text, loaded) for text in context or []]
        if json:
            print_json(rows)
        else:
            _print(rows, loaded)
        return
    if out is None:
        raise InputError("--file needs --out, where to write the actions, such as actions.parquet.")
    from unswayed.reports.policies import check_table, predicted_table, write_table

    check_table(out)
    columns = None if context_column is None else names_in(context_column)
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


def _row(text: str, policy: Policy) -> dict[str, Any]:
    """Return a policy's decision in a context; None for unknown values and infinite bounds.

    ``condition`` is the assumption of the interval; ``bound`` is a note if the interval is infinite
    or the whole range of rewards.
    """
    label = parsed_label(text, policy.context_labels.type_name)
    decision = policy.decide(label)
    names = policy.context_labels.texts
    row: dict[str, Any] = {
        "context": label,
        "action": decision.action,
        "is_known": decision.is_known,
        "mean": json_number(decision.mean),
        "low": json_number(decision.low),
        "high": json_number(decision.high),
        "did_you_mean": None if text in names else closest(text, names),
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


def _print(rows: list[dict[str, Any]], policy: Policy) -> None:
    is_rate = bool(policy.source.get("findings", {}).get("is_binary"))

    def cells(row: dict[str, Any]) -> list[Cell]:
        names = ("mean", "sampling_error", "low", "high")
        values: list[Cell] = [rate(row.get(x)) if is_rate else row.get(x) for x in names]
        if not row["is_known"] or "bound" in row:
            values[2:] = [row.get("bound")] * 2
        is_known = "yes" if row["is_known"] else "no"
        return [str(row["context"]), str(row["action"]), *values, is_known]

    print_table(
        "Decisions",
        ["context", "action", "mean", "sampling", "at least", "at most", "known"],
        [cells(row) for row in rows],
        note="mean: the action's mean reward for honest users. sampling: half-width due to chance, "
        "if nobody lies. at least, at most: the worst that a share alpha of colluders can hide. "
        "known: whether the log had the context.",
    )
    for condition in {row["condition"] for row in rows if row.get("condition")}:
        print_line(f"At least and at most hold if {condition}.")
    bounds = {row.get("bound") for row in rows}
    if NOT_USEFUL in bounds:
        what = "click rate" if is_rate else "number of visitors"
        print_line(
            f"{NOT_USEFUL}: no useful worst-case bound at this {what} and alpha = "
            f"{policy.alpha:g}; as many users as may collude could have made any mean in the range."
        )
    if NO_BOUND in bounds:
        print_line(
            f"{NO_BOUND}: without a range or deviation of rewards there is none; state it with "
            "learn --reward-range or --reward-deviation."
        )
    for row in rows:
        if not row["is_known"]:
            words = policy.words_on_unknown([row["context"]])
            print_line(words[0].upper() + words[1:])
