from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.worlds import make_world, responses_of
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.responses.residuals import Residuals, residuals_of
from unswayed.learners.discount.tastes.kernels import taste_profiles
from unswayed.learners.discount.tastes.populations import fit_populations, search_populations
from unswayed.learners.discount.tastes.profiles import fit_tastes, has_tastes, without_coalition
from unswayed.learners.discount.tastes.rounds import _with_more_room
from unswayed.learners.discount.trial.aims import alignment
from unswayed.tallies import tally


def data_of(rng: np.random.Generator, **settings: float) -> Residuals:
    """Return what fits read in a small world."""
    responses = responses_of(make_world(rng, **settings).tallies)  # type: ignore[arg-type]
    everybody = np.ones(responses.n_users)
    return residuals_of(responses, everybody, measure_noise(responses, everybody), np.float64)


def test_a_user_s_tastes_are_the_posterior_mean_given_their_responses(
    rng: np.random.Generator,
) -> None:
    """The closed form for a normal law: E[f | x] = Λᵀ(ΛΛᵀ + Ψ)⁻¹x on the cells a user met."""
    data = data_of(rng, n_users=50, plays=20)
    responses = data.responses
    loadings = rng.standard_normal((responses.n_cells, 2))
    left = 0.5 + rng.random(responses.n_cells)
    ranks = np.full(responses.n_cells, 9)
    profiles = taste_profiles(
        responses.indptr, responses.cells, data.worth, data.residuals, loadings, left, ranks, 1
    )
    for i in (0, 17, 49):
        ours = slice(responses.indptr[i], responses.indptr[i + 1])
        L = loadings[responses.cells[ours]]
        covariance = L @ L.T + np.diag(left[responses.cells[ours]] / data.worth[ours])
        expected = L.T @ np.linalg.solve(covariance, data.residuals[ours])
        assert_allclose(profiles[i, :2], expected, atol=1e-10)
        assert profiles[i, 2] == 0.0  # no cell of theirs is a winner


def test_tastes_explain_what_users_share_and_noise_they_do_not(rng: np.random.Generator) -> None:
    found = fit_tastes(data_of(rng, adversarial_fraction=0.0, taste=0.3), rng)
    by_chance = fit_tastes(data_of(rng, adversarial_fraction=0.0), rng)
    assert (found.loadings**2).sum() > 3.0 * (by_chance.loadings**2).sum()
    assert by_chance.left.mean() > 0.8


def test_two_populations_are_told_apart_and_one_is_left_whole(rng: np.random.Generator) -> None:
    """Centres 5 deviations apart: an error of 2·Φ(−2.5) = .012 at even odds, less at 1:4."""
    n, is_bad = 2000, np.arange(2000) < 400
    good = rng.standard_normal((n, 4))
    shifted = good + 5.0 * np.outer(is_bad, [0.5, 0.5, 0.5, 0.5])
    ones = np.ones(n)
    fits = search_populations(
        shifted, ones, n_tastes=2, adversarial_fraction=0.2, largest_mass=0.25, rng=rng
    )
    best = max(fits, key=lambda fit: fit.gain)
    assert (best.probabilities[is_bad] > 0.5).mean() > 0.95
    assert (best.probabilities[~is_bad] > 0.5).mean() < 0.02
    assert_allclose(best.accuse(shifted), best.probabilities, atol=1e-12)
    honest = search_populations(
        good, ones, n_tastes=2, adversarial_fraction=0.2, largest_mass=0.25, rng=rng
    )
    # Gains where there is nothing grow with the features searched, not with the users.
    assert max(fit.gain for fit in honest) < 0.1 * best.gain


def test_colluders_who_are_too_alike_are_told_from_the_centre_of_good_users(
    rng: np.random.Generator,
) -> None:
    is_bad = np.arange(2000) < 400
    profiles = rng.standard_normal((2000, 6)) * np.where(is_bad, 0.2, 1.0)[:, None]
    start = np.where(is_bad, 0.9, 0.1)
    alike, plain = (
        fit_populations(
            profiles,
            np.ones(2000),
            start,
            largest_mass=0.25,
            may_be_alike=may_be_alike,
            n_steps=40,
        )
        for may_be_alike in (True, False)
    )
    assert 0.03 < alike.alikeness < 0.08  # .2² = .04
    # 400 users with six numbers at a fifth of the deviation: 400·6·log 5 nats, less the prior.
    assert alike.gain > plain.gain + 1000
    assert (alike.probabilities[is_bad] > 0.5).mean() > 0.95


def test_a_crowd_without_a_coalition_keeps_every_cell_s_responses_and_its_tastes(
    rng: np.random.Generator,
) -> None:
    data = data_of(rng, taste=0.2)
    tastes = fit_tastes(data, rng)
    drawn = without_coalition(data, tastes, rng)
    cells = data.responses.cells
    cell_order = np.lexsort((data.residuals, cells)), np.lexsort((drawn.residuals, cells))
    assert_array_equal(drawn.residuals[cell_order[1]], data.residuals[cell_order[0]])
    assert (drawn.residuals != data.residuals).mean() > 0.5
    again = fit_tastes(drawn, rng)
    energy, drawn_energy = (tastes.loadings**2).sum(), (again.loadings**2).sum()
    assert 0.5 * energy < drawn_energy < 2.0 * energy


def test_those_who_favour_what_wins_by_them_are_aligned_and_others_are_not(
    rng: np.random.Generator,
) -> None:
    """One of A opinions is 1: the variance of a random preference is 2/A, and z = 1.4 for A = 4."""
    world = make_world(rng, adversarial_fraction=0.0, n_users=2000, n_contexts=12, n_actions=4)
    responses = responses_of(world.tallies)
    everybody, accused = np.ones(2000), (np.arange(2000) < 400).astype(float)
    standing = rng.integers(4, size=12)
    proposed = (standing + 1) % 4
    aims = {"standing": standing, "by chance": rng.integers(4, size=12)}
    found = {}
    for name, aim in aims.items():
        is_raised = accused[responses.users] * (responses.cells % 4 == aim[responses.cells // 4])
        raised = replace(responses, means=responses.means + is_raised)
        noise = measure_noise(raised, everybody)
        found[name] = alignment(
            raised, noise, everybody, accused, standing=standing, proposed=proposed
        )
    assert 3.5 < found["standing"] < 5.5  # 1.4 · sqrt(12) = 4.9
    assert abs(found["by chance"]) < 3.5
    noise = measure_noise(responses, everybody)
    assert (
        alignment(responses, noise, everybody, accused, standing=standing, proposed=standing) == 0
    )


def test_who_is_alike_must_be_few(rng: np.random.Generator) -> None:
    """Beside wild colluders the crowd looks alike; it is not accused."""
    profiles, ones = rng.standard_normal((400, 3)), np.ones(400)
    fitted = fit_populations(
        profiles, ones, ones * 0.2, largest_mass=0.25, may_be_alike=False, n_steps=2
    )
    few = replace(fitted, alikeness=0.2, mass=0.2, gain=1000.0)
    crowd = replace(few, mass=0.25)
    kept = _with_more_room(profiles, ones, [few, crowd], 0.25, 0.2)
    assert kept == [few]


@pytest.mark.parametrize("taste", [0.0, 0.4])
def test_tastes_along_few_directions_are_seen_where_no_cell_is_played_twice(
    taste: float, rng: np.random.Generator
) -> None:
    """Half of the users like what the other half dislikes; each play alone shows nothing."""
    n_users, n_contexts, n_actions = 1500, 12, 4
    cells = np.argsort(rng.random((n_users, n_contexts * n_actions)), axis=1)[:, :20].ravel()
    contexts, actions = np.divmod(cells, n_actions)
    users = np.repeat(np.arange(n_users), 20)
    side = np.where(users % 2 == 0, 1.0, -1.0) * np.where(actions % 2 == 0, 1.0, -1.0)
    rewards = rng.normal(size=len(users)) + taste * side
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
    )
    assert has_tastes(clipped_responses(tallies), np.ones(n_users), [], rng) == (taste > 0.0)
