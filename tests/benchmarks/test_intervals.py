"""Intervals cover the honest users' means, with and without tastes, with and without an attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from unswayed.learners.bounded import learn_bounded
from unswayed.learners.design import design_of_log
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import FAILURE_PROBABILITY
from worlds import Spec, World, build

ALPHA = 0.2
KINDS = [("binary", "sticky"), ("binary", "uniform"), ("normal", "sticky"), ("normal", "uniform")]
PEACE = Spec(
    name="intervals",
    family="tests",
    n_users=1000,
    n_contexts=20,
    n_actions=5,
    plays=40,
    alpha=ALPHA,
    attack="none",
    taste_size=0.12,
)


def of_kind(spec: Spec, rewards: str, design: str) -> Spec:
    """Return the same world with other rewards and numbers of plays."""
    name = f"{spec.tastes} {spec.attack} {rewards} {design}"
    return replace(spec, name=name, rewards=rewards, design=design)  # type: ignore[arg-type]


def learn(world: World, alpha: float) -> Estimates:
    """Learn from a world with the design inferred from its log."""
    design = design_of_log(world.tallies, "auto")
    return learn_bounded(world.tallies, design, alpha=alpha)


def fewest_inside(n_cells: int) -> float:
    """Return the coverage count reached with probability .999 at the stated level."""
    return float(stats.binom.ppf(0.001, n_cells, 1.0 - FAILURE_PROBABILITY))


@pytest.mark.parametrize("tastes", ["none", "idiosyncratic"])
def test_without_an_attack_the_sampling_part_has_the_stated_coverage(
    tastes: str, seed: int
) -> None:
    """The mean is over the sampled users, so tastes only increase coverage.

    Minorities with correlated tastes are excluded, since they may be flagged (docs/learner.md).
    """
    inside, whole = 0, 0
    for kind in KINDS:
        world = build(of_kind(replace(PEACE, tastes=tastes), *kind), seed)
        estimates = learn(world, ALPHA)
        errors = np.abs(estimates.mean_rewards - world.true_means)
        inside += int((errors <= estimates.sampling_errors).sum())
        whole += int((errors <= estimates.sampling_errors + estimates.bias_bounds).sum())
    assert inside >= fewest_inside(400)
    assert whole >= inside


@pytest.mark.parametrize(
    ("tastes", "attack", "strength", "kinds"),
    [
        ("none", "push", 1.0, KINDS),
        ("none", "shift", 0.25, KINDS),
        ("idiosyncratic", "lockstep", 0.4, KINDS),
        ("rank two", "push", 1.0, KINDS[1:3]),
    ],
)
def test_under_attack_intervals_cover_but_the_pooled_mean_is_off_by_more_than_chance(
    tastes: str, attack: str, strength: float, kinds: list[tuple[str, str]], seed: int
) -> None:
    """The attack moves the mean of every best action by at least .2 · .25 = .05.

    A cell has 1000 · 40 / 100 = 400 plays. Means of binary rewards have standard error .025, so the
    moved mean is within 1.645 standard errors with probability Φ(1.645 − 2) = .36; for normal
    rewards (.015) it is .05. With at least 40 cells, half of each kind, half of the means are
    inside with P < 1e-4.
    """
    spec = replace(PEACE, tastes=tastes, attack=attack, strength=strength)
    inside, by_chance = 0, 0
    for kind in kinds:
        world = build(of_kind(spec, *kind), seed)
        estimates, pooled = learn(world, ALPHA), learn(world, 0.0)
        half_width = estimates.sampling_errors + estimates.bias_bounds
        inside += int((np.abs(estimates.mean_rewards - world.true_means) <= half_width).sum())
        best = np.arange(20), world.true_means.argmax(axis=1)
        errors = np.abs(pooled.mean_rewards - world.true_means)[best]
        by_chance += int((errors <= pooled.sampling_errors[best]).sum())
    assert inside >= fewest_inside(100 * len(kinds))
    assert by_chance < 0.5 * 20 * len(kinds)


def test_more_users_shrink_the_sampling_part_of_intervals(seed: int) -> None:
    spec = of_kind(PEACE, "normal", "uniform")
    few = learn(build(spec, seed), ALPHA)
    many = learn(build(replace(spec, n_users=4000), seed), ALPHA)
    wary = learn(build(spec, seed), 0.4)
    # The number of plays of a cell varies by 1/sqrt(400) = 5%, variances of rewards vary less: the
    # root of their ratio, averaged over 100 cells, is within 1% of 2.
    assert (few.sampling_errors / many.sampling_errors).mean() == pytest.approx(2.0, rel=0.03)
    # Caps depend on the share, which changes the sampling part slightly.
    np.testing.assert_allclose(wary.sampling_errors, few.sampling_errors, rtol=0.1)
