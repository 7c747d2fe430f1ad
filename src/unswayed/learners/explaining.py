"""What a learner found, by the labels of contexts and actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from unswayed.events import Label
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.policy import Policy, best_known
from unswayed.tallies import UserTallies


def plain_actions(tallies: UserTallies) -> IntArray:
    """Return the action with the largest plain mean reward in each context; shape (n_contexts,)."""
    counts, sums = tallies.cell_sums("counts"), tallies.cell_sums("sums")
    return best_known(np.where(counts > 0, sums / np.maximum(counts, 1e-300), np.nan))


def changed_decisions(policy: Policy, plain: IntArray) -> dict[str, Label]:
    """Return, for the contexts that plain means decide otherwise, what they would choose."""
    changed = np.flatnonzero(policy.is_learned & (policy.actions != plain))
    return {
        str(policy.context_labels[int(s)]): policy.action_labels[int(plain[s])] for s in changed
    }


def named_lies(lies: list[dict[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    """Return what coalitions lied about, by labels.

    Each has ``direction`` ("up" or "down"), ``accounts``, their estimated number, ``actions``, and
    ``by_context`` if they lied about another action in each.
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
        }
        if len(codes) > 1:
            found["by_context"] = {
                str(policy.context_labels[int(s)]): policy.action_labels[int(a)]
                for s, a in zip(contexts, actions, strict=True)
            }
        named.append(found)
    return named


def leads(policy: Policy) -> tuple[IntArray, FloatArray]:
    """Return the runner-up of each context and by how much the chosen action leads it.

    The runner-up is −1, and the lead NaN, where nothing is known of a second action.
    """
    rows = np.arange(len(policy.mean_rewards))
    others = policy.mean_rewards.copy()
    others[rows, policy.actions] = np.nan
    second = best_known(others)
    lead = policy.mean_rewards[rows, policy.actions] - others[rows, second]
    return np.where(np.isnan(lead), -1, second), lead


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _at(table: FloatArray | None, *place: int) -> float | None:
    return None if table is None else _number(float(table[place]))


def decision_rows(policy: Policy) -> list[dict[str, Any]]:
    """Return one row a context, the most visited first: what is chosen, and over what.

    ``naive`` is what the mean over all users would choose, if that is something else. The interval
    comes with its two parts, ``sampling_error`` and ``bias_bound``. ``withstands`` is the share of
    accounts whose change cannot change the decision, ``falls_to`` one whose replacement did.
    Numbers that are not known, and ends of intervals without a bound, are None.
    """
    changed = policy.source.get("changed", {})
    seconds, lead = leads(policy)
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
                "mean": _number(decision.mean),
                "low": _number(decision.low),
                "high": _number(decision.high),
                "runner_up": None if second < 0 else policy.action_labels[second],
                "lead": _number(float(lead[code])),
                "naive": changed.get(str(context)),
                "sampling_error": _at(policy.sampling_errors, code, action),
                "bias_bound": (
                    None
                    if policy.sampling_errors is None
                    else _at(policy.bias_bounds, code, action)
                ),
                "withstands": _at(policy.flip_fraction, code),
                "falls_to": _at(policy.flip_fraction_upper, code),
            }
        )
    return rows
