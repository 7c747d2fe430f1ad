"""All attacks by name, and how to make one from text."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature

from unswayed.errors import InputError
from unswayed.names import find
from unswayed.plugins import load_plugins
from unswayed.simulation.attacks import best_response, loud, shifts, wrappers
from unswayed.simulation.attacks.base import Attack, Knob

__all__ = ["ATTACKS", "Knob", "attacks_by_name", "knobs_of", "make_attack"]

DEFAULT_INNER = "push"
"""Ours: default inner attack of wrappers."""

ATTACKS: dict[str, type[Attack]] = {
    kind.name: kind
    for kind in (
        loud.Honest,
        loud.Flip,
        loud.Push,
        loud.Nuke,
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
        wrappers.Sleeper,
        wrappers.OnOff,
        wrappers.EpochSleeper,
        wrappers.EpochOnOff,
        wrappers.EpochStrike,
        wrappers.ThrowawayAccounts,
        wrappers.ExplorerFlood,
        loud.ContextPoisoning,
        loud.FrequencyFlood,
        loud.IdGrinding,
        loud.Mimicry,
        best_response.ShiftedReplay,
        shifts.Lockstep,
        shifts.PrivateSubsets,
        shifts.Focus,
        shifts.SubCoalitions,
        shifts.Ladder,
        shifts.HidingOneSided,
        shifts.HidingTwoSided,
        best_response.Tailored,
        best_response.BestResponse,
    )
}
"""All attacks by name; add your own, as docs/extend.md shows."""


def attacks_by_name() -> dict[str, type[Attack]]:
    """Return all attacks by name, those of plugins included."""
    load_plugins()
    return ATTACKS


def knobs_of(kind: type[Attack]) -> dict[str, Knob]:
    """Return an attack's knobs with their defaults."""
    return {
        knob.name: DEFAULT_INNER if knob.default is Parameter.empty else knob.default
        for knob in signature(kind).parameters.values()
    }


def make_attack(name: str, knobs: Mapping[str, Knob] | None = None) -> Attack:
    """Make a fresh attack by its name.

    Parameters
    ----------
    knobs
        The attack's own options; text is read as the type of the default. Attacks that wrap
        another name it by ``inner``, and its knobs start with ``inner.``.

    >>> make_attack("push", {"strength": "0.5"})
    Push(strength=0.5, filler=0.0)
    >>> make_attack("sleeper", {"inner": "extreme", "inner.magnitude": 9}).inner
    Extreme(magnitude=9.0)
    """
    kind = find(name, attacks_by_name(), kind="attack")
    own = dict(knobs or {})
    chosen: dict[str, object] = {}
    if issubclass(kind, wrappers.Wrapper):
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
