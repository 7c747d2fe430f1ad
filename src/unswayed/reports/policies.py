"""Policies as tables: cells, users, predictions for the rows of a file, differences between two."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from unswayed.errors import InputError
from unswayed.events import Label
from unswayed.policy import Policy
from unswayed.policy.documents import json_number
from unswayed.policy.policy import read_codes
from unswayed.storage import check_writable, whole_file

if TYPE_CHECKING:
    from unswayed.events.sources import Source

TABLE_FORMATS = (".csv", ".parquet", ".json")

#: Characters by which spreadsheets recognise formulas: https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = r"\A[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}']"
_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"


@dataclass(frozen=True, slots=True)
class Change:
    """A context in which two policies differ, with each one's estimate for its own action."""

    context: Label
    before: Label
    after: Label
    mean_before: float
    mean_after: float
    probability: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two policies.

    ``agreement`` is the share of visits on which both policies choose the same action, by the
    second policy's context probabilities.
    """

    n_common: int
    changes: tuple[Change, ...]
    only_in_first: tuple[Label, ...]
    only_in_second: tuple[Label, ...]
    agreement: float


def compare_policies(first: Policy, second: Policy) -> Comparison:
    """Compare two policies; contexts are sorted by their share of the visits."""
    if first.context_labels.type_name != second.context_labels.type_name:
        raise InputError(
            f"the contexts are of different types ({first.context_labels.type_name} and "
            f"{second.context_labels.type_name}), so the policies cannot be compared."
        )
    common = [label for label in second.context_labels if label in first.context_labels]
    probabilities = dict(
        zip(second.context_labels, second.context_probabilities.tolist(), strict=True)
    )
    decided = [(first.decide(context), second.decide(context)) for context in common]
    changes = [
        Change(s, before.action, after.action, before.mean, after.mean, probabilities[s])
        for s, (before, after) in zip(common, decided, strict=True)
        if before.action != after.action
    ]
    total = sum(probabilities[context] for context in common)
    changed = sum(change.probability for change in changes)
    return Comparison(
        n_common=len(common),
        changes=tuple(sorted(changes, key=lambda change: -change.probability)),
        only_in_first=tuple(s for s in first.context_labels if s not in second.context_labels),
        only_in_second=tuple(s for s in second.context_labels if s not in first.context_labels),
        agreement=1.0 - changed / total if total > 0 else float("nan"),
    )


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as CSV, Parquet or JSON (a list of rows), by the ending of the file's name."""
    check_table(path)
    with whole_file(path) as draft:
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(without_formulas(table), draft)
        elif path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, draft)
        else:
            rows = [
                {name: json_number(x) if isinstance(x, float) else x for name, x in row.items()}
                for row in table.to_pylist()
            ]
            text = json.dumps(rows, indent=1, ensure_ascii=False, default=dt.datetime.isoformat)
            draft.write_text(text + "\n", encoding="utf-8")


def without_formulas(table: pa.Table) -> pa.Table:
    """Return a table without text that spreadsheets would interpret as a formula.

    Text that begins with one of ``= + - @``, a tab, a line end or an apostrophe gets an apostrophe
    in front, unless it is a number. Removing one leading apostrophe restores the text.

    >>> without_formulas(pa.table({"user": ["=1+1", "'ann", "-1.5", "bob"]}))["user"].to_pylist()
    ["'=1+1", "''ann", '-1.5', 'bob']
    """
    columns = [
        _quoted_column(column)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        else column
        for column in table.columns
    ]
    names = _quoted_column(pa.chunked_array([pa.array(table.column_names, pa.string())]))
    return pa.table(columns, names=names.to_pylist())


def _quoted_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    begins = pc.match_substring_regex(column, _FORMULA)
    is_number = pc.match_substring_regex(column, _NUMBER)
    quoted = pc.replace_substring_regex(column, r"\A", "'", max_replacements=1)
    return pc.if_else(pc.and_not(begins, is_number), quoted, column)


def check_table(path: Path) -> None:
    """Reject a table that cannot be written, before any work is done for it."""
    if path.suffix not in TABLE_FORMATS:
        raise InputError(
            f"cannot write a table to {path.name}: name a file that ends in .csv, .parquet or "
            ".json."
        )
    check_writable(path)


def predicted_table(
    policy: Policy,
    source: Source,
    *,
    columns: Sequence[str] | None = None,
) -> tuple[pa.Table, int]:
    """Return the rows with the policy's actions, and the number of unknown contexts.

    The new columns are ``action`` and ``is_known``; rows that have columns of these names, as a log
    does, keep them, and the new ones are ``policy_action`` and ``policy_is_known``. By
    default the context columns of the policy are read, with the same bins.
    """
    rows, codes = read_codes(policy, source, columns=columns)
    names_taken = rows.column_names
    action, known = "action", "is_known"
    if action in names_taken or known in names_taken:
        action, known = f"policy_{action}", f"policy_{known}"
    for name in (action, known):
        if name in names_taken:
            raise InputError(f"the rows have a column {name!r} already; rename or drop it first.")
    actions, is_known = policy.decide_codes(codes)
    table = rows.append_column(action, pa.array(actions))
    return table.append_column(known, pa.array(is_known)), int((~is_known).sum())
