from __future__ import annotations

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.limits.planner import plan_traffic
from unswayed.simulation.planned import fewest_plays, search_words

FOUR = np.full(4, 0.25)
PLAN = plan_traffic(FOUR, 4, 0.25, 0.15, 0.1)
PLANNED = PLAN.methods[0].interactions_per_user


def test_a_search_in_a_small_world_is_real() -> None:
    """Under one attack, with few repetitions; the share that meets the target is counted."""
    found = fewest_plays(PLAN, FOUR, "paper", attacks=("nuke",), repetitions=3)
    assert not found.is_scaled
    assert found.steps[0].interactions_per_user == PLANNED
    assert found.steps[0].holds  # as in test_planned, where this plan is verified
    assert any(not step.holds for step in found.steps)  # else the bound would have been reached
    assert found.interactions_per_user is not None
    sentence = search_words(found, PLAN)[0]
    assert f"In simulation {found.interactions_per_user:,} plays per user were enough" in sentence
    assert sentence.endswith("stayed within 0.15 under nuke, and again in fresh worlds.")


def test_an_unknown_method_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="magic"):
        fewest_plays(PLAN, FOUR, "magic")
