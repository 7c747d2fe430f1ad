"""Right actions that nobody can tell are not played often before n·min(S, A) interactions."""

from __future__ import annotations

from unswayed.experiments.drawing import Panel
from unswayed.experiments.guessing_game.sweep import GAMES, HIDDEN, RATIOS, series_of
from unswayed.experiments.judging import Analysis, compared
from unswayed.experiments.results import Results
from unswayed.learners.interface import FloatArray

FEW, ENOUGH = RATIOS[0], RATIOS[-1]
RARELY, USUALLY = 0.1, 0.9
"""Ours: what counts as hardly ever winning, and as nearly always."""

HIDDEN_AT, SEEN_AT = 9, 243
"""Interactions at which no user can have more than the hidden right plays, and at which all do."""

MARGIN = 0.1
"""Ours: shares of right decisions that differ by less count as alike."""


def _rarely(results: Results) -> dict[str, FloatArray]:
    return {
        f"{RARELY:g} minus wins of {name}, {series}": RARELY - results.curve(name, series).at(FEW)
        for name in results.algorithms
        for series in results.series
    }


def _usually(results: Results) -> dict[str, FloatArray]:
    return {
        f"wins of one action for good, {series}, minus {USUALLY:g}": results.curve(
            "sticky", series
        ).at(ENOUGH)
        - USUALLY
        for series in results.series
    }


def _chance_minus_right(results: Results) -> dict[str, FloatArray]:
    return {
        f"chance minus right decisions of {name}, {series_of(s, a)}": 1.0 / a
        - results.curve(name, series_of(s, a)).at(HIDDEN_AT)
        for name in results.algorithms
        if name != "oracle"
        for s, a in HIDDEN
    }


def _right_minus_few(results: Results) -> dict[str, FloatArray]:
    """Return what the oracle has over chance where everybody else is blind."""
    return {
        f"right decisions of the oracle minus chance, {series_of(s, a)}": results.curve(
            "oracle", series_of(s, a)
        ).at(HIDDEN_AT)
        - 1.0 / a
        for s, a in HIDDEN
    }


def _panels(sizes: tuple[tuple[int, int], ...], x_label: str, y_label: str) -> tuple[Panel, ...]:
    return tuple(
        Panel(title=series, x_label=x_label, y_label=y_label, series=series, log_x=True)
        for series in (series_of(s, a) for s, a in sizes)
    )


ANALYSES = {
    "guessing-game": Analysis(
        title="The guessing game: n = 100 right plays with one of 200 users",
        x_label="interactions per user over n·min(S, A)",
        panels=_panels(GAMES, "interactions / n·min(S, A)", "share of games won"),
        judges=(
            compared(
                "nobody-wins-early",
                "With a sixteenth of n·min(S, A) interactions nobody wins, whatever S and A (up to "
                "a tenth of the games).",
                _rarely,
            ),
            compared(
                "everybody-wins-late",
                "With twice n·min(S, A) interactions, playing one action for good wins nine of ten "
                "games, whatever S and A.",
                _usually,
            ),
        ),
    ),
    "hidden-contexts": Analysis(
        title="Theorem 4.1 with many contexts and actions",
        x_label="interactions per user T/L",
        panels=_panels(HIDDEN, "interactions per user T/L", "share of right decisions"),
        judges=(
            compared(
                "nobody-beats-chance",
                "While no user has more right plays than are hidden, no learner decides better "
                "than chance, up to 0.1.",
                _chance_minus_right,
                margin=MARGIN,
            ),
            compared(
                "oracle-sees-it",
                "Who knows the good users decides better than chance there (control).",
                _right_minus_few,
            ),
        ),
    ),
}
