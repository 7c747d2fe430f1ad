"""A policy in a notebook: a table of its decisions, and a picture of its estimates."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from unswayed.errors import InputError
from unswayed.visible import LABEL_LENGTH, percent, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unswayed.policy.policy import Policy

#: Ours: contexts that are shown, the most visited first.
MOST_SHOWN = 10

#: Okabe and Ito's blue and orange, as in all our figures.
_CHOSEN, _OTHER = "#0072B2", "#E69F00"


def visited_first(policy: Policy) -> list[int]:
    """Return the codes of the contexts that are shown, the most visited first."""
    order: list[int] = (-policy.context_probabilities).argsort(kind="stable").tolist()
    return order[:MOST_SHOWN]


def html_table(policy: Policy) -> str:
    """Return the decisions in the most visited contexts as an HTML table."""
    rows = [["context", "share of visits", "action", "mean", "at least", "at most"]]
    for code in visited_first(policy):
        context = policy.context_labels[code]
        decision = policy.decide(context)
        rows.append(
            [
                str(context),
                percent(float(policy.context_probabilities[code])),
                str(decision.action),
                *(_shown(value) for value in (decision.mean, decision.low, decision.high)),
            ]
        )
    lines = [
        "<tr>" + "".join(f"<{tag}>{escape(_text(cell))}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(["th", *["td"] * len(rows)], rows, strict=False)
    ]
    hidden = len(policy.context_labels) - MOST_SHOWN
    more = f"<p>… and {hidden:,} more contexts.</p>" if hidden > 0 else ""
    return f"<p>{escape(repr(policy))}</p><table>{''.join(lines)}</table>{more}"


def draw_estimates(policy: Policy, axes: Axes | None) -> Axes:
    """Draw mean and interval of every action in the most visited contexts."""
    if axes is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise InputError(
                "pictures need matplotlib: install unswayed with the extra 'plots'."
            ) from error
        n_rows = len(visited_first(policy)) * len(policy.action_labels)
        _, axes = pyplot.subplots(figsize=(7.0, 1.0 + 0.22 * n_rows), layout="constrained")
    names: list[str] = []
    for code in visited_first(policy):
        for action in np.argsort(-policy.capped_means[code], kind="stable").tolist():
            if np.isnan(mean := float(policy.mean_rewards[code, action])):
                continue
            is_chosen = action == policy.actions[code]
            ends = policy.low[code, action], policy.high[code, action]
            if np.isfinite(ends).all():
                axes.hlines(len(names), *ends, color="#999999", linewidth=1)
            colour = _CHOSEN if is_chosen else _OTHER
            axes.plot(mean, len(names), marker="o" if is_chosen else ".", color=colour)
            names.append(_text(f"{policy.context_labels[code]}: {policy.action_labels[action]}"))
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("mean reward for honest users; large blue: chosen; grey: worst case")
    return axes


def _shown(value: float) -> str:
    if np.isinf(value):
        return "no bound"
    return "-" if np.isnan(value) else f"{value:.4g}"


def _text(value: Any) -> str:
    return visible(str(value), most=LABEL_LENGTH)
