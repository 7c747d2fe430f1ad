"""`unswayed attacks`: what a coalition can try."""

from __future__ import annotations

from typing import Annotated

import typer

from unswayed.cli.options import Json
from unswayed.reports.tables import print_json, print_line, print_table
from unswayed.simulation.attacks.registry import Knob, attacks_by_name, knobs_of

#: Ours: longer defaults are shown in --json only.
_LONGEST_KNOB = 16

#: What an attack may know.
_KNOWN = {
    "O": "their aim alone, whose rival is the best action",
    "B": "the bandit",
    "A": "the algorithm",
    "H": "the histories of all users",
}


def attacks(
    long: Annotated[
        bool, typer.Option("--long", help="Also print what each attack does, and its knobs.")
    ] = False,
    json: Json = False,
) -> None:
    """List the simulator's attacks by what they know; --long explains each."""
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
        return
    if long:
        print_table(
            "Attacks",
            ["name", "knows", "what it does", "knobs"],
            [
                [
                    kind.name,
                    kind.knows.letters,
                    kind.summary,
                    " ".join(f"{knob}={_shown(value)}" for knob, value in knobs_of(kind).items()),
                ]
                for kind in kinds
            ],
            note=f"knows: {', '.join(f'{letter} {what}' for letter, what in _KNOWN.items())}.",
        )
        return
    for letters in dict.fromkeys(kind.knows.letters for kind in kinds):
        known = " and ".join(_KNOWN[letter] for letter in letters)
        names = ", ".join(kind.name for kind in kinds if kind.knows.letters == letters)
        print_line(f"Knowing {known}: {names}.")
    print_line("--long says what each does.")


def _shown(value: Knob) -> str:
    """Return a knob's default, unless it is long, as that of a secret is."""
    text = str(value)
    return text if len(text) <= _LONGEST_KNOB else "…"
