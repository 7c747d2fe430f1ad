"""The picture of docs/learn.md: what was learned of one context, and what averages say.

``python -m unswayed.demo.estimates docs/images`` draws it anew, with its data beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from unswayed.demo.shop import ADVERSARIAL_FRACTION, CONTEXTS, ITEMS, PURCHASE_RATES, play
from unswayed.events import Events
from unswayed.learners.robust_mcb import RobustMCB
from unswayed.reports.style import BLACK, BLUE, ORANGE, STYLE, new_figure, save
from unswayed.storage import make_folder, whole_file

NAME = "learn-estimates"
CONTEXT = "lunch"


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


def write_picture(folder: Path) -> list[Path]:
    """Write the picture as SVG and PNG and its data as JSON, and return the files."""
    make_folder(folder)
    rows = estimates(play().log)
    data = folder / f"{NAME}.json"
    with whole_file(data) as draft:
        draft.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return [*save(draw_estimates(rows), folder, NAME), data]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m unswayed.demo.estimates FOLDER")
    write_picture(Path(sys.argv[1]))
