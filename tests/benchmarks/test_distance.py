"""The limit that learners are compared with is exact."""

from __future__ import annotations

import pytest

from distance import ALPHAS, ATTACKS, KINDS, PLAYS, attacked, limit, turned
from unswayed.limits import smallest_coalition


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_gap_at_the_limit_takes_just_the_stated_coalition(alpha: float) -> None:
    """Honest users with one rate: the limits' exact formula, and a perfectly hidden coalition."""
    kind = KINDS["one context"]
    gap = limit(kind, alpha)
    base = kind.base - gap / 2.0
    assert float(smallest_coalition(gap, PLAYS, base=base)) == pytest.approx(alpha)
    # More contexts to be detected in, or tastes to hide among, move it in the right direction.
    assert limit(KINDS["ten contexts"], alpha) < gap < limit(KINDS["tastes"], alpha)


def test_a_hidden_coalition_makes_both_arms_look_alike() -> None:
    """At the limit both arms have equal mean totals; far above it they differ."""
    kind, alpha = KINDS["one context"], 0.2
    for ratio, is_hidden in ((1.0, True), (2.0, False)):
        world = attacked(kind, ratio * limit(kind, alpha), alpha, "hide", seed=0)
        means = [world.rewards[world.actions == arm].mean() for arm in (0, 1)]
        # 1,500 users of 20 plays an arm: deviations of .003 and more between users.
        assert (abs(means[0] - means[1]) < 0.02) == is_hidden


def test_the_plain_mean_is_turned_far_above_the_limit_and_the_oracle_nowhere() -> None:
    kind, alpha = KINDS["one context"], 0.2
    gap = limit(kind, alpha)
    assert turned(kind, 2.0 * gap, alpha, "nuke", "naive-mean", 2)
    assert not any(turned(kind, gap, alpha, attack, "oracle", 1) for attack in ATTACKS)
    assert len(ATTACKS) == 12
