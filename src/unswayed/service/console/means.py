"""The context × action map: robust means with their intervals, the naive means beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unswayed.reports.svg import Strip, interval_strip
from unswayed.service.console.markup import Html, colours, number, percent, soft, table, tag

#: Ours: rows and columns that are shown; the route of the policy has all.
_MOST_CONTEXTS, _MOST_ACTIONS = 40, 12


def policy_map(policy: Mapping[str, Any] | None) -> list[Html]:
    """Return the map of a policy, the most visited contexts first."""
    if policy is None:
        return [tag("p", "Nothing was learned yet: all users explore or get the baseline.")]
    cells = policy["mean_rewards"]
    shares = policy["context_probabilities"]
    plain = policy["source"].get("plain_means", {})
    changed = policy["source"].get("changed", {})
    contexts = sorted(cells, key=lambda context: -(shares[context] or 0.0))
    actions = [str(action) for action in policy["actions"]]
    span = _span_of(cells, plain)
    rows = [
        [
            tag(
                "th",
                context,
                tag("div", percent(shares[context]), " of visits", class_="soft small"),
                scope="row",
            ),
            *(
                _cell(
                    cells[context][action],
                    plain.get(context, {}).get(action),
                    span,
                    is_chosen=action == str(policy["policy"][context]),
                    is_naive_choice=action == str(changed.get(context)),
                )
                for action in actions[:_MOST_ACTIONS]
            ),
        ]
        for context in contexts[:_MOST_CONTEXTS]
    ]
    parts = [
        tag("p", _said(len(changed), len(contexts))),
        colours(("robust", "robust mean and its interval"), ("naive", "naive mean")),
        tag(
            "div",
            table("Mean rewards", ["context", *actions[:_MOST_ACTIONS]], rows),
            class_="map",
        ),
        soft(
            "A green edge marks what is played. Coloured cells are where the naive mean lies "
            "outside the interval, or would be chosen instead. What is ruled out is not played, "
            "whatever its mean: at worst another action is better."
        ),
    ]
    if len(contexts) > _MOST_CONTEXTS or len(actions) > _MOST_ACTIONS:
        parts.append(
            soft(
                f"Of {len(contexts):,} contexts and {len(actions):,} actions; the policy's route "
                "has all of them."
            )
        )
    return parts


def _said(n_changed: int, n_contexts: int) -> str:
    if not n_changed:
        return "Naive means would decide the same in every context."
    return f"Naive means would decide differently in {n_changed:,} of {n_contexts:,} contexts."


def _span_of(
    cells: Mapping[str, Mapping[str, Any]], plain: Mapping[str, Mapping[str, float]]
) -> tuple[float, float]:
    """Return what all means lie in, with some room: intervals may be much wider."""
    means = [cell["mean"] for row in cells.values() for cell in row.values()]
    means += [mean for row in plain.values() for mean in row.values()]
    known = [mean for mean in means if mean is not None] or [0.0]
    low, high = min(known), max(known)
    room = 0.25 * ((high - low) or 1.0)
    return low - room, high + room


def _cell(
    cell: Mapping[str, Any],
    naive: float | None,
    span: tuple[float, float],
    *,
    is_chosen: bool,
    is_naive_choice: bool,
) -> Html:
    mean, low, high = cell["mean"], cell["low"], cell["high"]
    if mean is None:
        return tag("td", "not played", class_="soft")
    is_outside = naive is not None and (
        (low is not None and naive < low) or (high is not None and naive > high)
    )
    kinds = " ".join(
        kind
        for kind, holds in (("chosen", is_chosen), ("differs", is_outside or is_naive_choice))
        if holds
    )
    interval = (
        "no bound"
        if cell.get("bound") and low is None and high is None
        else tag("span", number(low), " to ", number(high))
    )
    return tag(
        "td",
        tag("b", number(mean), class_="robust-mean"),
        tag("span", " played", class_="soft small") if is_chosen else None,
        tag("span", " ruled out", class_="soft small") if cell.get("excluded") else None,
        Html(interval_strip(Strip(mean, low, high, naive), span, title="mean and interval")),
        tag("div", interval, class_="soft small"),
        tag("div", "naive ", number(naive), class_="naive-text small"),
        tag("div", "naive choice", class_="naive-text small") if is_naive_choice else None,
        class_=kinds or None,
    )
