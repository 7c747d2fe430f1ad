"""All algorithms that the simulator can run: every learner, and the oracles."""

from __future__ import annotations

from dataclasses import dataclass

from unswayed.learners.interface import LearnerMaker
from unswayed.learners.players import learner_specs
from unswayed.names import find
from unswayed.simulation.oracle import OracleMaker, OracleUCB

AnyMaker = LearnerMaker | OracleMaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An algorithm by its name on the command line, one line about it, and how to make it."""

    name: str
    summary: str
    make: AnyMaker


ORACLES = (
    Algorithm(
        name="oracle",
        summary="knows the good users and averages only their rewards: the yardstick",
        make=OracleMaker(),
    ),
    Algorithm(
        name="oracle-ucb",
        summary="UCB that knows the good users and listens to nobody else: the yardstick of regret",
        make=OracleMaker(OracleUCB),
    ),
)


def algorithms() -> dict[str, Algorithm]:
    """Return every algorithm by name, those registered by plugins included."""
    found = [
        Algorithm(name=spec.name, summary=spec.summary, make=spec.make)
        for spec in learner_specs().values()
    ]
    return {algorithm.name: algorithm for algorithm in (*found, *ORACLES)}


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name; an unknown name lists the choices."""
    return find(name, algorithms(), kind="algorithm")
