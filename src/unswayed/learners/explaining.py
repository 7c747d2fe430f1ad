"""Describe the results of learning in tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.events import Label, Provenance
from unswayed.events.thinning import SECONDS
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.learners.options import LearnOptions
from unswayed.policy import Policy, best_known
from unswayed.policy.documents import json_number
from unswayed.tallies import UserTallies
from unswayed.tallies.log_data import PreparedLog
from unswayed.tallies.log_summary import LogSummary
from unswayed.visible import counted


def plain_actions(tallies: UserTallies) -> IntArray:
    """Return the action with the largest plain mean reward in each context; shape (n_contexts,)."""
    counts, sums = tallies.cell_sums("counts"), tallies.cell_sums("sums")
    return best_known(np.where(counts > 0, sums / np.maximum(counts, 1e-300), np.nan))


def changed_decisions(policy: Policy, plain: IntArray) -> dict[str, Label]:
    """Return the action with the largest plain mean for each context with a different decision."""
    changed = np.flatnonzero(policy.is_learned & (policy.actions != plain))
    return {
        str(policy.context_labels[int(s)]): policy.action_labels[int(plain[s])] for s in changed
    }


def named_lies(lies: list[dict[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    """Describe the detected lies, with labels of contexts and actions.

    Each has a ``direction`` ("up" or "down"), the estimated number of ``accounts``, the
    ``actions``, and ``by_context`` if the action differs between contexts. If the method reports
    them, ``status`` ("flagged" or "suspected"), the evidence in ``nats`` and the number of
    decisions ``turned`` are included.
    """
    named = []
    for lie in lies:
        contexts, actions = np.divmod(np.array(lie["cells"]), len(policy.action_labels))
        is_played = policy.counts[contexts, actions] > 0
        contexts, actions = contexts[is_played], actions[is_played]
        codes = np.unique(actions)
        found: dict[str, Any] = {
            "direction": "up" if lie["raises"] else "down",
            "accounts": round(lie["accounts"], 1),
            "contexts": len(contexts),
            "actions": [policy.action_labels[int(a)] for a in codes],
            **{key: lie[key] for key in ("status", "nats", "turned") if key in lie},
        }
        if len(codes) > 1:
            found["by_context"] = {
                str(policy.context_labels[int(s)]): policy.action_labels[int(a)]
                for s, a in zip(contexts, actions, strict=True)
            }
        named.append(found)
    return named


def is_suspected(lie: Mapping[str, Any]) -> bool:
    """Return whether a lie is only suspected, so that its accounts still count."""
    return bool(lie.get("status") == "suspected")


def leads(policy: Policy) -> tuple[IntArray, FloatArray]:
    """Return the runner-up of each context, and the chosen action's lead over it.

    The runner-up is the largest other mean that is not excluded, or otherwise the largest one below
    the chosen action's. A lead is negative if the chosen action does not have the larger mean.
    Without a second known action the runner-up is −1 and the lead NaN.
    """
    rows = np.arange(len(policy.mean_rewards))
    others, chosen = policy.mean_rewards.copy(), policy.mean_rewards[rows, policy.actions]
    others[rows, policy.actions] = np.nan
    if policy.is_excluded is not None:
        is_last = (np.isnan(others) | policy.is_excluded).all(axis=1, keepdims=True)
        is_below = others <= chosen[:, None]
        others[policy.is_excluded & ~(is_last & is_below)] = np.nan
    second = best_known(others)
    lead = chosen - others[rows, second]
    return np.where(np.isnan(lead), -1, second), lead


def _at(table: FloatArray | None, *place: int) -> float | None:
    return None if table is None else json_number(float(table[place]))


def decision_rows(policy: Policy) -> list[dict[str, Any]]:
    """Return one row per context, the most visited first: the decision and its alternatives.

    ``naive`` is the action with the largest plain mean, if it differs; ``excluded`` lists the
    actions excluded by worst-case intervals, whatever their means. The interval comes with its two
    parts, ``sampling_error`` and ``bias_bound``. No share of accounts up to ``withstands`` can
    change the decision; replacing a share ``falls_to`` of them did change it. Unknown numbers, and
    infinite ends of intervals, are None.
    """
    changed = policy.source.get("changed", {})
    seconds, lead = leads(policy)
    excluded: list[list[int]] = [[] for _ in range(len(policy.context_labels))]
    if policy.is_excluded is not None:
        excluded = [np.flatnonzero(row).tolist() for row in policy.is_excluded]
    parts = None if policy.sampling_errors is None else policy.bias_bounds
    rows = []
    for code in (-policy.context_probabilities).argsort(kind="stable").tolist():
        context = policy.context_labels[code]
        decision = policy.decide(context)
        second, action = int(seconds[code]), int(policy.actions[code])
        rows.append(
            {
                "code": code,
                "context": context,
                "share": float(policy.context_probabilities[code]),
                "action": decision.action,
                "mean": json_number(decision.mean),
                "low": json_number(decision.low),
                "high": json_number(decision.high),
                "runner_up": None if second < 0 else policy.action_labels[second],
                "lead": json_number(float(lead[code])),
                "naive": changed.get(str(context)),
                "excluded": [policy.action_labels[a] for a in excluded[code]],
                "sampling_error": _at(policy.sampling_errors, code, action),
                "bias_bound": _at(parts, code, action),
                "withstands": _at(policy.flip_fraction, code),
                "falls_to": _at(policy.flip_fraction_upper, code),
            }
        )
    return rows


EXAMPLES = 3  # Maximum number of contexts named in a note
WORTH_SAYING = 0.001  # Shares below this are not mentioned
# Ours: a cap on interactions is suggested from this ratio on; the paper assumes O(1)
LARGE_RATIO = 20.0


def notes_on_bad_rows(provenance: Provenance) -> tuple[str, ...]:
    """Return a note on dropped rows, if any."""
    bad = provenance.bad_rows
    if not bad:
        return ()
    reasons = "; ".join(f"{count:,}: {reason}" for reason, count in bad.items())
    return (f"rows left out: {sum(bad.values()):,} ({reasons}).",)


def notes_on_log(log: PreparedLog, options: LearnOptions) -> tuple[str, ...]:
    """Return notes on the log that was read, and on the weights of its events."""
    notes = list(notes_on_bad_rows(log.provenance)) if log.is_new else []
    least, cap = options.min_propensity, options.max_interactions_per_user
    if log.n_clipped is not None:
        use = (
            "propensities are used to check how actions were explored; the default method does not "
            "weight events by them"
            if options.method == DEFAULT_METHOD
            else "events are weighted by 1/propensity"
        )
        share = log.n_clipped / max(log.provenance.n_events, 1)
        clipped = f"{share:.2%} of the propensities are below {least:g}"
        notes.append(f"{use}; {clipped} and count as that." if share else f"{use}.")
    if cap is not None:
        notes.append(
            f"{counted(log.n_users_capped, 'user')} had more than {cap:,} interactions; a "
            f"sample of as many was kept of each, and {counted(log.n_events_capped, 'event')} "
            "left out."
        )
    if log.n_logs is not None and options.tallies is not None:
        notes.append(f"learned from {counted(log.n_logs, 'log')} in {options.tallies}.")
    if options.half_life is not None:
        notes.append(
            f"with a half-life of {_shown_time(float(options.half_life))} "
            f"{log.n_events_forgotten:,} events were forgotten; older ones count less often."
        )
    return tuple(notes)


def _shown_time(length: float) -> str:
    """Return a duration in readable form.

    >>> [_shown_time(length) for length in (604800.0, 86400.0, 86399.0, 5400.0, 3599.0, 20.0)]
    ['7d', '1d', '24h', '1.5h', '3599', '20']
    """
    unit = next((unit for unit in "dh" if length >= SECONDS[unit]), None)
    return f"{length:g}" if unit is None else f"{length / SECONDS[unit]:.3g}{unit}"


def notes_on_summary(summary: LogSummary) -> tuple[str, ...]:
    """Return warnings about properties of a log that make its policy less reliable."""
    notes = []
    if summary.interaction_ratio > LARGE_RATIO:
        notes.append(
            f"the most active user has {summary.interaction_ratio:,.0f} times the interactions of "
            "the least active; guarantees weaken with that ratio, and a cap on interactions per "
            "user bounds it."
        )
    if not summary.looks_uniform:
        advice = (
            "the propensities do not fit the log; check them"
            if summary.is_weighted
            else "give a propensity column if the log was not explored uniformly"
        )
        notes.append(
            f"actions do not look uniformly explored (p = {summary.uniform_p_value:.1g}); {advice}."
        )
    if summary.never_played:
        context, action = summary.never_played[0]
        notes.append(
            f"some actions were never played in some contexts, for instance {action!r} in "
            f"{context!r}; they have no estimate there."
        )
    if summary.unsupported:
        notes.append(
            "where some actions have no support, the ranking of the others is right, but their "
            "means are too large by the ratio of all actions to those that could be played."
        )
    if summary.n_rare_contexts:
        examples = ", ".join(map(repr, summary.rarest_contexts))
        notes.append(
            f"contexts too rare for a sound decision: {summary.n_rare_contexts:,} "
            f"({summary.rare_share:.1%} of the events), for instance {examples}."
        )
    return tuple(notes)


def notes_on_policy(policy: Policy, source: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the findings, their effects, and the open decisions, one sentence each."""
    evidence = source["evidence"]
    notes = [_note_on_lie(lie) for lie in evidence.get("lies", []) if lie["actions"]]
    undecided = evidence.get("undecided", [])
    if undecided:
        notes.append(
            f"decisions that depend on whether suspected accounts are honest: {len(undecided):,}, "
            f"for instance in {_examples(undecided)}; each minimises the largest regret."
        )
    changed, n_contexts = source["changed"], len(policy.context_labels)
    if changed:
        notes.append(
            f"decisions that differ from plain means: {len(changed):,} of {n_contexts:,}, for "
            f"instance {_examples(changed)}."
        )
    rows, (_, lead) = np.arange(n_contexts), leads(policy)
    found: list[tuple[BoolArray, str]] = [(lead < 0, "that are not the largest mean")]
    if policy.is_excluded is not None:
        is_out = policy.is_excluded[rows, best_known(policy.mean_rewards)]
        found.append((is_out, "whose largest mean is ruled out by worst-case intervals"))
    if policy.sampling_errors is not None:
        is_close = (lead >= 0) & (lead < policy.sampling_errors[rows, policy.actions])
        found.append((is_close, "whose lead over the runner-up is within sampling error"))
    for is_met, what in found:
        if is_met.any():
            names = list(map(str, policy.context_labels.values[is_met]))
            share = f"{len(names):,} of {n_contexts:,}"
            notes.append(f"decisions {what}: {share}, for instance in {_examples(names)}.")
    if evidence.get("bounded", 0.0) > WORTH_SAYING:
        notes.append(
            f"{evidence['bounded']:.1%} of the plays do not count: repeated plays of an account in "
            "a cell count less, and no account counts more than three times the average one."
        )
    if evidence.get("cut", 0.0) > WORTH_SAYING:
        notes.append(
            f"{evidence['cut']:.1%} of the rewards lie beyond the tail of most users' rewards and "
            "were clipped to it."
        )
    return tuple(notes)


def _note_on_lie(lie: Mapping[str, Any]) -> str:
    verb = "raise" if lie["direction"] == "up" else "lower"
    contexts = counted(lie["contexts"], "context")
    what = f"{lie['actions'][0]!r} in {contexts}"
    if "by_context" in lie:
        items = [f"{a!r} in {s}" for s, a in list(lie["by_context"].items())[:EXAMPLES]]
        what = f"one action in each of {contexts}, such as {', '.join(items)}"
    group = f"a group of about {counted(lie['accounts'], 'account')}"
    if is_suspected(lie):
        return (
            f"{group} may {verb} {what}; it still counts, and "
            f"{counted(lie['turned'], 'decision') if lie['turned'] else 'no decision'} "
            f"{'depend' if lie['turned'] > 1 else 'depends'} on whether it is honest."
        )
    return f"{group} {verb}s {what}; it no longer counts."


def _examples(names: Mapping[str, Any] | list[str]) -> str:
    return ", ".join(repr(name) for name in list(names)[:EXAMPLES])
