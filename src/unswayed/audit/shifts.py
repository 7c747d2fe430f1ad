"""How far accounts that count less have moved items and decisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.log import named_briefly
from unswayed.audit.results import ChangedDecision, ItemShift
from unswayed.events import Labels
from unswayed.tallies import Tallies, UserTallies, entry_users

MOST_ITEMS = 100
"""Ours: maximum number of listed items."""

CLEAR_SHIFT = 2.0
"""Ours: an item is listed if it was moved by so many standard errors of its mean."""

RELATIVE = 0.1
"""Ours: minimum shift relative to the largest one."""


def weighted_cells(
    tallies: UserTallies, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return plays, sums and sums of squares of all cells, accounts weighed; shape (S, A) each."""
    total = tallies.blocks.add_blocks(_sums, rows=weights)
    shape = (tallies.n_contexts, tallies.n_actions)
    return total[0].reshape(shape), total[1].reshape(shape), total[2].reshape(shape)


def _sums(tallies: Tallies, weights: FloatArray) -> FloatArray:
    own = weights[entry_users(tallies.indptr)]
    per_play = tallies.plays / tallies.counts
    columns = (tallies.plays, tallies.sums * per_play, tallies.squares * per_play)
    return np.stack([np.bincount(tallies.cells, own * c, tallies.n_cells) for c in columns])


def item_shifts(tallies: UserTallies, weights: FloatArray, labels: Labels) -> tuple[ItemShift, ...]:
    """Return the items that were moved clearly, the farthest first.

    An item's mean is over its contexts, as often as each was met with the item; the robust one
    weighs accounts and keeps these shares. Without accounts that count less nothing is moved.
    """
    if weights.min(initial=1.0) >= 1.0:
        return ()
    plays, sums, squares = weighted_cells(tallies, np.ones_like(weights))
    kept, kept_sums, _ = weighted_cells(tallies, weights)
    means = sums / np.maximum(plays, 1e-300)
    robust = np.where(kept > 1e-9, kept_sums / np.maximum(kept, 1e-300), means)
    total = plays.sum(axis=0)
    naive_mean = (plays * means).sum(axis=0) / np.maximum(total, 1.0)
    robust_mean = (plays * robust).sum(axis=0) / np.maximum(total, 1.0)
    variances = squares.sum(axis=0) / np.maximum(total, 1.0) - naive_mean**2
    errors = np.sqrt(np.maximum(variances, 0.0) / np.maximum(total, 1.0))
    shifts = naive_mean - robust_mean
    is_clear = (np.abs(shifts) > CLEAR_SHIFT * errors) & (total > 0)
    is_clear &= np.abs(shifts) >= RELATIVE * np.abs(shifts[is_clear]).max(initial=0.0)
    order = np.argsort(-np.abs(shifts), kind="stable")
    return tuple(
        ItemShift(
            action=labels[a],
            shift=float(shifts[a]),
            direction="up" if shifts[a] > 0 else "down",
            naive=float(naive_mean[a]),
            robust=float(robust_mean[a]),
            plays=int(total[a]),
        )
        for a in order[is_clear[order]][:MOST_ITEMS].tolist()
    )


def moved_items(items: Sequence[ItemShift]) -> str:
    """Return which items were raised and which lowered, in words; nothing without any."""
    parts = [
        f"{verb} {named_briefly(names)}"
        for verb, names in (
            ("raise", [item.action for item in items if item.shift > 0]),
            ("lower", [item.action for item in items if item.shift < 0]),
        )
        if names
    ]
    return " and ".join(parts)


def changed_decisions(
    naive: IntArray,
    robust: IntArray,
    means: FloatArray,
    context_probabilities: FloatArray,
    is_learned: BoolArray,
    context_labels: Labels,
    action_labels: Labels,
) -> tuple[ChangedDecision, ...]:
    """Return where plain means choose something else, the dearest first.

    A visit loses the difference of the robust means of both actions; nothing is known of it where
    the plain choice has none.
    """
    changes = []
    for s in np.flatnonzero((naive != robust) & is_learned).tolist():
        cost = float(means[s, robust[s]] - means[s, naive[s]])
        changes.append(
            ChangedDecision(
                context=context_labels[s],
                naive=action_labels[int(naive[s])],
                robust=action_labels[int(robust[s])],
                cost=max(cost, 0.0) if np.isfinite(cost) else 0.0,
                share=float(context_probabilities[s]),
            )
        )
    return tuple(sorted(changes, key=lambda change: -change.cost * change.share))
