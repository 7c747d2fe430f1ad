"""All algorithms that the simulator can run: every learner, and the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unswayed.learners.interface import LearnerMaker
from unswayed.learners.registry import LEARNERS
from unswayed.simulation.names import find
from unswayed.simulation.oracle import OracleMaker, OracleUCB

AnyMaker = LearnerMaker | OracleMaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An algorithm by its name on the command line, one line about it, and how to make it."""

    name: str
    summary: str
    make: AnyMaker


ALGORITHMS: Mapping[str, Algorithm] = {
    spec.name: Algorithm(name=spec.name, summary=spec.summary, make=spec.make)
    for spec in LEARNERS.values()
} | {
    "oracle": Algorithm(
        name="oracle",
        summary="knows the good users and averages only their rewards: the yardstick",
        make=OracleMaker(),
    ),
    "oracle-ucb": Algorithm(
        name="oracle-ucb",
        summary="UCB that knows the good users and listens to nobody else: the yardstick of regret",
        make=OracleMaker(OracleUCB),
    ),
}


def find_algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name; an unknown name lists the choices."""
    return find(name, ALGORITHMS, kind="algorithm")
