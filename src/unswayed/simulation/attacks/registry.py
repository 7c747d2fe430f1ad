"""All attacks by name, and how to make one from text."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature

from unswayed.errors import InputError
from unswayed.names import find
from unswayed.plugins import load_plugins
from unswayed.simulation.attacks.base import Attack
from unswayed.simulation.attacks.best_response import BestResponse, ShiftedReplay, Tailored
from unswayed.simulation.attacks.loud import (
    Average,
    Bandwagon,
    ContextPoisoning,
    Extreme,
    Flip,
    FrequencyFlood,
    HeavyTail,
    Honest,
    IdGrinding,
    Mimicry,
    Nuke,
    PowerUser,
    Push,
    RunnerUpSwap,
)
from unswayed.simulation.attacks.shifts import (
    Focus,
    Framing,
    HideInCovariance,
    HidingOneSided,
    HidingTwoSided,
    Ladder,
    Lockstep,
    PrivateSubsets,
    Scapegoats,
    SubCoalitions,
    Subtractive,
    TrimEdge,
    VarianceShell,
)
from unswayed.simulation.attacks.wrappers import (
    EpochOnOff,
    EpochSleeper,
    EpochStrike,
    ExplorerFlood,
    OnOff,
    Sleeper,
    ThrowawayAccounts,
    Wrapper,
)

Knob = float | int | str

DEFAULT_INNER = "push"
"""Ours: what a wrapper wraps by default."""

ATTACKS: dict[str, type[Attack]] = {
    kind.name: kind
    for kind in (
        Honest,
        Flip,
        Push,
        Nuke,
        Average,
        Bandwagon,
        PowerUser,
        RunnerUpSwap,
        Extreme,
        HeavyTail,
        TrimEdge,
        HideInCovariance,
        VarianceShell,
        Subtractive,
        Framing,
        Scapegoats,
        Sleeper,
        OnOff,
        EpochSleeper,
        EpochOnOff,
        EpochStrike,
        ThrowawayAccounts,
        ExplorerFlood,
        ContextPoisoning,
        FrequencyFlood,
        IdGrinding,
        Mimicry,
        ShiftedReplay,
        Lockstep,
        PrivateSubsets,
        Focus,
        SubCoalitions,
        Ladder,
        HidingOneSided,
        HidingTwoSided,
        Tailored,
        BestResponse,
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
