from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.learners.discount.worlds import GAP, World, make_world, sparse_world
from unswayed.learners.design import design_of_log
from unswayed.learners.discount import learn_discounted, method
from unswayed.learners.discount.loud.rounds import LoudLies
from unswayed.learners.discount.trial import verdicts
from unswayed.learners.discount.trial.verdicts import Discounted
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper.guard import allowed_actions
from unswayed.learners.paper.intervals import CellIntervals
from unswayed.policy import best_known


def learn(world: World, alpha: float) -> Estimates:
    """Learn from a world with the design read off its log."""
    design = design_of_log(world.tallies, "auto")
    return learn_discounted(world.tallies, design, adversarial_fraction=alpha)


# A cell has L·N/(S·A) = 1000 plays, 800 of them good, with standard deviation at most .5: the
# difference of two good means has standard error sqrt(2·.25/800) = .025, so the best action loses
# to another by chance with z = .15/.025 = 6, probability 1e-9 for each of 48 rivals.
@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize("is_sticky", [False, True])
def test_a_coalition_that_sways_the_pooled_mean_does_not_sway_the_decisions(
    rng: np.random.Generator, is_binary: bool, is_sticky: bool
) -> None:
    world = make_world(rng, is_binary=is_binary, is_sticky=is_sticky)
    estimates = learn(world, 0.2)
    assert world.suboptimality(world.pooled(np.ones(1500))) > GAP / 2  # the negative control
    assert world.suboptimality(world.pooled((~world.is_bad).astype(float))) == 0.0
    assert world.suboptimality(estimates.mean_rewards) == 0.0
    assert estimates.user_weights[world.is_bad].mean() < 0.3
    assert estimates.user_weights[~world.is_bad].mean() > 0.9
    assert estimates.evidence["coalitions"] >= 1
    assert set(estimates.decided_by) <= {"discounted mean", "redescending mean"}


def test_tastes_do_not_hide_a_coalition(rng: np.random.Generator) -> None:
    world = make_world(rng, taste=0.15)
    estimates = learn(world, 0.2)
    assert estimates.evidence["tastes"]
    assert world.suboptimality(world.pooled(np.ones(1500))) > GAP / 2
    assert world.suboptimality(estimates.mean_rewards) < 0.01


@pytest.mark.parametrize("is_aimed", [True, False])
def test_a_coalition_that_a_later_stage_takes_for_a_taste_is_not_reported_as_discounted(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, is_aimed: bool
) -> None:
    """The stage with tastes finds nothing here; what clearly aims at decisions is kept anyway."""
    monkeypatch.setattr(method, "has_tastes", lambda *_: True)
    monkeypatch.setattr(
        method, "discount_among_tastes", lambda _, weights, **__: Discounted(weights, True, [])
    )
    monkeypatch.setattr(
        method, "discount_loud_lies", lambda *_, **__: LoudLies(np.ones(1500), [], [])
    )
    monkeypatch.setattr(verdicts, "CLEAR_ALIGNMENT", 4.5 if is_aimed else np.inf)
    estimates = learn(make_world(rng), 0.2)
    evidence = estimates.evidence
    assert (evidence["removed"] > 0.1) == is_aimed
    assert (evidence["coalitions"] == 1) == is_aimed
    assert (evidence["rounds"][0]["verdict"] == "discounted") == is_aimed
    assert ("discounted mean" in estimates.decided_by) == is_aimed
    if not is_aimed:
        assert evidence["rounds"][0]["verdict"] == "like the tail of a taste"
        assert evidence["coalitions"] == 0


@pytest.mark.parametrize("taste", [0.0, 0.15])
@pytest.mark.parametrize("minority", [0.0, 0.1])
def test_without_an_attack_users_keep_their_weight(
    rng: np.random.Generator, taste: float, minority: float
) -> None:
    world = make_world(rng, adversarial_fraction=0.0, taste=taste, minority=minority)
    estimates = learn(world, 0.2)
    assert (estimates.user_weights < 0.5).mean() <= 0.01
    pooled = world.suboptimality(world.pooled(np.ones(1500)))
    assert world.suboptimality(estimates.mean_rewards) <= pooled + 0.005


def test_many_arms_of_one_context_are_decided_by_redescending_means(
    rng: np.random.Generator,
) -> None:
    """Every user knows one arm only, so nothing goes together across cells."""
    world = make_world(rng, n_users=2000, n_contexts=1, n_actions=40, plays=30)
    estimates = learn(world, 0.2)
    assert world.suboptimality(world.pooled(np.ones(2000))) > GAP / 2
    assert world.suboptimality(estimates.mean_rewards) == 0.0


def test_equal_data_give_equal_estimates(rng: np.random.Generator) -> None:
    world = make_world(rng, n_users=400)
    first, second = learn(world, 0.2), learn(world, 0.2)
    assert_array_equal(first.mean_rewards, second.mean_rewards)
    assert_array_equal(first.user_weights, second.user_weights)


def test_shift_and_scale_of_rewards_carry_over(rng: np.random.Generator) -> None:
    world = make_world(rng, n_users=600)
    t = world.tallies
    moved = t.with_sums(
        t.counts,
        2.0 * t.sums + 3.0 * t.counts,
        4.0 * t.squares + 12.0 * t.sums + 9.0 * t.counts,
    )
    before = learn(world, 0.2)
    after = learn(World(moved, world.true_means, world.is_bad), 0.2)
    assert_allclose(after.mean_rewards, 2.0 * before.mean_rewards + 3.0, rtol=1e-6)
    assert_allclose(after.user_weights, before.user_weights, atol=1e-6)


def test_no_colluders_stated_means_the_pooled_mean(rng: np.random.Generator) -> None:
    world = make_world(rng, n_users=400)
    estimates = learn(world, 0.0)
    assert_array_equal(estimates.user_weights, np.ones(400))
    assert estimates.evidence["rounds"] == []


def test_intervals_contain_the_good_mean_in_nine_of_ten_cells(rng: np.random.Generator) -> None:
    """The stated probability is 9/10 for each cell; the bias part makes it more."""
    world = make_world(rng)
    estimates = learn(world, 0.2)
    half_width = estimates.sampling_errors + estimates.bias_bounds
    is_inside = np.abs(estimates.mean_rewards - world.true_means) <= half_width
    assert is_inside.mean() >= 0.9


def test_no_action_wins_that_the_guard_rules_out(rng: np.random.Generator) -> None:
    shape = (200, 4)
    means, centres = rng.random(shape), rng.random(shape)
    width = 0.2 * rng.random(shape)
    low, high = centres - width, centres + width
    chosen = best_known(means, ~allowed_actions(CellIntervals(low, high, width)))
    rows = np.arange(200)
    assert np.all(high[rows, chosen] >= low.max(axis=1))
    # Where the favourite is allowed, nothing changes.
    favourite = means.argmax(axis=1)
    is_allowed = high[rows, favourite] >= low.max(axis=1)
    assert is_allowed.any()
    assert not is_allowed.all()
    assert_array_equal(chosen[is_allowed], favourite[is_allowed])


def test_beside_wild_colluders_the_crowd_is_not_taken_for_alike(rng: np.random.Generator) -> None:
    """Cauchy responses make colluders scatter, so good users look like a clique beside them."""
    world = make_world(rng, n_users=1500, plays=100)
    t = world.tallies
    is_wild = np.repeat(world.is_bad, np.diff(t.indptr))
    noise = np.where(is_wild, rng.standard_cauchy(len(t.cells)), 0.0)
    sums = t.sums + noise * t.counts
    squares = t.squares + 2.0 * noise * t.sums + noise**2 * t.counts
    wild = t.with_sums(t.counts, sums, squares)
    estimates = learn(World(wild, world.true_means, world.is_bad), 0.2)
    assert world.suboptimality(world.pooled(np.ones(1500))) > GAP / 2
    assert world.suboptimality(estimates.mean_rewards) == 0.0
    assert estimates.user_weights[~world.is_bad].mean() > 0.9


@pytest.mark.parametrize(
    ("n_users", "n_contexts", "n_actions", "plays", "is_binary"),
    [(3000, 300, 20, 40, True), (4000, 200, 10, 20, False)],
)
def test_a_peaceful_log_with_few_responses_per_cell_is_left_whole(
    rng: np.random.Generator,
    n_users: int,
    n_contexts: int,
    n_actions: int,
    plays: int,
    is_binary: bool,
) -> None:
    """Fits with a mean for each of thousands of cells gain hundreds of nats by chance alone."""
    world = sparse_world(
        rng,
        n_users=n_users,
        n_contexts=n_contexts,
        n_actions=n_actions,
        plays=plays,
        strength=0.0,
        is_binary=is_binary,
    )
    learned = learn(world, 0.15)
    assert learned.evidence["coalitions"] == 0
    assert (learned.user_weights == 1.0).all()
