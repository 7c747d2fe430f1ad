"""Rows as analyses want them: means over repetitions by algorithm, point and series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.experiments.store import Row
from unswayed.learners.methods import DEFAULT_METHOD

MAIN, PILOT = "main", "pilot"
"""The stages: the pilot chooses the strongest attack of a cell, the main stage is reported."""

USUALLY_STRONGEST = "nuke"
"""Ours: what does most harm to trimmed means. Where no attack of the pilot does any, the attack
that is known to succeed elsewhere is the better test."""


def strongest_attacks(rows: Iterable[Row]) -> dict[int, str]:
    """Return for each cell number with a pilot the attack with the largest mean value.

    Of equal ones the usual strongest, else the last by name, so that the choice depends on nothing
    but the rows.
    """
    return {
        number: USUALLY_STRONGEST if USUALLY_STRONGEST in attacks else attacks[-1]
        for number, attacks in tied_attacks(rows).items()
    }


def tied_attacks(rows: Iterable[Row]) -> dict[int, tuple[str, ...]]:
    """Return for each cell number with a pilot all attacks with the largest mean value, by name."""
    values: dict[int, dict[str, list[float]]] = {}
    for row in rows:
        if row["stage"] == PILOT:
            values.setdefault(row["number"], {}).setdefault(row["attack"], []).append(row["value"])
    tied = {}
    for number, by_attack in values.items():
        means = {attack: float(np.mean(losses)) for attack, losses in by_attack.items()}
        most = max(means.values())
        tied[number] = tuple(sorted(attack for attack, mean in means.items() if mean == most))
    return tied


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """An algorithm along the points of one series.

    Attributes
    ----------
    xs
        Shape (n_points,), ascending.
    values
        Shape (n_repetitions, n_points); a row is one repetition throughout.
    attacks
        The attack that was used at each point.
    repetitions
        The numbers of the repetitions, ascending.
    """

    algorithm: str
    series: str
    xs: FloatArray
    values: FloatArray
    attacks: tuple[str, ...]
    repetitions: tuple[int, ...]

    @property
    def means(self) -> FloatArray:
        """Return the mean over repetitions at each point, shape (n_points,)."""
        means: FloatArray = self.values.mean(axis=0)
        return means

    def at(self, x: float) -> FloatArray:
        """Return the repetitions at one point."""
        (index,) = np.flatnonzero(self.xs == x)
        return self.values[:, index]

    def minus(self, other: Curve, x: float) -> FloatArray:
        """Return differences to another curve at one point, in the repetitions that both have."""
        rows, others = (
            np.isin(curve.repetitions, both.repetitions)
            for curve, both in ((self, other), (other, self))
        )
        return np.asarray(self.at(x)[rows] - other.at(x)[others])


class Results:
    """The reported rows of an experiment, and its pilot."""

    def __init__(self, rows: Sequence[Row]) -> None:
        chosen = strongest_attacks(rows)
        # An attack that a longer zoo has since outdone leaves rows that are reported no more.
        main = [
            row
            for row in rows
            if row["stage"] == MAIN and chosen.get(row["number"], row["attack"]) == row["attack"]
        ]
        # A run that was stopped leaves some cells ahead of others; all are judged by what all have,
        # but for the project's own learner, which has fewer.
        own = [row for row in main if row["algorithm"] == DEFAULT_METHOD]
        others = [row for row in main if row["algorithm"] != DEFAULT_METHOD]
        finished = _finished_everywhere(main, others or own)
        kept = finished & _finished_everywhere(main, own) if own else finished
        self.main = [
            row
            for row in main
            if row["repetition"] in (kept if row["algorithm"] == DEFAULT_METHOD else finished)
        ]
        self.pilot = [row for row in rows if row["stage"] == PILOT]
        self.tied_attacks = tied_attacks(self.pilot)
        self.repetitions = len(finished)

    @property
    def algorithms(self) -> list[str]:
        """Return the algorithms in the order of the sweep."""
        return list(dict.fromkeys(row["algorithm"] for row in self.main))

    @property
    def series(self) -> list[str]:
        """Return the series in the order of the sweep."""
        return list(dict.fromkeys(row["series"] for row in self.main))

    def curve(self, algorithm: str, series: str = "") -> Curve:
        """Return an algorithm along one series."""
        return _curve(self.main, algorithm, series)

    def pilot_means(self, algorithm: str) -> dict[str, dict[str, FloatArray]]:
        """Return the means of the pilot by attack and series, points in the sweep's order."""
        values: dict[str, dict[str, dict[int, list[float]]]] = {}
        for row in self.pilot:
            if row["algorithm"] == algorithm:
                by_series = values.setdefault(row["attack"], {})
                by_cell = by_series.setdefault(row["series"], {})
                by_cell.setdefault(row["number"], []).append(row["value"])
        return {
            attack: {
                series: np.array([np.mean(by_cell[number]) for number in sorted(by_cell)])
                for series, by_cell in by_series.items()
            }
            for attack, by_series in values.items()
        }


def _finished_everywhere(every: Sequence[Row], rows: Sequence[Row]) -> set[int]:
    """Return the repetitions that all cells of some rows have, or say that some have none."""
    by_cell: dict[int, set[int]] = {}
    points: dict[str, set[tuple[str, float]]] = {}
    for row in rows:
        by_cell.setdefault(row["number"], set()).add(row["repetition"])
    for row in every:
        points.setdefault(row["algorithm"], set()).add((row["series"], row["x"]))
    finished = set.intersection(*by_cell.values()) if by_cell else set()
    if not finished or len({len(of_algorithm) for of_algorithm in points.values()}) > 1:
        raise InputError(
            "not every cell has a finished repetition yet: run the experiment to its end first."
        )
    return finished


def _curve(rows: Sequence[Row], algorithm: str, series: str) -> Curve:
    by_x: dict[float, dict[int, float]] = {}
    attacks: dict[float, str] = {}
    for row in rows:
        if row["algorithm"] == algorithm and row["series"] == series:
            by_x.setdefault(row["x"], {})[row["repetition"]] = row["value"]
            attacks[row["x"]] = row["attack"]
    xs = sorted(by_x)
    repetitions = sorted(by_x[xs[0]])
    return Curve(
        algorithm=algorithm,
        series=series,
        xs=np.array(xs),
        values=np.array([[by_x[x][repetition] for x in xs] for repetition in repetitions]),
        attacks=tuple(attacks[x] for x in xs),
        repetitions=tuple(repetitions),
    )
