"""Search for the most harmful attack on a learner, and evaluate it in fresh worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, cast

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.processes import WorkerPool
from unswayed.randomness import generator
from unswayed.simulation.attacks.base import Between, Range
from unswayed.simulation.attacks.registry import Knob, attacks_by_name, knobs_of
from unswayed.simulation.instances import RewardLaw
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Goal, Row, Summary, run_repetition, summarise

_NOT_SEARCHED = ("best-response",)
"""Attacks that search by themselves and are left out."""

ONLY_BINARY = ("hiding", "hiding-two-sided")
"""Attacks that need rewards of zeros and ones."""

PARAMETRIC = "tailored"
"""The parametric family that gets half of the fresh draws."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attack and its knobs, as the simulator takes them.

    ``units`` are the knobs' places in their ranges, None for the attack as it comes.
    """

    attack: str
    units: tuple[float, ...] | None = None

    @property
    def knobs(self) -> dict[str, Knob]:
        """Return every knob with its value."""
        if self.units is None:
            return knobs_of(attacks_by_name()[self.attack])
        ranges = ranges_of(self.attack)
        return {
            knob: ranges[knob].value(unit) for knob, unit in zip(ranges, self.units, strict=True)
        }


def attacks_for(*, is_binary: bool) -> list[str]:
    """Return the attacks that can be played with such rewards."""
    left_out = _NOT_SEARCHED if is_binary else (*_NOT_SEARCHED, *ONLY_BINARY)
    return [name for name in attacks_by_name() if name not in left_out]


def ranges_of(attack: str) -> dict[str, Range]:
    """Return where each knob of an attack is searched; an attack without ranges is tried as is."""
    knobs = fields(cast(Any, attacks_by_name()[attack]))
    return {knob.name: knob.metadata["range"] for knob in knobs if "range" in knob.metadata}


def drawn(attacks: list[str], rng: np.random.Generator) -> Candidate:
    """Draw a candidate anywhere: half of the time the parametric family, else any attack."""
    attack = PARAMETRIC if rng.random() < 0.5 else attacks[int(rng.integers(len(attacks)))]
    return Candidate(attack, tuple(float(u) for u in rng.random(len(ranges_of(attack)))))


def neighbour(of: Candidate, rng: np.random.Generator) -> Candidate:
    """Perturb a candidate; one with default knobs gets random ones."""
    ranges = ranges_of(of.attack)
    if of.units is None:
        return Candidate(of.attack, tuple(float(u) for u in rng.random(len(ranges))))
    return Candidate(
        of.attack,
        tuple(r.nearby(unit, rng) for r, unit in zip(ranges.values(), of.units, strict=True)),
    )


def stepped(of: Candidate, step: FloatArray) -> Candidate:
    """Move the knobs that are numbers by shares of their ranges, at most to their ends.

    >>> stepped(Candidate("push", (0.5, 0.9)), np.array([0.2, 0.2])).units
    (0.7, 1.0)
    """
    ranges, knobs = ranges_of(of.attack), of.knobs
    units = list(of.units) if of.units else [r.place(knobs[k]) for k, r in ranges.items()]
    numbers = [i for i, r in enumerate(ranges.values()) if isinstance(r, Between)]
    for i, by in zip(numbers, step, strict=True):
        units[i] = min(max(units[i] + float(by), 0.0), 1.0)
    return Candidate(of.attack, tuple(units))


GENERATIONS = 4
"""Ours: number of generations."""

ELITE = 8
"""Ours: number of parents per generation."""

FRESH_DRAWS = 0.25
"""Ours: share of new candidates drawn from the whole space."""

KEPT_SHARE = 3
"""Ours: within a generation one candidate in three goes on to twice as many worlds."""

DRAWN_SHARE, RACED_SHARE, CLIMBED_SHARE = 0.6, 0.7, 0.9
"""Ours: parts of the budget after which drawing candidates, a first race among the best, and the
climb from its winner must have ended; what is left is a last race."""

CLIMBED_WORLDS = 3
"""Ours: worlds in which a step of the climb is judged, the same for all of them."""

FIRST_STEP, LAST_STEP = 0.15, 0.01
"""Ours: first and smallest step of a climb, as shares of each knob's range."""

FINALISTS = 5
"""Ours: number of candidates in a race."""

LEAST_BUDGET = 20
"""Ours: minimum budget of a search."""

FIRST_FRESH_WORLD = 1_000_000
"""Ours: first world reserved for the final evaluation."""

RUNS_PER_CANDIDATE = 1.0 + 1.0 / KEPT_SHARE + 2.0 / KEPT_SHARE**2
"""Relative cost of successive halving: 1 + 1/3 + 2/9."""

Task = tuple[str, Candidate, int]
Evaluate = Callable[[list[Task]], list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The worst attack that was found against one learner.

    Attributes
    ----------
    algorithm, attack, knobs
        Who was attacked, and how; `unswayed simulate` takes the same names.
    training_mean, training_worlds
        Mean loss in the worlds of the search. The attack was chosen for it, so it is too
        large on average.
    fresh
        The loss in worlds that the search never saw: the number to report.
    before_climbing
        The same worlds under the winner of the first race, before its knobs were tuned uphill.
    honest
        The same worlds with colluders who answer like good users.
    runs
        Arena runs that the search took.
    """

    algorithm: str
    attack: str
    knobs: dict[str, Knob]
    training_mean: float
    training_worlds: int
    fresh: Summary
    before_climbing: Summary
    honest: Summary
    runs: int


def search_attacks(
    settings: Settings,
    *,
    budget: int,
    fresh_worlds: int,
    goal: Goal = Goal.SUBOPTIMALITY,
    processes: int = 1,
    on_run: Callable[[], None] = lambda: None,
) -> list[Worst]:
    """Search for the worst attack on each algorithm of the settings, under a budget of runs.

    The attacker has the code: every candidate is played against the learner itself, in worlds of
    the given kind. Candidates are first all attacks as they come, then random ones, then neighbours
    of the best; in each generation the better third goes on to more worlds. From the winner of a
    race the search climbs by differences of its knobs. The winner of a last race is judged in fresh
    worlds.

    Parameters
    ----------
    settings
        The worlds, the crowd, the algorithms and the seed; attack and repetitions are not read.
    budget
        Arena runs of each search, at most.
    fresh_worlds
        Worlds in which the winner is judged, at least 2; they come on top of the budget.
    goal
        What the attacker wants to be large.
    processes
        Changes no number.
    on_run
        Called after every run.

    Notes
    -----
    Guarantee: the fresh mean is an unbiased estimate of what the attack found does in such worlds,
    and so a lower bound, up to its standard error, of what the worst attack does. A search that
    finds little proves nothing.
    """
    if budget < LEAST_BUDGET:
        raise InputError(f"budget is {budget}: a search takes at least {LEAST_BUDGET} runs.")
    if fresh_worlds < 2:
        raise InputError(f"fresh-worlds is {fresh_worlds}: a standard error takes at least 2.")
    if processes < 1:
        raise InputError(f"processes is {processes}: at least 1 is needed.")
    with _evaluator(settings, goal, processes, on_run) as evaluate:
        return [
            _worst(settings, algorithm, budget, fresh_worlds, evaluate)
            for algorithm in settings.algorithms
        ]


def runs_planned(settings: Settings, *, budget: int, fresh_worlds: int) -> int:
    """Return the largest number of runs that a search can take, for progress bars."""
    return len(settings.algorithms) * (budget + 3 * fresh_worlds)


def _worst(
    settings: Settings, algorithm: str, budget: int, fresh_worlds: int, evaluate: Evaluate
) -> Worst:
    search = Search(algorithm, evaluate)
    rng = generator(settings.seed, "attack search", algorithm)
    attacks = attacks_for(is_binary=settings.rewards == RewardLaw.BERNOULLI.value)
    runs = int(DRAWN_SHARE * budget / GENERATIONS)
    n_new = max(2, int(runs / RUNS_PER_CANDIDATE))
    as_they_come = [Candidate(attacks[i]) for i in rng.permutation(len(attacks))]
    for _ in range(GENERATIONS):
        # The attacks as they come may take more than one generation.
        new, as_they_come = as_they_come[:n_new], as_they_come[n_new:]
        elite = search.ranked()[:ELITE]
        while len(new) < n_new:
            if not elite or rng.random() < FRESH_DRAWS:
                new.append(drawn(attacks, rng))
            else:
                new.append(neighbour(elite[int(rng.integers(len(elite)))], rng))
        search.halve(new, runs)
    first = search.race(int(RACED_SHARE * budget))
    search.climb(first, int(CLIMBED_SHARE * budget), rng)
    winner = search.race(budget)
    harms = search.harms[winner]
    judged = {
        candidate: _judged(algorithm, candidate, fresh_worlds, evaluate)
        for candidate in dict.fromkeys((winner, first, Candidate("honest")))
    }
    return Worst(
        algorithm=algorithm,
        attack=winner.attack,
        knobs=winner.knobs,
        training_mean=float(np.mean(harms)),
        training_worlds=len(harms),
        fresh=judged[winner],
        before_climbing=judged[first],
        honest=judged[Candidate("honest")],
        runs=search.runs,
    )


class Search:
    """Results of one search: the harm of each candidate in worlds 0, 1, 2, ..."""

    def __init__(self, algorithm: str, evaluate: Evaluate) -> None:
        self._algorithm = algorithm
        self._evaluate = evaluate
        self.harms: dict[Candidate, list[float]] = {}
        self.runs = 0

    def ranked(self) -> list[Candidate]:
        """Return all candidates, the most harmful first; ties in order of their appearance."""
        return sorted(self.harms, key=lambda candidate: -np.mean(self.harms[candidate]))

    def halve(self, candidates: list[Candidate], runs: int) -> None:
        """Try candidates in one world, the better third in two, and so on while runs last."""
        left, n_worlds, until = list(dict.fromkeys(candidates)), 1, self.runs + runs
        while left:
            missing = sum(max(n_worlds - len(self.harms.get(c, [])), 0) for c in left)
            if self.runs + missing > until:
                return
            self._try(left, n_worlds)
            if len(left) == 1:
                return
            left.sort(key=lambda candidate: -np.mean(self.harms[candidate]))
            left = left[: max(1, len(left) // KEPT_SHARE)]
            n_worlds *= 2

    def climb(self, start: Candidate, until: int, rng: np.random.Generator) -> None:
        """Hill-climb over all numeric knobs from one candidate while the budget lasts.

        Simultaneous perturbation (Spall 1992): a random sign for each knob, one step to both sides,
        in the same worlds, so that differences come from the knobs and not from chance. Decisions
        jump, and so does the harm: the climb moves only if a side is worse for the learner, and
        otherwise halves its step.
        """

        def harm(candidates: list[Candidate]) -> list[float]:
            self._try(list(dict.fromkeys(candidates)), CLIMBED_WORLDS)
            return [float(np.mean(self.harms[c][:CLIMBED_WORLDS])) for c in candidates]

        missing = max(CLIMBED_WORLDS - len(self.harms[start]), 0)
        steps = (until - self.runs - missing) // (2 * CLIMBED_WORLDS)
        n = sum(isinstance(r, Between) for r in ranges_of(start.attack).values())
        if n == 0 or steps < 1:
            return
        size, top = FIRST_STEP, start
        (height,) = harm([top])
        for _ in range(steps):
            signs = rng.choice((-1.0, 1.0), size=n)
            sides = [stepped(top, size * signs), stepped(top, -size * signs)]
            heights = harm(sides)
            best = int(np.argmax(heights))
            if heights[best] > height:
                top, height = sides[best], heights[best]
                continue
            size /= 2.0
            if size < LAST_STEP:
                return

    def race(self, budget: int) -> Candidate:
        """Spend the budget, all runs so far counted, on the best so far and return the winner.

        Each round plays those of the finalists that were played least in one more world. Who is a
        finalist is asked anew: a candidate that was lucky in few worlds falls behind and gives way.
        """
        while True:
            finalists = self.ranked()[:FINALISTS]
            least = min(len(self.harms[candidate]) for candidate in finalists)
            behind = [c for c in finalists if len(self.harms[c]) == least]
            if self.runs + len(behind) > budget:
                return finalists[0]
            self._try(behind, least + 1)

    def _try(self, candidates: list[Candidate], n_worlds: int) -> None:
        """Evaluate candidates in the first worlds; known results are reused."""
        tasks = [
            (self._algorithm, candidate, world)
            for candidate in candidates
            for world in range(len(self.harms.get(candidate, [])), n_worlds)
        ]
        self.runs += len(tasks)
        for (_, candidate, _), harm in zip(tasks, self._evaluate(tasks), strict=True):
            self.harms.setdefault(candidate, []).append(harm)


def _judged(algorithm: str, candidate: Candidate, fresh_worlds: int, evaluate: Evaluate) -> Summary:
    worlds = range(FIRST_FRESH_WORLD, FIRST_FRESH_WORLD + fresh_worlds)
    losses = evaluate([(algorithm, candidate, world) for world in worlds])
    rows = [
        Row(algorithm=algorithm, repetition=world, loss=loss)
        for world, loss in zip(worlds, losses, strict=True)
    ]
    return summarise(rows)[0]


@contextmanager
def _evaluator(
    settings: Settings, goal: Goal, processes: int, on_run: Callable[[], None]
) -> Iterator[Evaluate]:
    """Yield a function that plays tasks and returns their harms in order."""

    def counted(harms: Iterator[float]) -> list[float]:
        found = []
        for harm in harms:
            found.append(harm)
            on_run()
        return found

    if processes == 1:
        yield lambda tasks: counted(_harm(settings, goal, task) for task in tasks)
        return
    with WorkerPool(processes) as pool:
        try:
            yield lambda tasks: counted(pool.map(partial(_harm, settings, goal), tasks))
        finally:
            pool.shutdown(cancel_futures=True)


def _harm(settings: Settings, goal: Goal, task: Task) -> float:
    algorithm, candidate, world = task
    attacked = replace(settings, attack=candidate.attack, knobs=candidate.knobs)
    return run_repetition(attacked, algorithm, world, goal).loss
