"""The picture of the demo: what each learner recommends, and what that costs."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from unswayed.arrays import IntArray
from unswayed.demo.shop import ADVERSARIAL_FRACTION, CONTEXTS, ITEMS, PURCHASE_RATES, Outcome
from unswayed.storage import whole_file

# Okabe and Ito's colours; right and wrong also differ in their signs.
RIGHT, WRONG, TRUTH = "#009E73", "#D55E00", "#56B4E9"


def draw(outcome: Outcome, folder: Path) -> list[Path]:
    """Write shop.png and shop.svg into a folder and return their paths."""
    with mpl.rc_context({"svg.hashsalt": "unswayed", "font.size": 11}):
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=[3, 1.25])
        _draw_recommendations(left, outcome)
        _draw_shares(right, outcome)
        figure.suptitle(
            f"{ADVERSARIAL_FRACTION:.0%} of the accounts buy MegaCola and nothing else",
            fontsize=14,
            fontweight="bold",
        )
        paths = [folder / "shop.png", folder / "shop.svg"]
        with whole_file(paths[0]) as draft:
            figure.savefig(draft, format="png", dpi=150)
        with whole_file(paths[1]) as draft:
            figure.savefig(draft, format="svg", metadata={"Date": None})
    return paths


def _draw_recommendations(ax: Axes, outcome: Outcome) -> None:
    columns: tuple[tuple[str, IntArray], ...] = (
        ("honest customers\nlike best", outcome.best),
        ("a naive bandit\nrecommends", outcome.naive),
        ("unswayed\nrecommends", outcome.robust),
    )
    n_rows = len(CONTEXTS)
    for x, (title, items) in enumerate(columns):
        ax.text(x + 0.5, n_rows + 0.1, title, ha="center", va="bottom", fontweight="bold")
        for row, item in enumerate(items):
            y = n_rows - 1 - row
            is_right = bool(item == outcome.best[row])
            colour, sign = (TRUTH, "") if x == 0 else (RIGHT, "✓ ") if is_right else (WRONG, "✗ ")
            box = FancyBboxPatch(
                (x + 0.05, y + 0.08),
                0.9,
                0.84,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor=colour,
                alpha=0.22 if x == 0 else 0.3,
                edgecolor=colour,
                linewidth=1.4,
            )
            ax.add_patch(box)
            rate = PURCHASE_RATES[row][int(item)]
            ax.text(x + 0.5, y + 0.6, f"{sign}{ITEMS[int(item)]}", ha="center", va="center")
            ax.text(
                x + 0.5,
                y + 0.27,
                f"bought by {rate:.0%}",
                ha="center",
                va="center",
                fontsize=9,
                color="#333333",
            )
    for row, context in enumerate(CONTEXTS):
        ax.text(-0.05, n_rows - 0.5 - row, context, ha="right", va="center")
    ax.set_xlim(-0.75, len(columns))
    ax.set_ylim(0, n_rows + 0.8)
    ax.set_axis_off()


def _draw_shares(ax: Axes, outcome: Outcome) -> None:
    shares = {"naive bandit": outcome.naive_share, "unswayed": outcome.robust_share}
    bars = ax.bar(list(shares), list(shares.values()), color=[WRONG, RIGHT], alpha=0.75, width=0.6)
    for bar, share in zip(bars, shares.values(), strict=True):
        ax.annotate(
            f"{share:.0%}",
            (bar.get_x() + bar.get_width() / 2, share),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=13,
            fontweight="bold",
        )
    ax.set_ylim(0, 1.12)
    ax.set_yticks([])
    ax.set_title("of the honest purchases\nthat could be had", fontsize=11)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
