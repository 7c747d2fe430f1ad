"""All that a searching attacker can choose: an attack of the zoo and a value for each knob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.simulation.attacks.best_response import DIRECTIONS, PROMOTED, SHARED
from unswayed.simulation.attacks.registry import Knob, attacks_by_name, knobs_of

NEARBY = 0.15
"""Ours: how far a neighbour's knobs lie from a candidate's, as a share of their range."""

JUMP = 0.2
"""Ours: how often a neighbour takes another of a few choices."""


@dataclass(frozen=True, slots=True)
class Between:
    """A knob between two numbers, evenly or, if ``is_log``, evenly in its logarithm."""

    low: float
    high: float
    is_log: bool = False

    def value(self, unit: float) -> Knob:
        """Return the value at a place from 0 to 1."""
        if self.is_log:
            return float(self.low * (self.high / self.low) ** unit)
        return float(self.low + (self.high - self.low) * unit)

    def place(self, value: Knob) -> float:
        """Return the place of a value; of one beyond an end, the end."""
        number = min(max(float(value), self.low), self.high)
        if self.is_log:
            return float(np.log(number / self.low) / np.log(self.high / self.low))
        return (number - self.low) / (self.high - self.low)

    def nearby(self, unit: float, rng: np.random.Generator) -> float:
        """Return a place nearby, reflected at the ends."""
        moved = abs(unit + NEARBY * rng.standard_normal()) % 2.0
        return float(min(moved, 2.0 - moved))


@dataclass(frozen=True, slots=True)
class OneOf:
    """A knob with a few choices."""

    choices: tuple[Knob, ...]

    def value(self, unit: float) -> Knob:
        """Return the choice at a place from 0 to 1."""
        return self.choices[min(int(unit * len(self.choices)), len(self.choices) - 1)]

    def place(self, value: Knob) -> float:
        """Return a place of a choice; of what is no choice, that of the first."""
        number = self.choices.index(value) if value in self.choices else 0
        return (number + 0.5) / len(self.choices)

    def nearby(self, unit: float, rng: np.random.Generator) -> float:
        """Return the same place or, now and then, any other."""
        return float(rng.random()) if rng.random() < JUMP else unit


Range = Between | OneOf

SHARE = Between(0.0, 1.0)
_LOUD: dict[str, Range] = {"strength": SHARE, "filler": SHARE}
_TAILORED: dict[str, Range] = {
    "magnitude": Between(0.01, 1.0, is_log=True),
    "direction": OneOf(tuple(DIRECTIONS)),
    "promoted": OneOf(PROMOTED),
    "honest": Between(0.0, 0.9),
    "contexts_share": SHARE,
    "opposed": Between(0.0, 0.5),
    "shared": OneOf(SHARED),
}
_INNER: dict[str, Range] = {"inner": OneOf(("push", "nuke", "runner-up-swap", "tailored"))}
_FRAMING: dict[str, Range] = {
    "strength": Between(0.2, 3.0, is_log=True),
    "decoys": Between(0.0, 0.2),
    "reach": Between(0.5, 3.9, is_log=True),
}

KNOBS: dict[str, Mapping[str, Range]] = {
    "honest": {},
    "flip": {"strength": Between(0.1, 10.0, is_log=True)},
    "push": _LOUD,
    "nuke": _LOUD,
    "average": {"strength": SHARE},
    "bandwagon": {"strength": SHARE},
    "power-user": {"strength": SHARE},
    "runner-up-swap": {"strength": SHARE},
    "extreme": {"magnitude": Between(0.5, 1000.0, is_log=True)},
    "heavy-tail": {"scale": Between(0.01, 100.0, is_log=True)},
    "trim-edge": {"trim": Between(0.0, 0.49)},
    "hide-in-covariance": {
        "threshold": Between(1.01, 5.0, is_log=True),
        "directions": OneOf((1, 2, 3, 5)),
    },
    "variance-shell": {"radius": Between(0.05, 2.0, is_log=True)},
    "subtractive": {"draws": OneOf((2, 3, 4, 6, 8, 16))},
    "framing": _FRAMING,
    "scapegoats": _FRAMING,
    "sleeper": {**_INNER, "wake": Between(0.0, 0.9)},
    "on-off": {**_INNER, "period": OneOf((1, 2, 3, 5, 10))},
    "epoch-sleeper": _INNER,
    "epoch-on-off": {**_INNER, "first": OneOf((0, 1))},
    "epoch-strike": {**_INNER, "epoch": OneOf((0, 1, 2, 3, 4, 5, 6))},
    "throwaway-accounts": _INNER,
    "explorer-flood": _INNER,
    "context-poisoning": {**_LOUD, "mode": OneOf(("inflate", "crowd"))},
    "frequency-flood": _LOUD,
    "id-grinding": _LOUD,  # whoever has the secret could do more; a searching attacker has not
    "mimicry": {"strength": SHARE},
    "shifted-replay": {
        "magnitude": Between(0.01, 1.0, is_log=True),
        "direction": OneOf(tuple(DIRECTIONS)),
    },
    "lockstep": {"strength": SHARE},
    "private-subsets": {"share": SHARE},
    "focus": {"share": SHARE, "mode": OneOf(("frequent", "random"))},
    "sub-coalitions": {"parts": OneOf((1, 2, 3, 5))},
    "ladder": {"height": Between(0.5, 50.0, is_log=True), "rungs": SHARE},
    "hiding": {"plays": OneOf((0, 1, 2, 5, 10))},
    "hiding-two-sided": {"plays": OneOf((0, 1, 2, 5, 10))},
    "tailored": _TAILORED,
}
"""Ours: the range of each knob. An attack of a plugin that is not listed is tried as it comes."""

_NOT_SEARCHED = ("best-response",)
"""A search of its own."""

ONLY_BINARY = ("hiding", "hiding-two-sided")
"""Attacks that need rewards of zeros and ones."""

PARAMETRIC = "tailored"
"""The family that gets half of the fresh draws: it has as many knobs as many attacks together."""


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
    known = [name for name in KNOBS if is_binary or name not in ONLY_BINARY]
    others = [name for name in attacks_by_name() if name not in (*KNOBS, *_NOT_SEARCHED)]
    return known + others


def ranges_of(attack: str) -> Mapping[str, Range]:
    """Return where each knob of an attack is looked for; empty for one without ranges."""
    return KNOBS.get(attack, {})


def drawn(attacks: list[str], rng: np.random.Generator) -> Candidate:
    """Draw a candidate anywhere: half of the time the parametric family, else any attack."""
    attack = PARAMETRIC if rng.random() < 0.5 else attacks[int(rng.integers(len(attacks)))]
    return Candidate(attack, tuple(float(u) for u in rng.random(len(ranges_of(attack)))))


def neighbour(of: Candidate, rng: np.random.Generator) -> Candidate:
    """Draw a candidate like another one; one as it comes gets any knobs."""
    ranges = ranges_of(of.attack)
    if of.units is None:
        return Candidate(of.attack, tuple(float(u) for u in rng.random(len(ranges))))
    return Candidate(
        of.attack,
        tuple(r.nearby(unit, rng) for r, unit in zip(ranges.values(), of.units, strict=True)),
    )


def n_numbers(attack: str) -> int:
    """Return how many knobs of an attack are numbers between two ends."""
    return sum(isinstance(r, Between) for r in ranges_of(attack).values())


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
