"""Measure whether the worst loss grows like alpha times a logarithm or like its square root.

Normal rewards, good users share one mean, plays are uniform. Colluders report honest rewards,
shifted for the runner-up and against the best, so that their score along the attack is shifted by a
number of deviations of a good user's score. All gaps are three quarters of what that moves the
plain mean: the instance is chosen for the attack. For every alpha, the worst shift of a grid
counts: shifts around the detection limit for single users, multiples of 1/sqrt(alpha), which hide
in the covariance, and a very large one.

Run ``python benchmarks/tightness.py`` for tables, with ``--json FILE`` to keep the rows, and
``--figure NAME`` to draw ``NAME.svg`` and ``NAME.png``; ``--from FILE`` reads rows instead of
measuring. ``--users scaled`` lets the number of users grow like 1/alpha squared.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from unswayed.arrays import FloatArray, IntArray
from unswayed.randomness import generator
from unswayed.reports.style import GREY, STYLE, label_ends, look_of, new_figure, save
from worlds import World

N_CONTEXTS, N_ACTIONS, PLAYS = 10, 5, 50
GAP_SHARE = 0.75
ALPHAS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.3)
SHIFTS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
HIDING = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
"""Shifts in multiples of 1/sqrt(alpha)."""

LOUD = 30.0
FITTED_UP_TO = 0.16
"""Slopes are fitted up to this share; beyond it, the coalition is not a small minority."""

SCALED = "scaled"
SCALED_USERS, SCALED_ALPHAS = 25.6, (0.02, 0.04, 0.08, 0.16)
"""Users times alpha squared, where users are scaled: from 64,000 down to 1,000 users."""

LEARNERS = ("naive-mean", "paper", "bounded", "oracle")
COVERAGE, RESAMPLES = 0.9, 1000


@dataclass(frozen=True, slots=True)
class Row:
    """Loss of one learner under one attack, in deviations of a reward.

    ``users`` is a number, or ``SCALED``.
    """

    users: str
    alpha: float
    shift: float
    seed: int
    learner: str
    loss: float


@dataclass(frozen=True, eq=False)
class Crowd:
    """Users' plays, the noise of their rewards, and the order in which users collude."""

    users: IntArray
    contexts: IntArray
    actions: IntArray
    noise: FloatArray
    ranked: IntArray
    order: IntArray

    @cached_property
    def _signs(self) -> FloatArray:
        is_best = self.actions == self.ranked[self.contexts, 0]
        is_runner_up = self.actions == self.ranked[self.contexts, 1]
        return np.asarray(is_runner_up.astype(float) - is_best)

    def attacked(self, alpha: float, shift: float) -> World:
        """Return the world in which a share of the users shifts its rewards."""
        is_bad = np.zeros(len(self.order), dtype=np.bool_)
        is_bad[self.order[: round(alpha * len(self.order))]] = True
        # With 2·N/A plays of the best two actions, a user's score has the deviation sqrt(2·N/A).
        size = shift / np.sqrt(2.0 * PLAYS / N_ACTIONS)
        gap = GAP_SHARE * 2.0 * alpha * size
        means = np.full((N_CONTEXTS, N_ACTIONS), -3.0 * gap - 1.0)
        np.put_along_axis(means, self.ranked[:, :1], 0.0, axis=1)
        np.put_along_axis(means, self.ranked[:, 1:2], -gap, axis=1)
        rewards = means[self.contexts, self.actions] + self.noise
        rewards += size * self._signs * is_bad[self.users]
        return World(
            users=self.users,
            contexts=self.contexts,
            actions=self.actions,
            rewards=rewards,
            alpha=alpha,
            true_means=means,
            context_probabilities=np.full(N_CONTEXTS, 1.0 / N_CONTEXTS),
            is_bad=is_bad,
        )


def crowd(n_users: int, seed: int) -> Crowd:
    """Draw plays and noise of deviation one; the same for every attack."""
    rng = generator(seed, "tightness")
    users = np.repeat(np.arange(n_users), PLAYS)
    return Crowd(
        users=users,
        contexts=rng.integers(N_CONTEXTS, size=len(users)),
        actions=rng.integers(N_ACTIONS, size=len(users)),
        noise=rng.standard_normal(len(users)),
        ranked=rng.permuted(np.tile(np.arange(N_ACTIONS), (N_CONTEXTS, 1)), axis=1),
        order=rng.permutation(n_users),
    )


def shifts(alpha: float) -> list[float]:
    """Return the grid of attack strengths, in deviations of a good user's score."""
    return sorted({*SHIFTS, *(round(float(c / np.sqrt(alpha)), 3) for c in HIDING), LOUD})


def measure(users: str, seed: int) -> list[Row]:
    """Return the losses of every learner under every attack."""
    rows: list[Row] = []
    for alpha in SCALED_ALPHAS if users == SCALED else ALPHAS:
        n_users = round(SCALED_USERS / alpha**2) if users == SCALED else int(users)
        people = crowd(n_users, seed)
        for shift in shifts(alpha):
            losses = _losses(people.attacked(alpha, shift))
            rows += [Row(users, alpha, shift, seed, name, loss) for name, loss in losses.items()]
    return rows


def _losses(world: World) -> dict[str, float]:
    chosen = {"naive-mean": world.naive(), "oracle": world.oracle()}
    for name in ("paper", "bounded"):
        chosen[name] = world.decided(world.learn(name))
    return {name: world.suboptimality(chosen[name]) for name in LEARNERS}


class Worst(NamedTuple):
    """Largest mean loss over the grid for each alpha, and its shift."""

    alphas: FloatArray
    losses: FloatArray
    shifts: FloatArray


def worst(rows: Iterable[Row], seeds: Iterable[int] | None = None) -> Worst:
    """Return the worst attack on one learner for each alpha; seeds may repeat."""
    losses: dict[tuple[float, float], dict[int, float]] = {}
    for row in rows:
        losses.setdefault((row.alpha, row.shift), {})[row.seed] = row.loss
    chosen = list(seeds) if seeds is not None else list(next(iter(losses.values())))
    found = dict.fromkeys(sorted({alpha for alpha, _ in losses}), (-1.0, 0.0))
    for (alpha, shift), by_seed in losses.items():
        found[alpha] = max(found[alpha], (float(np.mean([by_seed[s] for s in chosen])), shift))
    return Worst(np.array(list(found)), *np.array(list(found.values())).T)


class Slope(NamedTuple):
    """Slope of the log of the worst loss over log alpha, with an interval over seeds."""

    value: float
    low: float
    high: float


def slope(rows: list[Row]) -> Slope:
    """Fit the slope, with a bootstrap interval over seeds; NaN without losses."""
    seeds = sorted({row.seed for row in rows})
    rng = generator(0, "tightness", "bootstrap")

    def fitted(chosen: Iterable[int]) -> float:
        alphas, losses, _ = worst(rows, chosen)
        kept = alphas <= FITTED_UP_TO
        if (losses[kept] <= 0).any():
            return float("nan")
        return float(np.polyfit(np.log(alphas[kept]), np.log(losses[kept]), 1)[0])

    drawn = [fitted(rng.choice(seeds, size=len(seeds))) for _ in range(RESAMPLES)]
    tail = (1.0 - COVERAGE) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return Slope(fitted(seeds), float(low), float(high))


def by_series(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each number of users and learner."""
    series: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        series.setdefault((row.users, row.learner), []).append(row)
    return series


def draw(rows: list[Row]) -> Figure:
    """Draw worst losses and worst shifts over alpha, for bounded with each number of users."""
    series = by_series(rows)
    most = max((users for users, _ in series if users != SCALED), key=int)
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(width=12.5, height=4.8, panels=2, share_y=False)
        ends: list[list[tuple[float, str, str]]] = [[], []]
        for (users, name), ours in series.items():
            if name != "bounded" and users != most:
                continue
            found, look = worst(ours), look_of(name)
            number = f"{SCALED_USERS:g}/\u03b1²" if users == SCALED else users
            label = f"bounded, {number} users" if name == "bounded" else look.label
            dashes = {most: look.dashes, SCALED: ":"}.get(users, "--")
            for ax, values, end in zip(axes, (found.losses, found.shifts), ends, strict=True):
                if name == "oracle" and ax is axes[1]:
                    continue
                ax.plot(
                    found.alphas,
                    values,
                    color=look.colour,
                    marker=look.marker,
                    linestyle=dashes,
                    linewidth=2,
                )
                end.append((float(values[-1]), label, look.colour))
        _references(axes[0])
        _name_axes(axes[0], "worst loss over the grid of attacks", "in deviations of a reward")
        _name_axes(axes[1], "the shift that made it", "in deviations of a user's score")
        for ax, end in zip(axes, ends, strict=True):
            label_ends(ax, end)
    return figure


def _references(ax: Axes) -> None:
    """Draw the three rates as losses at a shift of 1, of the log's root, and of 1/sqrt(alpha)."""
    alphas = np.geomspace(ALPHAS[0], ALPHAS[-1], 50)
    unit = GAP_SHARE * 2.0 / np.sqrt(2.0 * PLAYS / N_ACTIONS)
    rates = {
        r"$\alpha$": alphas,
        r"$\alpha\sqrt{2\log(1/\alpha)}$": alphas * np.sqrt(2.0 * np.log(1.0 / alphas)),
        r"$\sqrt{\alpha}$": np.sqrt(alphas),
    }
    for (name, values), dashes in zip(rates.items(), (":", "-.", "--"), strict=True):
        ax.plot(alphas, unit * values, color=GREY, linewidth=1, linestyle=dashes, label=name)
    ax.legend(frameon=False, fontsize=10, loc="upper left")


def _name_axes(ax: Axes, title: str, y_label: str) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_locator(FixedLocator(list(ALPHAS)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_title(title, loc="left", fontsize=11)
    ax.set_xlabel("share of colluders")
    ax.set_ylabel(y_label)


def report(rows: list[Row]) -> None:
    """Print worst losses, their shifts, and slopes."""
    for (users, name), ours in by_series(rows).items():
        cells = [f"{a:g}: {v:.4f} at {s:g}" for a, v, s in zip(*worst(ours), strict=True)]
        value, low, high = slope(ours)
        print(f"{users:<6} {name:<10}", "  ".join(cells))
        print(f"{'':<17} slope {value:.2f}, {low:.2f} to {high:.2f}")


def main() -> None:
    """Parse the command line, measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", nargs="+", default=["4000"], help=f"numbers, or {SCALED}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--from", dest="known", type=Path, help="file to read rows from")
    parser.add_argument("--figure", type=Path, help="plot to NAME.svg and NAME.png")
    arguments = parser.parse_args()
    if arguments.known:
        document = json.loads(arguments.known.read_text(encoding="utf-8"))
        rows = [Row(*row) for row in document["rows"]]
    else:
        rows = [r for n in arguments.users for s in arguments.seeds for r in measure(n, s)]
    report(rows)
    if arguments.json:
        columns = list(Row.__dataclass_fields__)
        document = {"columns": columns, "rows": [list(asdict(row).values()) for row in rows]}
        arguments.json.write_text(json.dumps(document) + "\n", encoding="utf-8")
    if arguments.figure:
        save(draw(rows), arguments.figure.parent, arguments.figure.name)


if __name__ == "__main__":
    main()
