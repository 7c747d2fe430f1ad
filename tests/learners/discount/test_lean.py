"""Whether rewards are skewed, as most users' own rewards show it."""

from __future__ import annotations

import numpy as np
import pytest

from unswayed.learners.discount.responses.categories import LEAN
from unswayed.learners.discount.responses.sampling import lean_of_users
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import run_repetition
from unswayed.tallies import Tallies, tally
from worlds.production import (
    ProductionSpec,
    build_production,
    production_specs,
)

N_USERS, N_CELLS = 900, 10
FIVE_ERRORS = 5 * 1.2533 / np.sqrt(N_CELLS - 1) / np.sqrt(N_USERS)
"""Of the median over users of a rank correlation of ten pairs, whose deviation is 1/sqrt(9)."""


def log_of(noise: np.ndarray, *, means: np.ndarray, liars: float = 0.0) -> Tallies:
    """Return tallies of users who meet every cell equally often; liars lean as far as they can."""
    plays = noise.size // (N_USERS * N_CELLS)
    users = np.repeat(np.arange(N_USERS), N_CELLS * plays)
    cells = np.tile(np.repeat(np.arange(N_CELLS), plays), N_USERS)
    is_first = np.arange(noise.size) % plays == 0
    lies = np.where(cells == 0, 100.0, 0.001 * cells) * (1.0 + (plays > 1) * is_first)
    rewards = np.where(users < liars * N_USERS, lies, means[cells] + noise)
    zeros = np.zeros_like(users)
    return tally(users, zeros, cells, rewards, n_users=N_USERS, n_contexts=1, n_actions=N_CELLS)


@pytest.mark.parametrize("plays", [1, 3, 24])
def test_skewness_shows_however_many_plays_are_added_up(
    plays: int, rng: np.random.Generator
) -> None:
    noise = rng.normal(size=N_USERS * N_CELLS * plays)
    level = np.zeros(N_CELLS)
    assert abs(lean_of_users(log_of(noise, means=level))) < FIVE_ERRORS
    assert lean_of_users(log_of(np.exp(0.5 * noise), means=level)) > LEAN
    assert lean_of_users(log_of(-np.exp(0.5 * noise), means=level)) < -LEAN


@pytest.mark.parametrize("plays", [1, 3, 24])
def test_how_far_apart_cells_are_says_nothing_about_skewness(
    plays: int, rng: np.random.Generator
) -> None:
    noise = rng.normal(size=N_USERS * N_CELLS * plays)
    means = 3.0 * rng.exponential(size=N_CELLS)
    assert abs(lean_of_users(log_of(noise, means=means))) < FIVE_ERRORS


@pytest.mark.parametrize("plays", [1, 3, 24])
def test_a_fifth_of_the_users_cannot_lean_the_others(plays: int, rng: np.random.Generator) -> None:
    noise = rng.normal(size=N_USERS * N_CELLS * plays)
    level = np.zeros(N_CELLS)
    assert abs(lean_of_users(log_of(noise, means=level, liars=0.2))) < LEAN
    assert lean_of_users(log_of(np.exp(0.5 * noise), means=level, liars=0.2)) > LEAN


def test_few_users_and_rewards_that_never_vary_do_not_lean() -> None:
    constant = log_of(np.zeros(N_USERS * N_CELLS), means=np.arange(10.0))
    assert lean_of_users(constant) == 0.0
    zero = np.zeros(1, dtype=np.int64)
    few = tally(zero, zero, zero, np.ones(1), n_users=1, n_contexts=1, n_actions=1)
    assert lean_of_users(few) == 0.0


@pytest.mark.parametrize("world", [1, 4])
def test_many_plays_in_contexts_of_unequal_means_do_not_hide_a_loud_coalition(world: int) -> None:
    """With 24 plays a cell, users' means show how contexts are spread, which here is one-sided."""
    settings = Settings(
        contexts=10,
        actions=10,
        users=2303,
        interactions=240,
        alpha=0.2,
        gap=0.106,
        attack="nuke",
        algorithms=("discount", "naive-mean"),
        seed=0,
    )
    assert run_repetition(settings, "discount", world).loss == 0.0
    assert run_repetition(settings, "naive-mean", world).loss >= settings.gap


AMOUNTS = {"dwell": True, "counts": True, "stars": False}
"""Which rewards of production logs are skewed; a scale of stars has no tail."""

LOGS = [spec for spec in production_specs("development") if spec.name.split()[0] in AMOUNTS]


@pytest.mark.parametrize("spec", LOGS, ids=lambda spec: spec.name)
def test_production_logs_are_skewed_where_their_rewards_are(spec: ProductionSpec) -> None:
    """Whatever the activity, the logging policy, tastes and attacks."""
    lean = lean_of_users(build_production(spec, 0).tallies)
    assert (lean > LEAN) == AMOUNTS[spec.name.split()[0]]
    assert lean > -LEAN
