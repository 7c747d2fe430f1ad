"""What each ingredient of the discounting learner buys: take one away at a time.

The learner has no switches; ingredients are taken out here, by putting something idle in their
place. Worlds are those that constants were chosen on, so that nothing is learned from the others: a
random third of each family of the development part.

Run ``python benchmarks/ablation.py`` for tables, with ``--json`` for one JSON document,
``--without`` and ``--family`` for a part of it. Worlds that come out as with the whole learner are
counted as such: most ingredients matter in few of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from accuracy import WORSE_THAN_NAIVE, random_third
from unswayed.learners.discount import method
from unswayed.learners.discount.loud import SampledPlays
from unswayed.learners.discount.loud import coalition as loud_coalition
from unswayed.learners.discount.loud.rounds import LoudLies
from unswayed.learners.discount.one_mean import rounds
from unswayed.learners.discount.responses import clipping
from unswayed.learners.discount.settings import MASS_MARGIN, MEAN
from unswayed.learners.discount.tastes import populations
from unswayed.learners.discount.tastes import rounds as taste_rounds
from unswayed.learners.discount.trial import aims, verdicts
from unswayed.learners.discount.trial.verdicts import Discounted
from worlds import build, specs
from worlds.replays import is_installed

WHOLE, POOLED, ORACLE = "nothing", "everything: the plain mean", "oracle"
FAMILIES = ("loud", "hidden", "rated", "real")
NEVER = np.inf


def _one_mean_finds_nobody(_: Any, weights: Any, **__: Any) -> tuple[Discounted, list[Any]]:
    return Discounted(weights, False, []), []


def _no_loud_lies(plays: SampledPlays, **_: Any) -> LoudLies:
    return LoudLies(np.ones(plays.tallies.n_users), [], [])


_fit_populations = populations.fit_populations


def _nobody_is_alike(*data: Any, **options: Any) -> populations.Populations:
    return _fit_populations(*data, **{**options, "may_be_alike": False})


def _no_null(candidate: Any, null_gain: float, _: Any) -> tuple[float, bool]:
    return null_gain, candidate.finding.accusation.gain > MEAN.clear_gain


Replacement = tuple[ModuleType, str, Any]
INGREDIENTS: dict[str, tuple[Replacement, ...]] = {
    WHOLE: (),
    "nulls": (
        (rounds, "_held_against_chance", _no_null),
        (taste_rounds, "_null_gains", lambda *_, **__: {False: 0.0, True: 0.0}),
    ),
    "loud lies": ((method, "discount_loud_lies", _no_loud_lies),),
    "knowing what wins": ((verdicts, "AIM_LEVEL", 1.0), (aims, "AIM_LEVEL", 1.0)),
    "stage with tastes": (
        (method, "has_tastes", lambda *_: False),
        (method, "FEW_CELLS", 0.0),
    ),
    "stage with one mean": (
        (method, "discount_coalitions", _one_mean_finds_nobody),
        (method, "has_tastes", lambda *_: True),
    ),
    "alignment with decisions": (
        (rounds, "CLEAR_ALIGNMENT", NEVER),
        (verdicts, "CLEAR_ALIGNMENT", NEVER),
        (taste_rounds, "CLEAR_ALIGNMENT", NEVER),
    ),
    "alikeness of colluders": (
        (populations, "fit_populations", _nobody_is_alike),
        (taste_rounds, "fit_populations", _nobody_is_alike),
    ),
    "more room for those who aim": (
        (rounds, "ROOM", 0.0),
        (loud_coalition, "ROOM", MASS_MARGIN),
        (taste_rounds, "ROOM", 0.0),
    ),
    "models of rivals only": ((rounds, "RIVAL_SHRINKAGES", ()),),
    "leaning cells": ((method, "upright_means", lambda means, *_: means),),
    "cap on floods": ((clipping, "FLOOD_CAP", (1e9, 1e9)),),
    "guard": ((method, "allowed_actions", lambda guard: np.ones(guard.low.shape, np.bool_)),),
}


@dataclass(frozen=True, slots=True)
class Row:
    """What was lost in one world without one ingredient."""

    without: str
    family: str
    world: str
    seed: int
    suboptimality: float
    whole: float
    naive: float


@contextmanager
def taken_out(name: str) -> Iterator[None]:
    """Let the learner do without an ingredient; one that does not exist any more is an error."""
    with ExitStack() as stack:
        for module, attribute, idle in INGREDIENTS[name]:
            stack.enter_context(patch.object(module, attribute, idle))
        yield


def measure(names: list[str], families: list[str], seeds: list[int]) -> list[Row]:
    """Return the losses without each ingredient, beside the whole learner, pooled and oracle."""
    rows: list[Row] = []
    for spec in random_third([s for s in specs("development") if s.family in families]):
        for seed in seeds:
            world = build(spec, seed)
            losses = {}
            for name in [WHOLE, *names]:
                with taken_out(name):
                    learned = world.learn("discount")
                    losses[name] = world.suboptimality(world.decided(learned))
            losses[POOLED] = world.suboptimality(world.naive())
            losses[ORACLE] = world.suboptimality(world.oracle())
            for name, loss in losses.items():
                about = (name, spec.family, spec.name, seed)
                rows.append(Row(*about, loss, losses[WHOLE], losses[POOLED]))
    return rows


def report(rows: list[Row]) -> None:
    """Print a line for each ingredient: mean losses, worlds that changed, worse than naive."""
    families = list(dict.fromkeys(row.family for row in rows))
    print("| without | " + " | ".join(families) + " | worlds changed | worst change | worse |")
    print("|---|" + "---|" * (len(families) + 3))
    for name in dict.fromkeys(row.without for row in rows):
        ours = [row for row in rows if row.without == name]
        means = [np.mean([r.suboptimality for r in ours if r.family == f]) for f in families]
        changes = np.array([row.suboptimality - row.whole for row in ours])
        changed = int((np.abs(changes) > 1e-9).sum())
        worse = sum(row.suboptimality > row.naive + WORSE_THAN_NAIVE for row in ours)
        cells = [f"{mean:.4f}" for mean in means]
        cells += [f"{changed} of {len(ours)}", f"{changes.max():+.4f}", str(worse)]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    """Parse the command line, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    choices = [name for name in INGREDIENTS if name != WHOLE]
    parser.add_argument("--without", nargs="+", choices=choices, default=choices)
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    families = [f for f in arguments.family if f != "real" or is_installed()]
    rows = measure(arguments.without, families, arguments.seeds)
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
        return
    report(rows)


if __name__ == "__main__":
    main()
