"""`unswayed predict`: what a policy plays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unswayed.errors import InputError
from unswayed.events import Label, parsed_label
from unswayed.memory import parsed_bytes
from unswayed.policy import Policy
from unswayed.reports.policies import check_table, write_table
from unswayed.reports.predictions import predicted_table
from unswayed.reports.tables import print_json, print_line, print_table


def predict(
    policy: Annotated[Path, typer.Argument(help="A policy that `unswayed learn` wrote.")],
    context: Annotated[
        list[str] | None, typer.Option(help="A context; repeatable. Parts are joined by |.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="The user, for a policy learned with --personal.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="A file whose every row is a context.")] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Its context columns [those the policy was learned from]."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the rows with their actions.")
    ] = None,
    table_format: Annotated[
        str | None, typer.Option("--format", help="Format of that table: parquet or csv.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory that may be used, such as 2GB [three quarters of what is free].",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the action of each context, or add them to the rows of a file."""
    if (context is None) == (file is None):
        raise InputError("say what to predict for: either --context or --file.")
    if user is not None and file is not None:
        raise InputError("--user goes with --context; the rows of a file get the common policy.")
    loaded = Policy.load(policy)
    if file is not None:
        if out is None:
            raise InputError("say where to write the actions with --out, such as actions.parquet.")
        check_table(out, table_format)
        columns = None if column is None else [name.strip() for name in column.split(",")]
        table, n_unknown = predicted_table(
            loaded,
            file,
            columns=columns,
            memory=None if memory is None else parsed_bytes(memory),
        )
        write_table(table, out, table_format)
        print_line(
            f"Wrote {len(table):,} rows to {out}; {n_unknown:,} have a context that the policy "
            f"does not know and got the default action "
            f"{loaded.action_labels[loaded.default_action]!r}."
        )
        return
    rows = []
    for text in context or []:
        label = parsed_label(text, loaded.context_labels.type_name)
        decision = loaded.decide(label, _user(loaded, user))
        rows.append((label, decision))
    if json:
        print_json(
            [
                {
                    "context": label,
                    "action": decision.action,
                    "is_known": decision.is_known,
                    "is_personal": decision.is_personal,
                    "mean": decision.mean if decision.is_known else None,
                    "low": decision.low if decision.is_known else None,
                    "high": decision.high if decision.is_known else None,
                }
                for label, decision in rows
            ]
        )
        return
    print_table(
        "Decisions",
        ["context", "action", "mean", "low", "high", "known"],
        [
            [
                str(label),
                str(decision.action),
                decision.mean if decision.is_known else None,
                decision.low if decision.is_known else None,
                decision.high if decision.is_known else None,
                "yes" if decision.is_known else "no: the default action",
            ]
            for label, decision in rows
        ],
    )


def _user(policy: Policy, text: str | None) -> Label | None:
    if text is None:
        return None
    if policy.personal is None:
        raise InputError("this policy has no decisions of single users; learn it with --personal.")
    return parsed_label(text, policy.personal.user_labels.type_name)
