"""A log as estimators read it: the policy's choices in it, propensities, means and classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError, option
from unswayed.evaluation.population import CLASSES
from unswayed.events import UNKNOWN, Events
from unswayed.policy import Policy
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.log_summary import summarise


def cell_classes(means: FloatArray, choices: IntArray, other: IntArray | None) -> IntArray:
    """Return the class of each cell: played by the policy, two rivals, and all others.

    The first rival is what the baseline plays, if it is a policy, and else the largest mean among
    what the evaluated policy does not play; the second is the next largest.

    >>> cell_classes(np.array([[0.3, 0.2, 0.1, 0.0]]), np.array([1]), None).tolist()
    [1, 0, 2, 3]
    """
    rows = np.arange(len(means))
    classes = np.full(means.shape, CLASSES - 1, dtype=np.int64)
    ranked = means.copy()
    is_known = choices >= 0
    classes[rows[is_known], choices[is_known]] = 0
    ranked[rows[is_known], choices[is_known]] = -np.inf
    for rival in (1, 2):
        best = ranked.argmax(axis=1)
        if rival == 1 and other is not None:
            best = np.where((other >= 0) & (other != choices), other, best)
        is_open = np.isfinite(ranked[rows, best])
        classes[rows[is_open], best[is_open]] = rival
        ranked[rows, best] = -np.inf
    return classes.ravel()


def choices_of(policy: Policy, events: Events) -> tuple[IntArray, tuple[str, ...]]:
    """Return the action that a policy plays in each context, −1 if the log has none like it."""
    if policy.context_labels.type_name != events.context_labels.type_name:
        raise InputError(
            f"the policy's contexts are of type {policy.context_labels.type_name} and the log's of "
            f"type {events.context_labels.type_name}, so no context of the log is known; name the "
            f"right column with {option('--context-column')}."
        )
    actions, is_known = policy.decide_many(events.context_labels)
    choices = events.action_labels.codes(actions)
    notes = []
    visits = np.bincount(events.contexts, minlength=events.n_contexts)
    missing = float(visits[~is_known].sum() / max(visits.sum(), 1))
    if missing > 0.0:
        notes.append(
            f"{missing:.1%} of the visits are to contexts that the policy does not know; it plays "
            "its default action there."
        )
    absent = choices == UNKNOWN
    if absent.any():
        action = actions[int(np.flatnonzero(absent)[0])]
        notes.append(f"the policy plays {action!r}, which the log does not have.")
    return np.where(absent, -1, choices), tuple(notes)


def plain_tallies(events: Events) -> Tallies:
    """Return the log's tallies, every play alike."""
    return tally_events(replace(events, propensities=None)).tallies


def inverse_propensities(
    events: Events, tallies: Tallies, min_propensity: float
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return 1/propensity of each event: as logged, even, or as often as actions were played."""
    if events.propensities is not None:
        clipped = float((events.propensities < min_propensity).mean())
        note = (
            f"{clipped:.2%} of the propensities are below {min_propensity:g} and count as that.",
        )
        return 1.0 / np.maximum(events.propensities, min_propensity), note if clipped else ()
    summary = summarise(tallies, events.context_labels, events.action_labels, alpha=0.0)
    if summary.looks_uniform:
        return np.full(len(events), float(events.n_actions)), ()
    plays = np.bincount(tallies.cells, tallies.plays, tallies.n_cells).reshape(
        events.n_contexts, events.n_actions
    )
    shares = plays / np.maximum(plays.sum(axis=1, keepdims=True), 1.0)
    own = np.maximum(shares[events.contexts, events.actions], min_propensity)
    return 1.0 / own, (
        "the log has no propensities and actions were not played evenly; how often each was played "
        "in its context stands for them, which is right only if users did not choose.",
    )


def cell_means(tallies: Tallies, weights: FloatArray) -> FloatArray:
    """Return weighted mean rewards of all cells; where nothing is known, the context's or log's."""
    own = np.repeat(weights, np.diff(tallies.indptr))
    shape = (tallies.n_contexts, tallies.n_actions)
    plays = np.bincount(tallies.cells, own * tallies.plays, tallies.n_cells).reshape(shape)
    sums = np.bincount(tallies.cells, own * tallies.sums, tallies.n_cells).reshape(shape)
    everywhere = float(sums.sum() / max(float(plays.sum()), 1e-300))
    total = plays.sum(axis=1, keepdims=True)
    of_context = np.where(
        total > 1e-9, sums.sum(axis=1, keepdims=True) / np.maximum(total, 1e-300), everywhere
    )
    return np.where(plays > 1e-9, sums / np.maximum(plays, 1e-300), of_context)
