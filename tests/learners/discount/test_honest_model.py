"""The honest model of counts by category, by enumeration of levels and tastes."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from tests.learners.discount.small import CLICKS, random_counts, stars
from unswayed.arrays import FloatArray
from unswayed.learners.discount.loud.class_counts import (
    ClassCounts,
    classes_by_action,
    counts_by_class,
)
from unswayed.learners.discount.loud.honest import (
    AMOUNTS,
    EVENTS,
    STRENGTHS,
    Grid,
    Honest,
    _evidence,
    fit_honest,
    grid_for,
    shrunken_laws,
    summed_out,
    tilts_of_users,
    without_coalition,
)
from unswayed.learners.discount.loud.kernels import drawn_anew, n_draws
from unswayed.learners.discount.responses.categories import Categories
from unswayed.randomness import generator


def test_grids_have_the_tilts_of_all_levels_and_tastes() -> None:
    grid = Grid(0.5, (-1, 0, 1), (-2, 0, 3))
    assert grid.offsets.tolist() == [0, 2, 5]
    assert_allclose(grid.tilts, 0.5 * np.arange(-3, 5))
    assert grid.strongest_taste == 1.5
    assert grid_for(CLICKS) is EVENTS
    assert grid_for(stars()) is AMOUNTS


def honest_model(rng: np.random.Generator, n_categories: int = 2) -> Honest:
    grid = Grid(0.7, (-1, 0, 1), (-1, 0, 2))
    laws = rng.dirichlet(np.ones(n_categories) * 3.0, 6)
    return Honest(
        grid=grid,
        scores=np.arange(n_categories, dtype=float),
        laws=laws,
        plays=rng.integers(5, 50, 6).astype(float),
        strength=30.0,
        levels=np.array([0.2, 0.5, 0.3]),
        levels_of_plays=np.array([0.1, 0.3, 0.6]),
        tastes=np.array([0.3, 0.6, 0.1]),
    )


@pytest.mark.parametrize("n_categories", [2, 3])
def test_laws_are_tilted_so_that_their_average_stays(
    rng: np.random.Generator, n_categories: int
) -> None:
    model = honest_model(rng, n_categories)
    tilts = model.grid.tilts  # of levels −1, 0, 1 and tastes −1, 0, 2
    share = np.zeros(len(tilts))
    for (g, level), (b, taste) in itertools.product(enumerate((-1, 0, 1)), enumerate((-1, 0, 2))):
        share[level + taste + 2] += model.levels_of_plays[g] * model.tastes[b]
    for laws in (None, rng.dirichlet(np.ones(n_categories), 6)):
        wanted = model.laws if laws is None else laws
        expected = np.zeros((6, n_categories, len(tilts)))
        for cell in range(6):
            base = wanted[cell].copy()
            for step in range(4):
                tilted = np.array([base * np.exp(tilt * model.scores) for tilt in tilts])
                tilted /= tilted.sum(axis=1, keepdims=True)
                if step < 3:
                    base = base * wanted[cell] / (share @ tilted)
            expected[cell] = tilted.T
        found = model.tilted_laws(laws)
        assert_allclose(found, expected, rtol=1e-9)
        assert_allclose(found @ share, wanted, atol=0.02)
        assert_allclose(found.sum(axis=1), 1.0)
    logs = model.log_laws()
    assert logs.shape == (6 * n_categories, len(tilts))
    assert_allclose(np.exp(logs), model.tilted_laws().reshape(logs.shape))


def enumerated(data: ClassCounts, model: Honest) -> tuple[FloatArray, list[FloatArray]]:
    """Return likelihoods of users and each level, and of their runs at each level and taste."""
    tilted = model.tilted_laws()
    levels, tastes = model.grid.levels, model.grid.tastes
    least = levels[0] + tastes[0]
    K = data.counts.n_categories
    joint, runs = np.zeros((data.counts.n_users, len(levels))), []
    for user in range(data.counts.n_users):
        joint[user] = model.levels
        for run in range(data.first_run[user], data.first_run[user + 1]):
            of_run = np.zeros((len(levels), len(tastes)))
            for (g, level), (b, taste) in itertools.product(enumerate(levels), enumerate(tastes)):
                likelihood = model.tastes[b]
                for q in range(data.first_key[run], data.first_key[run + 1]):
                    key = data.counts.keys[q]
                    law = tilted[key // K, key % K, level + taste - least]
                    likelihood *= law ** data.counts.counts[q]
                of_run[g, b] = likelihood
            runs.append(of_run)
            joint[user] *= of_run.sum(axis=1)
    return joint, runs


@pytest.mark.parametrize("n_categories", [2, 3])
def test_levels_and_tastes_are_summed_out(rng: np.random.Generator, n_categories: int) -> None:
    counts, model = random_counts(rng, n_categories=n_categories), honest_model(rng, n_categories)
    data = counts_by_class(counts, classes_by_action(counts), 8.0)
    weights = rng.random(30)
    joint, runs = enumerated(data, model)
    posterior = joint / joint.sum(axis=1, keepdims=True)
    found = summed_out(data, model, weights)
    assert found.model is model
    assert found.log_likelihood == pytest.approx(weights @ np.log(joint.sum(axis=1)))
    assert_allclose(found.levels, posterior, rtol=1e-7)
    with_taste = np.zeros(3)
    for run, user in enumerate(data.run_users):
        of_run = runs[run]
        others = joint[user] / of_run.sum(axis=1)
        assert found.of_runs[run] == pytest.approx(np.log(joint[user].sum()) - np.log(others.sum()))
        assert_allclose(found.others[run], others / others.sum() / model.levels, rtol=1e-7)
        share = posterior[user] / of_run.sum(axis=1)
        with_taste += weights[user] * (share @ of_run)
    levels, expected_runs = tilts_of_users(data, model, weights)
    assert_allclose(levels, posterior, rtol=1e-7)
    assert_allclose(expected_runs, with_taste, rtol=1e-7)


@pytest.mark.parametrize("strength", [None, 30.0])
def test_laws_of_cells_shrink_to_that_of_their_action(
    rng: np.random.Generator, strength: float | None
) -> None:
    seen = rng.poisson(20.0, (3, 2, 3)) * rng.random((3, 2, 1))
    seen[2, 1] = 0.0
    plays = rng.integers(20, 90, (3, 2)).astype(float)
    here = np.zeros((3, 2, 3))
    for s, a in itertools.product(range(3), range(2)):
        if seen[s, a].sum() > 0:
            here[s, a] = seen[s, a] / seen[s, a].sum() * plays[s, a]
    whole = here.sum(axis=(0, 1)) + 0.5 + 1e-3
    whole /= whole.sum()
    laws = [(here[:, a].sum(axis=0) + 20.0 * whole) / (here[:, a].sum() + 20.0) for a in range(2)]
    if strength is None:
        likeliest = []
        for a in range(2):
            evidence = [
                sum(
                    special.gammaln(s * laws[a] + cell).sum()
                    - special.gammaln(s * laws[a]).sum()
                    - special.gammaln(s + cell.sum())
                    + special.gammaln(s)
                    for cell in here[:, a]
                )
                for s in STRENGTHS
            ]
            assert_allclose(
                [_evidence(here, np.array(laws), s)[a] for s in STRENGTHS], evidence, rtol=1e-9
            )
            likeliest.append(STRENGTHS[int(np.argmax(evidence))])
        wanted = float(np.median(likeliest))
    else:
        wanted = strength
    found, used = shrunken_laws(seen.reshape(6, 3), plays.ravel(), (3, 2), strength)
    assert used == wanted
    expected = [
        (here[s, a] + wanted * laws[a]) / (here[s, a].sum() + wanted)
        for s, a in itertools.product(range(3), range(2))
    ]
    assert_allclose(found, expected, rtol=1e-9)


def test_the_evidence_of_whole_counts_is_a_dirichlet_multinomial() -> None:
    law, here = np.array([[0.2, 0.5, 0.3]]), np.array([[[3.0, 0.0, 2.0]]])
    expected = stats.dirichlet_multinomial(10.0 * law[0], np.array(5)).logpmf([3, 0, 2])
    n_orders = math.log(math.factorial(5) / (math.factorial(3) * math.factorial(2)))
    assert _evidence(here, law, 10.0)[0] == pytest.approx(expected - n_orders)


@pytest.mark.parametrize("categories", [CLICKS, stars()])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_the_honest_model_is_fitted_by_em(
    rng: np.random.Generator, categories: Categories, n_steps: int
) -> None:
    counts = random_counts(rng, n_categories=categories.n)
    data, weights = counts_by_class(counts, classes_by_action(counts), 8.0), rng.random(30)
    grid = EVENTS if categories is CLICKS else AMOUNTS
    rows = data.counts
    plays = rows.cell_counts(np.ones(30)).sum(axis=1)
    laws, strength = shrunken_laws(rows.cell_counts(weights), plays, (3, 2), None)
    levels = np.exp(-0.5 * (grid.step * np.array(grid.levels)) ** 2)
    tastes = np.exp(-2.0 * (grid.step * np.array(grid.tastes)) ** 2)
    levels, tastes = levels / levels.sum(), tastes / tastes.sum()
    model = Honest(grid, categories.scores, laws, plays, strength, levels, levels, tastes)
    users = np.repeat(np.arange(30), np.diff(rows.indptr))
    volume = weights * np.bincount(users, rows.counts, 30)

    def shares(numbers: FloatArray) -> Any:
        return (numbers + 1e-3) / (numbers + 1e-3).sum()

    for _ in range(n_steps - 1):
        posterior, with_taste = tilts_of_users(data, model, weights)
        model = replace(
            model,
            levels=shares(weights @ posterior),
            levels_of_plays=shares(volume @ posterior),
            tastes=shares(with_taste),
        )
    found = fit_honest(data, categories, weights, n_steps=n_steps)
    for name in ("laws", "plays", "strength", "levels", "levels_of_plays", "tastes", "scores"):
        assert_allclose(getattr(found.model, name), getattr(model, name), rtol=1e-9)
    assert found.model.grid is grid
    expected = summed_out(data, model, weights)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood)
    lighter = weights * 0.5
    again = fit_honest(data, categories, lighter, start=found.model, n_steps=1)
    assert_allclose(again.model.levels, found.model.levels)
    assert again.model.strength == strength
    anew, _ = shrunken_laws(rows.cell_counts(lighter), plays, (3, 2), strength)
    assert_allclose(again.model.laws, anew)
    default = fit_honest(data, categories, weights)
    eight = fit_honest(data, categories, weights, n_steps=8)
    assert_array_equal(default.model.levels, eight.model.levels)


def test_honest_responses_are_drawn_with_laws_levels_and_tastes(rng: np.random.Generator) -> None:
    counts, model = random_counts(rng, n_users=200), honest_model(rng)
    classes = classes_by_action(counts)
    honest = summed_out(counts_by_class(counts, classes, 8.0), model, np.ones(200))
    found = without_coalition(counts, classes, honest, generator(6))
    own = generator(6)
    laws = own.standard_gamma(model.laws * (model.plays[:, None] + model.strength))
    laws /= laws.sum(axis=1, keepdims=True)
    tilted = model.tilted_laws(laws)
    uniforms = own.random(200)
    levels = [int(np.searchsorted(np.cumsum(row)[:-1], u)) for row, u in
              zip(honest.levels, uniforms, strict=True)]  # fmt: skip
    tastes = own.choice(3, p=model.tastes, size=(200, 2))
    rows = (counts.indptr, counts.keys, counts.counts)
    draws = own.random(n_draws(*rows, 2))
    indptr, keys, values = drawn_anew(
        *rows,
        2,
        classes,
        np.ascontiguousarray(np.cumsum(tilted, axis=1).transpose(0, 2, 1)),
        np.array(levels),
        np.array([0, 1, 3])[tastes],
        draws,
    )
    assert_array_equal(found.indptr, indptr)
    assert_array_equal(found.keys, keys)
    assert_allclose(found.counts, values)
    assert found.activity is counts.activity
