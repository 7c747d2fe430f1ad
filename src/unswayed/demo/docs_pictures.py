"""The pictures of docs/learn.md, docs/planning.md and docs/limits.md.

``python -m unswayed.demo.docs_pictures docs/images`` draws them anew, with their data beside them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator, PercentFormatter

from unswayed.demo.shop import ADVERSARIAL_FRACTION, CONTEXTS, ITEMS, PURCHASE_RATES, play
from unswayed.errors import InputError
from unswayed.events import Events
from unswayed.learners.robust_mcb import RobustMCB
from unswayed.limits import (
    CountDistribution,
    binomial_counts,
    largest_two_sided_interactions,
    smallest_two_sided_coalition,
    two_sided_adversaries,
)
from unswayed.limits.planner import PAPER_METHOD, plan_traffic
from unswayed.reports.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    STYLE,
    new_figure,
    save,
    write_figure,
)
from unswayed.storage import make_folder

ESTIMATES, PLAYS = "learn-estimates", "planning-plays"

CONTEXT = "lunch"
"""The context of the café whose items are drawn."""

N_CONTEXTS, N_ACTIONS, DELTA = 100, 20, 0.1
FRACTIONS = (0.05, 0.1, 0.2)
TARGETS = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.14)
"""The campaigns that are planned: sizes, shares of colluders, and losses that are accepted."""


def estimates(log: Events) -> list[dict[str, float | str]]:
    """Return for each item of one context the naive mean, what was learned, and the truth."""
    policy = RobustMCB(ADVERSARIAL_FRACTION).fit(log).policy_
    assert policy.sampling_errors is not None
    s = policy.context_labels.code(CONTEXT)
    rows: list[dict[str, float | str]] = []
    for item, truth in zip(ITEMS, PURCHASE_RATES[CONTEXTS.index(CONTEXT)], strict=True):
        a = policy.action_labels.code(item)
        is_cell = (log.contexts == log.context_labels.code(CONTEXT)) & (
            log.actions == log.action_labels.code(item)
        )
        rows.append(
            {
                "item": item,
                "naive": float(log.rewards[is_cell].mean()),
                "mean": float(policy.mean_rewards[s, a]),
                "sampling_error": float(policy.sampling_errors[s, a]),
                "low": float(policy.low[s, a]),
                "high": float(policy.high[s, a]),
                "truth": truth,
            }
        )
    return rows


def draw_estimates(rows: list[dict[str, float | str]]) -> Figure:
    """Draw them, the best item on top."""
    rows = sorted(rows, key=lambda row: float(row["mean"]))
    places = np.arange(len(rows))

    def column(name: str) -> list[float]:
        return [float(row[name]) for row in rows]

    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=7.6, height=3.8)
        low, high = np.maximum(column("low"), 0.0), np.minimum(column("high"), 1.0)
        ax.hlines(
            places, low, high, color=BLUE, linewidth=1.2, label="interval, worst case included"
        )
        means, errors = np.array(column("mean")), np.array(column("sampling_error"))
        ax.hlines(places, means - errors, means + errors, color=BLUE, linewidth=6, alpha=0.45)
        ax.plot(means, places, "o", color=BLUE, markersize=7, label="learned, with sampling error")
        ax.plot(
            column("naive"),
            places,
            "s",
            color=ORANGE,
            markersize=8,
            fillstyle="none",
            markeredgewidth=2,
            label="mean over all accounts",
        )
        ax.plot(column("truth"), places, "|", color=BLACK, markersize=16, label="honest customers")
        ax.set_yticks(places, [str(row["item"]) for row in rows])
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        ax.set(xlabel=f"purchases per recommendation at {CONTEXT}", xlim=(0, 0.62))
        ax.set_title("A fifth of the accounts buy MegaCola only", loc="left", fontweight="bold")
        ax.legend(frameon=False, loc="lower right", fontsize=9)
    return figure


def planned_plays() -> list[dict[str, Any]]:
    """Return the plan and the lower bound for each share of colluders and each loss below it."""
    probabilities = np.full(N_CONTEXTS, 1.0 / N_CONTEXTS)
    rows = []
    for alpha in FRACTIONS:
        for epsilon in TARGETS:
            if epsilon < alpha:
                plan = plan_traffic(
                    probabilities, N_ACTIONS, alpha, epsilon, DELTA, methods=(PAPER_METHOD,)
                )
                rows.append(
                    {
                        "alpha": alpha,
                        "epsilon": epsilon,
                        "users": plan.n_users,
                        "plays_per_user": plan.methods[0].interactions_per_user,
                        "lower_bound": plan.lower_bound,
                    }
                )
    return rows


def draw_plays(rows: list[dict[str, Any]]) -> Figure:
    """Draw plans as lines, and below each the plays with which no method can do it, dashed."""
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=7.6, height=4.2)
        for alpha, colour in zip(FRACTIONS, (GREEN, BLUE, ORANGE), strict=True):
            own = [row for row in rows if row["alpha"] == alpha]
            targets = [row["epsilon"] for row in own]
            plays = [row["plays_per_user"] for row in own]
            bounds = [max(row["lower_bound"], 1) for row in own]
            ax.plot(targets, plays, "o-", color=colour, linewidth=2.2)
            ax.plot(targets, bounds, "--", color=colour, linewidth=1.2)
            ax.annotate(
                f"{100 * alpha:g}% collude",
                (targets[-1], plays[-1]),
                xytext=(0, -12),
                textcoords="offset points",
                horizontalalignment="center",
                verticalalignment="top",
                color=colour,
                fontweight="bold",
                fontsize=9.5,
            )
        ax.text(
            0.98,
            0.32,
            "dashed: with fewer plays no method can promise it",
            transform=ax.transAxes,
            horizontalalignment="right",
            color=GREY,
            fontsize=9.5,
        )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(TARGETS, [f"{target:g}" for target in TARGETS])
        ax.minorticks_off()
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.set(
            xlabel="loss per visit that is accepted (epsilon)",
            ylabel="plays per user",
            xlim=(TARGETS[0] * 0.93, TARGETS[-1] * 1.15),
        )
        ax.set_title("Half the loss takes four times the plays", loc="left", fontweight="bold")
    return figure


def draw_smallest_coalitions(
    *,
    gaps: tuple[float, float, float] = (0.2, 0.1, 0.05),
    alpha: float = 0.2,
    most_interactions: int = 1000,
) -> Figure:
    """Draw the smallest coalition that can hide a gap against the plays per user.

    Parameters
    ----------
    gaps
        Three gaps over a mean reward of one half, one line each.
    alpha
        A coalition to mark, with the plays up to which it hides each gap.
    most_interactions
        Right end of the axis.
    """
    plays = np.unique(np.geomspace(1, most_interactions, 200).astype(np.int64))
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=7.6, height=4.4)
        ax = axes[0]
        for gap, colour, dashes in zip(gaps, (GREEN, BLUE, ORANGE), ("-", "--", "-."), strict=True):
            ax.plot(
                plays,
                smallest_two_sided_coalition(gap, plays),
                color=colour,
                linestyle=dashes,
                linewidth=2.2,
                label=f"{50 + 100 * gap:g}% like it, not 50%",
            )
            last = int(largest_two_sided_interactions(gap, alpha))
            if last:
                enough = float(smallest_two_sided_coalition(gap, last))
                ax.plot(last, enough, "o", color=colour, markersize=8, zorder=3)
                ax.annotate(
                    f"{last} plays",
                    (last, enough),
                    xytext=(6, -8),
                    textcoords="offset points",
                    verticalalignment="top",
                    fontsize=9,
                )
        ax.axhline(alpha, color=GREY, linewidth=1, linestyle=":")
        ax.text(
            most_interactions,
            alpha + 0.008,
            f"a coalition of {100 * alpha:g}% hides it up to the dots",
            horizontalalignment="right",
            color=GREY,
            fontsize=9,
        )
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        ax.set(
            xlim=(1, most_interactions),
            ylim=(0, 0.52),
            xlabel="plays of the item by each user",
            ylabel="colluders needed to hide that it is better",
        )
        ax.set_title("More plays per user make hiding harder", loc="left", fontweight="bold")
        ax.legend(frameon=False, loc="upper left")
    return figure


def draw_hidden_worlds(
    *,
    gap: float = 0.1,
    interactions: int = 9,
    alpha: float = 0.2,
    base: float = 0.5,
) -> Figure:
    """Draw two worlds that a coalition has made to look alike: good users, colluders, and the sum.

    Parameters
    ----------
    gap, interactions, alpha, base
        As in `two_sided_adversaries`; the coalition must be large enough to hide the gap.
    """
    pair = two_sided_adversaries(gap, interactions, alpha, base=base)
    if pair.ordinary.distance > 0:
        raise InputError(
            f"a coalition of {alpha} cannot hide a gap of {gap} for {interactions} "
            "plays, so there are no two worlds that look alike. Draw fewer plays."
        )
    worlds = (
        (f"The item is ordinary ({100 * base:g}% like it)", base, pair.ordinary),
        (f"The item is better ({100 * (base + gap):g}% like it)", base + gap, pair.better),
    )
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=9.2, height=4.4, panels=2)
        for ax, (title, mean, adversary) in zip(axes, worlds, strict=True):
            good = (1 - alpha) * binomial_counts(interactions, mean).dense()
            bad = alpha * adversary.counts.dense()
            _draw_world(ax, good, bad, pair.observed)
            ax.set_title(title, loc="left", fontweight="bold", fontsize=11)
            ax.set_xlabel(f"likes in {interactions} plays")
        axes[0].set_ylabel("share of users")
        axes[0].legend(frameon=False, loc="upper left", fontsize=9)
    return figure


def _draw_world(ax: Axes, good: np.ndarray, bad: np.ndarray, observed: CountDistribution) -> None:
    likes = np.arange(good.size)
    ax.bar(likes, good, width=0.8, color=BLUE, label="good users")
    ax.bar(
        likes,
        bad,
        width=0.8,
        bottom=good,
        color=ORANGE,
        hatch="//",
        edgecolor="white",
        label="colluders",
    )
    ax.step(
        np.append(likes, good.size) - 0.5,
        np.append(observed.dense(), 0.0),
        where="post",
        color="black",
        linewidth=1.6,
        label="what you see",
    )
    ax.set_xticks(likes)
    ax.yaxis.set_major_locator(MultipleLocator(0.05))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def write_pictures(folder: Path) -> list[Path]:
    """Write all pictures as SVG and PNG, with their data as JSON, and return the files."""
    make_folder(folder)
    items, plans = estimates(play().log), planned_plays()
    settings = {"contexts": N_CONTEXTS, "actions": N_ACTIONS, "delta": DELTA}
    planned = {"settings": settings, "method": PAPER_METHOD, "plans": plans}
    return [
        *write_figure(draw_estimates(items), folder, ESTIMATES, items),
        *write_figure(draw_plays(plans), folder, PLAYS, planned),
        *save(draw_smallest_coalitions(), folder, "limits-smallest-coalition"),
        *save(draw_hidden_worlds(), folder, "limits-hidden-worlds"),
    ]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m unswayed.demo.docs_pictures FOLDER")
    write_pictures(Path(sys.argv[1]))
