"""`unswayed attacks`: the attacks of the simulator."""

from __future__ import annotations

from unswayed.cli.options import Json
from unswayed.reports.tables import print_json, print_line, print_table
from unswayed.simulation.attacks.base import Attack
from unswayed.simulation.attacks.registry import attacks_by_name, knobs_of

#: Ours: longer defaults are shown only in --json.
_LONGEST_KNOB = 16

#: What an attack of each kind of knowledge knows.
_KNOWN = {
    "O": "their aim alone, whose rival is the best action",
    "B": "the bandit",
    "A": "the algorithm",
    "H": "the histories of all users",
}


def attacks(long: bool = False, json: Json = False) -> None:
    """List the simulator's attacks by the knowledge that they need; --long explains each.

    long: Also describe each attack and its knobs.
    """
    kinds = list(attacks_by_name().values())
    if json:
        print_json(
            [
                {
                    "name": kind.name,
                    "knows": kind.knows.letters,
                    "summary": kind.summary,
                    "knobs": knobs_of(kind),
                }
                for kind in kinds
            ]
        )
    elif long:
        known = ", ".join(f"{letter} {what}" for letter, what in _KNOWN.items())
        print_table(
            "Attacks",
            ["name", "knows", "what it does", "knobs"],
            [[kind.name, kind.knows.letters, kind.summary, _knobs(kind)] for kind in kinds],
            note=f"knows: {known}.",
        )
    else:
        for letters in dict.fromkeys(kind.knows.letters for kind in kinds):
            known = " and ".join(_KNOWN[letter] for letter in letters)
            names = ", ".join(kind.name for kind in kinds if kind.knows.letters == letters)
            print_line(f"Knowing {known}: {names}.")
        print_line("--long says what each does.")


def _knobs(kind: type[Attack]) -> str:
    """Return an attack's knobs with their defaults; long ones such as a secret are shown as "…"."""
    shown = {knob: str(value) for knob, value in knobs_of(kind).items()}
    return " ".join(
        f"{knob}={text if len(text) <= _LONGEST_KNOB else '…'}" for knob, text in shown.items()
    )
