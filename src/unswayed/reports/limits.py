"""Two pictures of the limits.

``python -m unswayed.reports.limits docs/images`` draws them anew, byte for byte.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator, PercentFormatter

from unswayed.errors import InputError
from unswayed.limits import (
    CountDistribution,
    binomial_counts,
    largest_two_sided_interactions,
    smallest_two_sided_coalition,
    two_sided_adversaries,
)
from unswayed.reports.style import BLUE, GREEN, GREY, ORANGE, STYLE, new_figure, save
from unswayed.storage import make_folder


def draw_smallest_coalitions(
    *,
    gaps: tuple[float, float, float] = (0.2, 0.1, 0.05),
    adversarial_fraction: float = 0.2,
    most_interactions: int = 1000,
) -> Figure:
    """Draw the smallest coalition that can hide a gap against the plays per user.

    Parameters
    ----------
    gaps
        Three gaps over a mean reward of one half, one line each.
    adversarial_fraction
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
            last = int(largest_two_sided_interactions(gap, adversarial_fraction))
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
        ax.axhline(adversarial_fraction, color=GREY, linewidth=1, linestyle=":")
        ax.text(
            most_interactions,
            adversarial_fraction + 0.008,
            f"a coalition of {100 * adversarial_fraction:g}% hides it up to the dots",
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
    adversarial_fraction: float = 0.2,
    base: float = 0.5,
) -> Figure:
    """Draw two worlds that a coalition has made to look alike: good users, colluders, and the sum.

    Parameters
    ----------
    gap, interactions, adversarial_fraction, base
        As in `two_sided_adversaries`; the coalition must be large enough to hide the gap.
    """
    pair = two_sided_adversaries(gap, interactions, adversarial_fraction, base=base)
    if pair.ordinary.distance > 0:
        raise InputError(
            f"a coalition of {adversarial_fraction} cannot hide a gap of {gap} for {interactions} "
            "plays, so there are no two worlds that look alike. Draw fewer plays."
        )
    worlds = (
        (f"The item is ordinary ({100 * base:g}% like it)", base, pair.ordinary),
        (f"The item is better ({100 * (base + gap):g}% like it)", base + gap, pair.better),
    )
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=9.2, height=4.4, panels=2)
        for ax, (title, mean, adversary) in zip(axes, worlds, strict=True):
            good = (1 - adversarial_fraction) * binomial_counts(interactions, mean).dense()
            bad = adversarial_fraction * adversary.counts.dense()
            _draw_world(ax, good, bad, pair.observed)
            ax.set_title(title, loc="left", fontweight="bold", fontsize=11)
            ax.set_xlabel(f"likes in {interactions} plays")
        axes[0].set_ylabel("share of users")
        axes[0].legend(frameon=False, loc="upper left", fontsize=9)
    return figure


def write_pictures(folder: Path) -> list[Path]:
    """Write both pictures as SVG and PNG, and return the files."""
    make_folder(folder)
    pictures = {
        "limits-smallest-coalition": draw_smallest_coalitions(),
        "limits-hidden-worlds": draw_hidden_worlds(),
    }
    return [path for name, figure in pictures.items() for path in save(figure, folder, name)]


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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m unswayed.reports.limits FOLDER")
    write_pictures(Path(sys.argv[1]))
