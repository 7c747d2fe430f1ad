"""User weights are calibrated: honest users keep theirs, and colluders lose it."""

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
"""Largest share of honest users with less than half of their weight."""

GROUPS = {"minority", "skewed"}
"""Tastes by which honest users form a group, which docs/learner.md says may be flagged."""


def weights_of(world: World) -> npt.NDArray[np.float64]:
    """Return the weight that each user keeps."""
    design = design_of_log(world.tallies, "auto")
    return learn_bounded(world.tallies, design, alpha=world.alpha).user_weights


@pytest.mark.slow
def test_without_an_attack_at_most_one_user_in_a_hundred_loses_half_its_weight(seed: int) -> None:
    """All clean worlds of the development part in which honest users do not form a group."""
    found = [s for s in specs("development") if s.attack == "none" and not s.source]
    designs = cycle(DESIGNS)
    peaceful = [replace(spec, design=next(designs)) for spec in found]
    assert {s.rewards for s in peaceful} == {"binary", "normal", "stars", "scale", "likes"}
    assert {s.tastes for s in peaceful} > GROUPS
    peaceful = [spec for spec in peaceful if spec.tastes not in GROUPS]
    kept = np.concatenate([weights_of(build(spec, seed)) for spec in peaceful])
    assert (kept < 0.5).mean() <= LARGEST_SHARE
    assert ((kept >= 0.0) & (kept <= 1.0)).all()


def test_colluders_in_the_same_worlds_lose_half_their_weight(seed: int) -> None:
    """Negative control: weights that never decrease would be calibrated as well.

    If good users have equal means, 40 plays times 2/5 in attacked cells identify a colluder: 16
    lies, each far from honest rewards.
    """
    spec = next(s for s in specs("development") if s.attack == "push" and s.n_actions == 5)
    world = build(replace(spec, alpha=0.2, zipf=0.0, n_contexts=20), seed)
    kept = weights_of(world)
    assert (kept[world.is_bad] < 0.5).mean() > 0.9
    assert (kept[~world.is_bad] < 0.5).mean() <= LARGEST_SHARE
