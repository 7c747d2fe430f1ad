"""A policy's actions beside the rows of a file."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unswayed.errors import InputError, option
from unswayed.events import read_contexts
from unswayed.events.sources import Source
from unswayed.policy import Policy


def _how_it_was_read(policy: Policy) -> tuple[list[str], dict[str, tuple[float, ...]]]:
    """Return the context columns of the log that a policy was learned from, and their bins."""
    try:
        read = policy.source.get("read", {})
        names = [str(name) for name in read.get("columns", {}).get("context", ())]
        bins = {
            str(column): tuple(float(edge) for edge in edges)
            for column, edges in read.get("bins", {}).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"the policy is damaged: what it says of its log cannot be read ({error}); name the "
            f"context columns with {option('--column', python='columns')}."
        ) from error
    return names, bins


def predicted_table(
    policy: Policy,
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    memory: int | None = None,
) -> tuple[pa.Table, int]:
    """Return the rows with the policy's actions, and how many contexts are not known.

    The new columns are ``action`` and ``is_known``; rows that have columns of these names, as a log
    does, keep them, and the new ones are ``policy_action`` and ``policy_is_known``. Without
    columns, those are read that the policy was learned from, cut into the same bins.
    """
    learned_from, bins = _how_it_was_read(policy)
    names = columns or learned_from or ["context"]
    found = read_contexts(source, columns=names, bins=bins, memory=memory)
    names_taken = found.rows.column_names
    action, known = "action", "is_known"
    if action in names_taken or known in names_taken:
        action, known = f"policy_{action}", f"policy_{known}"
    for name in (action, known):
        if name in names_taken:
            raise InputError(f"the rows have a column {name!r} already; rename or drop it first.")
    # A missing context is no label, so the policy does not know it.
    actions, is_known = policy.decide_many("" if s is None else s for s in found.contexts)
    is_missing = [context is None for context in found.contexts]
    default = policy.action_labels[policy.default_action]
    table = found.rows.append_column(
        action,
        pa.array([default if no else a for a, no in zip(actions, is_missing, strict=True)]),
    )
    is_known = is_known & ~pa.array(is_missing, pa.bool_()).to_numpy(zero_copy_only=False)
    return table.append_column(known, pa.array(is_known)), int((~is_known).sum())
