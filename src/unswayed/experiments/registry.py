"""All experiments by id: each folder's sweep and analysis, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from matplotlib.figure import Figure

from unswayed.errors import InputError
from unswayed.experiments.claims import Claim
from unswayed.experiments.drawing import LOSS
from unswayed.experiments.results import Results
from unswayed.experiments.sweeps import Sweep
from unswayed.simulation.names import find

IDS = (
    "figure-2a",
    "figure-2b",
    "figure-2c",
    "figure-2d",
    "figure-3a",
    "figure-3b",
    "figure-3c",
    "lemma-nu",
    "theorem-upper",
    "theorem-lower",
    "parallel-gain",
)

"""The paper's experiments and theorems: what is run when nothing is named."""

BEYOND = ("regret", "regret-personal")
"""Experiments on what the paper leaves open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment: what to run, in full and quickly, and what to make of the results."""

    id: str
    title: str
    x_label: str
    y_label: str
    sweep: Sweep
    quick: Sweep
    draw: Callable[[Results], Figure]
    judge: Callable[[Results], list[Claim]]


def split_id(text: str) -> tuple[str, int | None]:
    """Split the name of a cell into experiment and number; None if it names no cell.

    >>> split_id("figure-2a/7"), split_id("lemma-nu")
    (('figure-2a', 7), ('lemma-nu', None))
    """
    name, slash, number = text.partition("/")
    if not slash:
        return name, None
    if not number.isdecimal():
        raise InputError(f"'{text}' names no cell: after the slash comes its number.")
    return name, int(number)


def find_experiment(name: str) -> Experiment:
    """Return the experiment of this id; an unknown id lists the choices.

    >>> find_experiment("figure-2a").title
    'Figure 2(a): more contexts'
    """
    find(name, dict.fromkeys((*IDS, *BEYOND)), kind="experiment")
    folder = f"unswayed.experiments.{name.replace('-', '_')}"
    sweep, analysis = (import_module(f"{folder}.{part}") for part in ("sweep", "analysis"))
    return Experiment(
        id=name,
        title=analysis.TITLE,
        x_label=analysis.X_LABEL,
        y_label=getattr(analysis, "Y_LABEL", LOSS),
        sweep=sweep.SWEEP,
        quick=sweep.QUICK,
        draw=analysis.draw,
        judge=analysis.judge,
    )
