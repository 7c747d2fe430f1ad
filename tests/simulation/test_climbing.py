from __future__ import annotations

import numpy as np
import pytest

from unswayed.simulation.attack_search import climb
from unswayed.simulation.attacks.registry import ATTACKS, knobs_of
from unswayed.simulation.search_space import KNOBS, Between, Candidate, n_numbers, stepped

TOP = 0.7


class Hill:
    """A smooth harm whose top is where all numbers of the attack are at .7 of their range."""

    def __init__(self) -> None:
        self.asked: list[Candidate] = []

    def __call__(self, candidates: list[Candidate]) -> list[float]:
        """Return one less the squared distance from the top."""
        self.asked += candidates
        return [1.0 - self._distance(candidate) for candidate in candidates]

    @staticmethod
    def _distance(candidate: Candidate) -> float:
        ranges = KNOBS[candidate.attack]
        places = [
            r.place(candidate.knobs[knob]) for knob, r in ranges.items() if isinstance(r, Between)
        ]
        return float(((np.array(places) - TOP) ** 2).sum())


def test_a_climb_reaches_the_top_of_a_smooth_hill(rng: np.random.Generator) -> None:
    """From .44 away to less than .05 of the range for each of four knobs on average.

    A random direction is uphill on one of its sides, unless it is a contour; steps are halved only
    where neither is, so that the last one, .01, is not reached before the slopes have become small.
    """
    hill = Hill()
    start = Candidate("tailored", (0.3, 0.5, 0.5, 0.3, 0.9, 0.6, 0.5))
    top = climb(start, hill, steps=60, rng=rng)
    assert hill([top])[0] > 1.0 - 4 * 0.05**2
    assert hill([start])[0] < 0.7
    assert top.knobs["direction"] == start.knobs["direction"]


def test_a_climb_never_ends_below_its_start_and_keeps_to_its_steps(
    rng: np.random.Generator,
) -> None:
    for steps in (1, 3, 10):
        hill = Hill()
        start = Candidate("tailored", tuple(rng.random(len(KNOBS["tailored"]))))
        top = climb(start, hill, steps=steps, rng=rng)
        assert len(hill.asked) <= 1 + 2 * steps
        assert hill([top])[0] >= hill([start])[0]


@pytest.mark.parametrize(("attack", "steps"), [("honest", 5), ("hiding", 5), ("push", 0)])
def test_where_nothing_can_be_turned_nothing_is_asked(
    attack: str, steps: int, rng: np.random.Generator
) -> None:
    hill = Hill()
    assert climb(Candidate(attack), hill, steps=steps, rng=rng) == Candidate(attack)
    assert hill.asked == []


def test_attacks_as_they_come_can_be_stepped_from_their_own_knobs() -> None:
    for attack, ranges in KNOBS.items():
        before = knobs_of(ATTACKS[attack])
        same = stepped(Candidate(attack), np.zeros(n_numbers(attack))).knobs
        for knob, r in ranges.items():
            value = before[knob]
            if isinstance(r, Between) and r.low <= float(value) <= r.high:
                assert same[knob] == pytest.approx(value)
