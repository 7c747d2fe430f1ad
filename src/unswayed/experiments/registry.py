"""All experiments by id: each module's sweeps and analyses, put together."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from unswayed.errors import InputError
from unswayed.experiments.judging import Analysis
from unswayed.experiments.sweeps import Sweep
from unswayed.names import find

MODULES = {
    "figure-2a": "figures",
    "figure-2b": "figures",
    "figure-2c": "figures",
    "figure-2d": "figures",
    "figure-3a": "figures",
    "figure-3b": "figures",
    "figure-3c": "figures",
    "slope": "figures",
    "knowing-attack": "figures",
    "base-case-1": "base_cases",
    "base-case-2": "base_cases",
    "lemma-nu": "lemma_nu",
    "theorem-upper": "theorem_upper",
    "theorem-lower": "theorem_lower",
    "guessing-game": "guessing_game",
    "hidden-contexts": "guessing_game",
    "parallel-gain": "parallel_gain",
    "regret": "regret",
    "regret-rate": "regret_rate",
    "regret-personal": "regret_personal",
    "regret-drift": "regret_drift",
}
"""The module of each experiment; its SWEEPS and ANALYSES are by id."""

BEYOND = ("regret", "regret-rate", "regret-personal", "regret-drift")
"""Experiments on what the paper leaves open."""

IDS = tuple(name for name in MODULES if name not in BEYOND)
"""The paper's experiments and theorems: what is run when nothing is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment: what to run, and what to make of the results."""

    sweep: Sweep
    analysis: Analysis

    @property
    def id(self) -> str:
        """Return its name."""
        return self.sweep.id


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

    >>> find_experiment("figure-2a").analysis.title
    'Figure 2(a): more contexts'
    """
    module = import_module(f"unswayed.experiments.{find(name, MODULES, kind='experiment')}")
    return Experiment(sweep=module.SWEEPS[name], analysis=module.ANALYSES[name])
