"""What a policy plays in the contexts of a log, and how likely the logged actions were."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError, option
from unswayed.events import UNKNOWN, Columns, Events, Label, read_events
from unswayed.events.sources import Source
from unswayed.policy import Policy
from unswayed.tallies import Tallies
from unswayed.tallies.log_summary import summarise

PROBABILITY = "probability"
"""Column of a table of a stochastic policy, beside those of the context and the action."""


def choices_of(policy: Policy, events: Events) -> tuple[FloatArray, tuple[str, ...]]:
    """Return how likely each action is, and notes; rows of actions that the log lacks are zero.

    The probabilities have shape (n_contexts, n_actions), in codes of the log.
    """
    _check_contexts(policy.context_labels.type_name, events)
    actions, is_known = policy.decide_many(events.context_labels)
    notes = []
    visits = np.bincount(events.contexts, minlength=events.n_contexts)
    missing = float(visits[~is_known].sum() / max(visits.sum(), 1))
    if missing > 0.0:
        notes.append(
            f"{missing:.1%} of the visits are to contexts that the policy does not know; it plays "
            "its default action there."
        )
    if policy.personal is not None or policy.groups is not None:
        notes.append("the common policy is evaluated, without decisions of single users or groups.")
    return _coded(events, list(events.context_labels), actions, np.ones(len(actions)), notes)


def stochastic_choices(
    table: Source, events: Events, columns: Columns
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the same of a table with a context, an action and its probability in each row."""
    rows = read_events(
        table,
        columns=Columns(
            user=columns.action,
            context=columns.context,
            action=columns.action,
            reward=PROBABILITY,
        ),
    ).events
    _check_contexts(rows.context_labels.type_name, events)
    totals = np.bincount(rows.contexts, rows.rewards, rows.n_contexts)
    is_wrong = (np.abs(totals - 1.0) > 1e-6) | (
        np.bincount(rows.contexts, rows.rewards < 0.0, rows.n_contexts) > 0
    )
    if is_wrong.any():
        context = rows.context_labels[int(is_wrong.argmax())]
        raise InputError(
            f"the probabilities of context {context!r} add up to {totals[is_wrong.argmax()]:.6g}; "
            "they must not be negative and must add up to 1."
        )
    for context in events.context_labels:
        if context not in rows.context_labels:
            raise InputError(
                f"the policy's table has no row for context {context!r}, which the log has; add "
                "its actions with their probabilities."
            )
    contexts = [rows.context_labels[s] for s in rows.contexts.tolist()]
    actions = [rows.action_labels[a] for a in rows.actions.tolist()]
    return _coded(events, contexts, actions, rows.rewards, [])


def _check_contexts(type_name: str, events: Events) -> None:
    if type_name != events.context_labels.type_name:
        raise InputError(
            f"the policy's contexts are of type {type_name} and the log's of type "
            f"{events.context_labels.type_name}, so no context of the log is known; name the right "
            f"column with {option('--context-column')}."
        )


def _coded(
    events: Events,
    contexts: list[Label],
    actions: list[Label],
    probabilities: FloatArray,
    notes: list[str],
) -> tuple[FloatArray, tuple[str, ...]]:
    rows, columns = events.context_labels.codes(contexts), events.action_labels.codes(actions)
    is_absent = (columns == UNKNOWN) & (probabilities > 0.0)
    if is_absent.any():
        action = actions[int(is_absent.argmax())]
        notes.append(f"the policy plays {action!r}, which the log does not have.")
    is_here = (rows != UNKNOWN) & (columns != UNKNOWN)
    found = np.zeros((events.n_contexts, events.n_actions))
    np.add.at(found, (rows[is_here], columns[is_here]), probabilities[is_here])
    return found, tuple(notes)


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
    plays = tallies.cell_sums("plays")
    shares = plays / np.maximum(plays.sum(axis=1, keepdims=True), 1.0)
    own = np.maximum(shares[events.contexts, events.actions], min_propensity)
    return 1.0 / own, (
        "the log has no propensities and actions were not played evenly; how often each was played "
        "in its context stands for them, which is right only if users did not choose.",
    )
