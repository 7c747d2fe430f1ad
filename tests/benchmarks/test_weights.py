"""User weights are calibrated: honest users keep their weight, whatever their tastes."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

from unswayed.learners.bounded import learn_bounded
from unswayed.learners.design import design_of_log
from worlds import World, build, specs

DESIGNS: tuple[Literal["sticky", "uniform", "mixed"], ...] = ("sticky", "uniform", "mixed")
LARGEST_SHARE = 0.01
"""What the project promises: users below one half, where nobody attacks."""


def weights_of(world: World) -> npt.NDArray[np.float64]:
    """Return the weight that each user keeps."""
    design = design_of_log(world.tallies, "auto")
    return learn_bounded(world.tallies, design, alpha=world.alpha).user_weights


@pytest.mark.slow
def test_without_an_attack_one_user_in_a_hundred_at_most_falls_under_one_half(seed: int) -> None:
    """All clean worlds of the development part: five kinds of taste, no taste, and ratings.

    The promise is about users of all worlds together. A single world loses no honest user or, if a
    group is mistaken for a coalition, about a tenth.
    """
    found = [s for s in specs("development") if s.attack == "none" and not s.source]
    designs = cycle(DESIGNS)
    peaceful = [replace(spec, design=next(designs)) for spec in found]
    assert {s.rewards for s in peaceful} == {"binary", "normal", "stars", "scale", "likes"}
    assert len({s.tastes for s in peaceful}) == 6
    kept = np.concatenate([weights_of(build(spec, seed)) for spec in peaceful])
    assert (kept < 0.5).mean() <= LARGEST_SHARE
    assert (kept >= 0.0).all()
    assert (kept <= 1.0).all()


def test_colluders_fall_under_one_half_where_the_same_worlds_are_attacked(seed: int) -> None:
    """Negative control: weights that never decrease would be calibrated, too.

    Where good users share one mean, a colluder who pushes is told from them by 40 plays times 2/5
    in attacked cells: 16 lies, each far from what an honest user says.
    """
    spec = next(s for s in specs("development") if s.attack == "push" and s.n_actions == 5)
    world = build(replace(spec, alpha=0.2, zipf=0.0, n_contexts=20), seed)
    kept = weights_of(world)
    assert (kept[world.is_bad] < 0.5).mean() > 0.9
    assert (kept[~world.is_bad] < 0.5).mean() <= LARGEST_SHARE
