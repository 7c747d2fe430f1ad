"""`unswayed attacks`: what a coalition can try."""

from __future__ import annotations

from unswayed.cli.options import Json
from unswayed.reports.tables import print_json, print_table
from unswayed.simulation.attacks.registry import Knob, attacks_by_name, knobs_of

#: Ours: longer defaults are shown in --json only.
_LONGEST_KNOB = 16


def attacks(
    json: Json = False,
) -> None:
    """List the simulator's attacks, what each knows, and its parameters (knobs)."""
    if json:
        print_json(
            [
                {
                    "name": kind.name,
                    "knows": kind.knows.letters,
                    "summary": kind.summary,
                    "knobs": knobs_of(kind),
                }
                for kind in attacks_by_name().values()
            ]
        )
        return
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
            for kind in attacks_by_name().values()
        ],
        note="knows: O nothing, B the bandit, A the algorithm, H the histories of all users.",
    )


def _shown(value: Knob) -> str:
    """Return a knob's default, unless it is long, as that of a secret is."""
    text = str(value)
    return text if len(text) <= _LONGEST_KNOB else "…"
