"""All attacks by name, and how to make one from text."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature

from unswayed.errors import InputError
from unswayed.simulation.attacks.base import Attack
from unswayed.simulation.attacks.flip import Flip
from unswayed.simulation.attacks.honest import Honest
from unswayed.simulation.attacks.loud import Nuke, Push
from unswayed.simulation.names import find

Knob = float | int | str

ATTACKS: dict[str, type[Attack]] = {kind.name: kind for kind in (Honest, Flip, Push, Nuke)}


def knobs_of(kind: type[Attack]) -> dict[str, Knob]:
    """Return an attack's knobs with their defaults."""
    return {knob.name: knob.default for knob in signature(kind).parameters.values()}


def make_attack(name: str, knobs: Mapping[str, Knob] | None = None) -> Attack:
    """Make a fresh attack by its name.

    Parameters
    ----------
    knobs
        The attack's own options; text is read as the type of the default.

    >>> make_attack("push", {"strength": "0.5"})
    Push(strength=0.5, filler=0.0)
    """
    kind = find(name, ATTACKS, kind="attack")
    known = knobs_of(kind)
    chosen: dict[str, Knob] = {}
    for knob, value in (knobs or {}).items():
        default = find(knob, known, kind=f"knob of attack {name}")
        try:
            chosen[knob] = type(default)(value)
        except ValueError:
            raise InputError(
                f"knob {knob} of attack {name} is '{value}': it must be "
                f"{'a whole number' if isinstance(default, int) else 'a number'}."
            ) from None
    return kind(**chosen)
