"""All attacks by name, wrappers that use another attack part of the time, and knob parsing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter, signature

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.names import find
from unswayed.plugins import load_plugins
from unswayed.simulation.attacks import loud, shifts
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knob,
    Knowledge,
    Offer,
    PlayedRound,
    Replaying,
    Turn,
    at_least,
    fraction,
)

__all__ = ["ATTACKS", "Knob", "attacks_by_name", "knobs_of", "make_attack"]


class Wrapper(Replaying):
    """Base class of attacks that use another attack while awake and replay histories while asleep.

    The wrapper knows histories and whatever the inner attack knows; the inner attack gets only the
    knowledge that it declares.
    """

    inner: Attack

    def __post_init__(self) -> None:
        super().__post_init__()
        self.knows = type(self).knows | self.inner.knows
        self.is_eager = self.inner.is_eager

    @abstractmethod
    def is_awake(self, round_number: int) -> bool:
        """Return whether the inner attack is used in this round."""

    def enrol(self, offer: Offer, rng: np.random.Generator) -> IntArray | None:
        return self.inner.enrol(offer, rng)

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        self.inner.begin(replace(briefing, knows=self.inner.knows), rng)

    def contexts(self, turn: Turn) -> IntArray:
        return self.inner.contexts(turn) if self.is_awake(turn.round_number) else turn.contexts

    def rewards(self, turn: Turn) -> FloatArray:
        if self.is_awake(turn.round_number):
            return self.inner.rewards(turn)
        return self.replayed(turn.contexts)

    def observe(self, played: PlayedRound) -> None:
        super().observe(played)
        if Knowledge.HISTORIES in self.inner.knows:
            self.inner.observe(played)


class Sleeper(Wrapper):
    """Replays good histories for a while, then plays another attack.

    ``wake`` is the share of rounds before the attack starts. The default is the phase in which the
    paper's method estimates context probabilities and ignores rewards.
    """

    wake: float = fraction(0.2)

    def is_awake(self, round_number: int) -> bool:
        return round_number >= self.wake * self.briefing.interactions_per_user


class OnOff(Wrapper):
    """Replays good histories and plays another attack in alternating epochs."""

    period: int = at_least(1, 5)  # rounds per epoch; the first epoch is honest

    def is_awake(self, round_number: int) -> bool:
        return (round_number // self.period) % 2 == 1


DEFAULT_INNER = "push"  # Ours: default inner attack of wrappers

ATTACKS: dict[str, type[Attack]] = {
    kind.name: kind
    for kind in (
        loud.Honest,
        loud.Push,
        loud.Nuke,
        loud.Flip,
        loud.Average,
        loud.Bandwagon,
        loud.PowerUser,
        loud.RunnerUpSwap,
        loud.Extreme,
        loud.HeavyTail,
        shifts.TrimEdge,
        shifts.HideInCovariance,
        shifts.VarianceShell,
        shifts.Subtractive,
        shifts.Framing,
        shifts.Scapegoats,
        Sleeper,
        OnOff,
        loud.ContextPoisoning,
        loud.FrequencyFlood,
        loud.IdGrinding,
        loud.Mimicry,
        shifts.ShiftedReplay,
        shifts.Focus,
        shifts.Ladder,
        shifts.HidingOneSided,
        shifts.HidingTwoSided,
    )
}
"""All attacks by name; add your own, as docs/extend.md shows."""


def attacks_by_name() -> dict[str, type[Attack]]:
    """Return all attacks by name, including those of plugins."""
    load_plugins()
    return ATTACKS


def knobs_of(kind: type[Attack]) -> dict[str, Knob]:
    """Return an attack's knobs with their defaults."""
    return {
        knob.name: DEFAULT_INNER if knob.default is Parameter.empty else knob.default
        for knob in signature(kind).parameters.values()
    }


def make_attack(name: str, knobs: Mapping[str, Knob] | None = None) -> Attack:
    """Create a new attack from its name and knobs; text is converted to the type of the default.

    Wrappers name their attack by ``inner``, and the knobs of that attack start with ``inner.``.

    >>> make_attack("push", {"strength": "0.5"})
    Push(strength=0.5, filler=0.0)
    >>> make_attack("sleeper", {"inner": "extreme", "inner.magnitude": 9}).inner
    Extreme(magnitude=9.0)
    """
    kind = find(name, attacks_by_name(), kind="attack")
    own = dict(knobs or {})
    chosen: dict[str, object] = {}
    if issubclass(kind, Wrapper):
        inner = str(own.pop("inner", DEFAULT_INNER))
        inner_knobs = {knob: own.pop(knob) for knob in list(own) if knob.startswith("inner.")}
        chosen["inner"] = make_attack(
            inner, {knob.removeprefix("inner."): value for knob, value in inner_knobs.items()}
        )
    for knob, value in own.items():
        default = find(knob, knobs_of(kind), kind=f"knob of attack {name}")
        try:
            chosen[knob] = type(default)(value)
        except ValueError:
            wanted = "a whole number" if isinstance(default, int) else "a number"
            raise InputError(f"knob {knob} of attack {name} is '{value}': give {wanted}.") from None
    return kind(**chosen)
