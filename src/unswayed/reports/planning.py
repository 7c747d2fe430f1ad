"""The picture of docs/planning.md: plays per user against the loss that is accepted.

``python -m unswayed.reports.planning docs/images`` draws it anew, with its data beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from unswayed.limits.planner import PAPER_METHOD, plan_traffic
from unswayed.reports.style import BLUE, GREEN, GREY, ORANGE, STYLE, new_figure, save
from unswayed.storage import make_folder, whole_file

NAME = "planning-plays"
N_CONTEXTS, N_ACTIONS, DELTA = 100, 20, 0.1
FRACTIONS = (0.05, 0.1, 0.2)
TARGETS = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.14)


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


def write_picture(folder: Path) -> list[Path]:
    """Write the picture as SVG and PNG and its data as JSON, and return the files."""
    make_folder(folder)
    rows = planned_plays()
    settings = {"contexts": N_CONTEXTS, "actions": N_ACTIONS, "delta": DELTA}
    data = folder / f"{NAME}.json"
    with whole_file(data) as draft:
        text = json.dumps({"settings": settings, "method": PAPER_METHOD, "plans": rows}, indent=1)
        draft.write_text(text, encoding="utf-8")
    return [*save(draw_plays(rows), folder, NAME), data]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m unswayed.reports.planning FOLDER")
    write_picture(Path(sys.argv[1]))
