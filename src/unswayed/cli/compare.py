"""`unswayed compare`: where two policies decide differently."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from unswayed.cli.options import Json
from unswayed.errors import InputError
from unswayed.events import Label
from unswayed.policy import Policy
from unswayed.reports.policies import compare_policies
from unswayed.reports.tables import print_json, print_line, print_table, rate


def compare(
    first: Annotated[Path, typer.Argument(help="A policy.")],
    second: Annotated[Path, typer.Argument(help="Another policy.")],
    limit: int = 20,
    json: Json = False,
) -> None:
    """Show where two policies decide differently.

    limit: Number of changes to print, most visited contexts first.
    """
    if limit < 0:
        raise InputError(f"--limit is {limit}: it must be 0 or larger.")
    result = compare_policies(Policy.load(first), Policy.load(second))
    if json:
        shown = ("context", "before", "after", "probability")
        print_json(
            {
                "common_contexts": result.n_common,
                "agreement": result.agreement if result.n_common else None,
                "changes": [
                    {name: getattr(change, name) for name in shown} for change in result.changes
                ],
                "only_in_first": list(result.only_in_first),
                "only_in_second": list(result.only_in_second),
            }
        )
        return
    if not result.n_common:
        print_line(
            f"The policies have no context in common, so there is nothing to compare: {first} has "
            f"{_some(result.only_in_first)}, and {second} has {_some(result.only_in_second)}. "
            "Check that both were learned from the same context columns."
        )
        return
    if result.changes:
        hidden = len(result.changes) - limit
        print_table(
            "Changed decisions",
            ["context", "share", "before", "after", "mean before", "mean after"],
            [
                [
                    str(change.context),
                    rate(change.probability),
                    str(change.before),
                    str(change.after),
                    change.mean_before,
                    change.mean_after,
                ]
                for change in result.changes[:limit]
            ],
            note=f"before: {first}. after: {second}. share: of the visits. Each mean is the "
            "policy's own for its own action." + (f" And {hidden:,} more." if hidden > 0 else ""),
        )
    print_line(
        f"{len(result.changes):,} of {result.n_common:,} common contexts changed; the same action "
        f"is played in {rate(result.agreement)} of their visits."
    )
    for name, only in ((first, result.only_in_first), (second, result.only_in_second)):
        if only:
            print_line(f"Contexts only in {name}: {_some(only)}.")


def _some(contexts: Sequence[Label]) -> str:
    """Return the number of contexts and the first few of them, as text."""
    if not contexts:
        return "none"
    return f"{len(contexts):,}, such as {', '.join(map(repr, contexts[:3]))}"
