"""Experiments as data: points, algorithms and claims; a cell is one algorithm at one point."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import unswayed
from unswayed.experiments.claims import FEWEST, Judge
from unswayed.experiments.drawing import Curves, Panel, all_curves
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.limits import users_needed
from unswayed.simulation.attacks.base import Knowledge
from unswayed.simulation.attacks.registry import ATTACKS
from unswayed.simulation.simulate import Settings, run_repetition

# Measured value of one repetition, from (settings, algorithm, attack, repetition)
Measure = Callable[[Settings, str, str, int], float]
# Ours: the pilot that chooses attacks uses other worlds than the reported results
MAIN_SEED, PILOT_SEED = 0, 1
PILOT_REPETITIONS = 4  # Ours: enough to rank attacks unless their effects differ by less than noise
# Ours: the default learner has three tenths of the repetitions, and one pilot repetition. It takes
# five to ten times the processor time of Robust MCB, and its losses hardly vary at most points.
OWN_SHARE, OWN_PILOT_REPETITIONS = 0.3, 1
QUICK_OWN_FEWEST = 2  # Ours: a quick run plots the default learner without a verdict
# Ours: a quick run has no pilot, which would take half of its time, and uses this attack. It has
# the largest effect on trimmed means and nearly the largest on plain means.
QUICK_ATTACK = "nuke"
# Attacks that know only which action to promote and which to demote, the best one
OBLIVIOUS_ATTACKS = tuple(
    name for name, kind in ATTACKS.items() if kind.knows == Knowledge.OBLIVIOUS
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A world at which every algorithm of an experiment is measured."""

    x: float  # value of the swept setting, drawn on the horizontal axis
    settings: Settings  # its attack, algorithms and repetitions are ignored
    series: str = ""  # distinguishes points with the same x, such as distributions of contexts
    is_quick: bool = False  # whether it is part of a quick run
    # Attacks of which the strongest is reported; a single one needs no pilot
    attacks: tuple[str, ...] = OBLIVIOUS_ATTACKS


def suboptimality_in_arena(
    settings: Settings, algorithm: str, attack: str, repetition: int
) -> float:
    """Return the loss of good users when the algorithm learns against the attack.

    Equal to the number that `unswayed simulate` prints for these settings, seed and repetition.
    """
    return run_repetition(replace(settings, attack=attack), algorithm, repetition).loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Definition of an experiment: what to run, and how to judge and draw the results."""

    id: str
    title: str
    points: tuple[Point, ...]
    algorithms: tuple[str, ...]
    judges: tuple[Judge, ...]  # one test per claim
    panels: tuple[Panel, ...]
    measure: Measure = suboptimality_in_arena
    curves: Curves = all_curves  # computes the curves of a panel
    pilot_repetitions: int = PILOT_REPETITIONS
    # Repetitions per requested one; success rates need more repetitions than means
    repetition_factor: int = 1
    own_fewest: int = FEWEST  # fewest repetitions of the default learner for a verdict

    def repetitions_of(self, algorithm: str, asked: int) -> int:
        """Return the number of repetitions of an algorithm, given the number asked for.

        >>> from unswayed.experiments.reproducing import find_experiment
        >>> figure = find_experiment("figure-2a")
        >>> [figure.repetitions_of(name, 50) for name in ("paper", DEFAULT_METHOD)]
        [50, 15]
        """
        n = asked * self.repetition_factor
        if algorithm != DEFAULT_METHOD:
            return n
        return max(round(OWN_SHARE * n), min(n, self.own_fewest))

    def pilot_of(self, algorithm: str) -> int:
        """Return how many repetitions of each attack an algorithm's pilot has."""
        if algorithm != DEFAULT_METHOD:
            return self.pilot_repetitions
        return min(self.pilot_repetitions, OWN_PILOT_REPETITIONS)


@dataclass(frozen=True, slots=True)
class Cell:
    """One algorithm at one point, identified by an ``id`` such as ``figure-2a/7``."""

    experiment: str
    number: int
    algorithm: str
    point: Point

    @property
    def id(self) -> str:
        """Return the name of the cell."""
        return f"{self.experiment}/{self.number}"


def cells_of(experiment: Experiment) -> tuple[Cell, ...]:
    """Return the cells, all points of the first algorithm first.

    An algorithm appended to the list leaves the numbers of the others unchanged.
    """
    pairs = itertools.product(experiment.algorithms, experiment.points)
    return tuple(Cell(experiment.id, number, *pair) for number, pair in enumerate(pairs))


def described(settings: Settings) -> dict[str, Any]:
    """Return the flat settings that define a world, excluding attack, algorithms and seed."""
    fields = asdict(settings)
    for name in ("attack", "knobs", "algorithms", "repetitions", "seed"):
        del fields[name]
    return fields


@cache
def code_version() -> str:
    """Return the current commit, with "+" if files differ from it; outside of Git, the version.

    >>> code_version() == code_version()
    True
    """

    def git(*words: str) -> str | None:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            return None
        return run.stdout.strip()

    # A file tracked by some other repository is not part of its commit.
    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return unswayed.__version__
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "..")
    return f"{git('rev-parse', '--short=12', 'HEAD')}{'+' if changed else ''}"


def fingerprint(experiment: Experiment) -> dict[str, Any]:
    """Return everything that must be equal before results can be continued, including the commit.

    Algorithms and attacks are excluded: adding one adds rows and changes none.
    """
    return {"id": experiment.id, "commit": code_version(), **world_settings(experiment)}


def world_settings(experiment: Experiment) -> dict[str, Any]:
    """Return seeds and points of a sweep, which with code and machine determine its rows."""
    return {
        "seeds": {"main": MAIN_SEED, "pilot": PILOT_SEED},
        "pilot_repetitions": experiment.pilot_repetitions,
        "own_pilot_repetitions": experiment.pilot_of(DEFAULT_METHOD),
        "points": [
            {"x": point.x, "series": point.series, **described(point.settings)}
            for point in experiment.points
        ],
    }


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Return a digest of the result of ``world_settings`` or ``fingerprint``, without the code."""
    kept = {name: settings[name] for name in settings if name not in ("id", "commit")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def world(**changes: Any) -> Settings:
    """Return the base world of the paper's Figure 2 with some settings changed.

    S = A = 10, T/L = 30, alpha = 0.2 and a gap of 0.3 are the paper's. There are SA·log(SA)/alpha
    users, as Theorem 5.1 requires; the paper's setting says "L = O(SA log SA)". Rewards are
    Gaussian with deviation 0.5; the paper does not specify them, and its adversaries may report any
    real number.
    """
    base = Settings(attack="honest", algorithms=("oracle",), **changes)
    if "users" in changes:
        return base
    return replace(base, users=users_needed(base.contexts, base.actions, base.alpha))


def along(
    name: str,
    values: Iterable[float],
    series: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    quick: Container[float] = (),
    attacks: tuple[str, ...] = OBLIVIOUS_ATTACKS,
    **fixed: Any,
) -> tuple[Point, ...]:
    """Return a point for each series and each value of one setting."""
    found = {"": {}} if series is None else series
    return tuple(
        Point(
            x=value,
            series=label,
            settings=world(**fixed, **changes, **{name: value}),
            is_quick=value in quick,
            attacks=attacks,
        )
        for (label, changes), value in itertools.product(found.items(), tuple(values))
    )


def with_own(*algorithms: str) -> tuple[str, ...]:
    """Return the learners that a sweep compares; the project's own default is last."""
    return (*algorithms, DEFAULT_METHOD)


def quick_version(experiment: Experiment) -> Experiment:
    """Return the quick points with one attack: ``QUICK_ATTACK`` or, if not tried, the first."""
    points = tuple(
        replace(point, attacks=tuple({QUICK_ATTACK} & {*point.attacks}) or point.attacks[:1])
        for point in experiment.points
        if point.is_quick
    )
    return replace(experiment, points=points, pilot_repetitions=0, own_fewest=QUICK_OWN_FEWEST)
