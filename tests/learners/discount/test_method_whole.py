"""The default learner as the sum of its parts, in logs of every kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from threadpoolctl import threadpool_info

from tests.learners.discount.logs import make_log
from tests.learners.discount.worlds import make_world
from unswayed.arrays import FloatArray
from unswayed.learners.design import uniform_design
from unswayed.learners.discount import learn_discounted, method
from unswayed.learners.discount.loud import SampledPlays
from unswayed.learners.discount.means.bounded import cell_values
from unswayed.learners.discount.means.redescending import leaning_cells, upright_means
from unswayed.learners.discount.responses.categories import find_categories, unit_of
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.responses.sampling import lean_of_users, sampled, single_rewards
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import allowed_actions, learn_paper
from unswayed.learners.paper.method import FAILURE_PROBABILITY
from unswayed.policy import best_known
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally

KINDS = ["amounts", "clicks", "baskets", "few cells"]


def log_of(kind: str, rng: np.random.Generator) -> Tallies:
    if kind == "clicks":
        return make_log(rng, n_users=250, bots=0.1, rate=0.1).tallies()
    if kind == "amounts":
        world = make_world(rng, n_users=150, n_contexts=4, n_actions=3)
        t = world.tallies
        return t.with_sums(t.counts, 3.0 * t.sums + 7.0 * t.counts, shifted(t))
    users = np.repeat(np.arange(200), 6 if kind == "baskets" else 2)
    contexts, actions = rng.integers(0, 2, len(users)), rng.integers(0, 3, len(users))
    rewards = rng.normal(actions, 1.0)
    if kind == "baskets":
        rewards = np.where(rng.random(len(users)) < 0.3, rng.lognormal(2.0, 1.0, len(users)), 0.0)
    return tally(users, contexts, actions, rewards, n_users=200, n_contexts=2, n_actions=3)


def shifted(t: Tallies) -> FloatArray:
    """Return the squares of 3·r + 7."""
    squares: FloatArray = 9.0 * t.squares + 42.0 * t.sums + 49.0 * t.counts
    return squares


def learned_by_hand(t: Tallies, alpha: float, seed: int) -> dict[str, Any]:
    """Return estimates from the parts, one after another."""
    rng = generator(seed, "discount")
    guard = learn_paper(t, uniform_design(t), adversarial_fraction=alpha)
    sample, chosen = sampled(t, rng)
    rewards = single_rewards(sample)
    categories = find_categories(rewards, lean_of_users(sample))
    unit = unit_of(categories, rewards, sample)
    reach = None if categories.is_even else unit.reach
    responses = clipped_responses(unit.of(t), reach=reach)
    plays = SampledPlays(t, sample, chosen, categories)
    found, lies = method._discounted(plays, responses, alpha, False, rng)
    values = cell_values(responses, found.weights)
    is_searched = alpha > 0.0 and categories.is_even and not categories.is_rare
    means = values.shrunken
    decided = ["discounted mean" if found.n_coalitions else "pooled mean"] * t.n_contexts
    if is_searched:
        noise = measure_noise(responses, found.weights)
        leaning = leaning_cells(responses, noise, found.weights)
        upright = upright_means(means, np.sqrt(values.variances), leaning, rng)
        for context in np.flatnonzero((upright != means).any(axis=1)):
            decided[context] = "redescending mean"
        means = upright
    means = unit.origin + unit.width * means
    errors = unit.width * np.sqrt(values.variances)
    if is_searched and not method._shows_pairs(responses):
        unless_by_chance: Any = vars(method)["unless_by_chance"]  # a test may replace it
        robust = unless_by_chance(means, guard.mean_rewards, errors, rng)
        for context in np.flatnonzero((robust != means).any(axis=1)):
            decided[context] = "paper's mean"
        means = robust
    is_excluded = ~allowed_actions(guard)
    for context in np.flatnonzero(best_known(means, is_excluded) != best_known(means)):
        decided[context] = "guard"
    low, high = np.fmin(guard.interval[0], means), np.fmax(guard.interval[1], means)
    z = stats.norm.ppf(1.0 - FAILURE_PROBABILITY / 2.0)
    sampling = np.where(np.isnan(means), np.nan, z * errors)
    half = np.maximum(high - means, means - low)
    cut = 0.0 if reach is None else unit.cut
    return {
        "mean_rewards": means,
        "sampling_errors": sampling,
        "bias_bounds": np.maximum(half - sampling, 0.0),
        "context_probabilities": responses.context_probabilities
        / responses.context_probabilities.sum(),
        "frequent_contexts": guard.frequent_contexts,
        "user_weights": found.weights,
        "decided_by": decided,
        "evidence": method._evidence(found, lies, bounded=values.bounded, cut=cut),
        "low": low,
        "high": high,
        "is_excluded": is_excluded,
    }


def assert_learned(found: Estimates, expected: dict[str, Any]) -> None:
    for name in (
        "mean_rewards",
        "sampling_errors",
        "bias_bounds",
        "context_probabilities",
        "user_weights",
        "low",
        "high",
    ):
        assert_allclose(getattr(found, name), expected[name], rtol=1e-9, err_msg=name)
    for name in ("frequent_contexts", "is_excluded"):
        assert_array_equal(getattr(found, name), expected[name])
    assert found.decided_by.tolist() == expected["decided_by"]
    assert found.evidence == expected["evidence"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.0, 0.15])
def test_estimates_are_what_the_parts_make_of_a_log(
    kind: str, alpha: float, rng: np.random.Generator
) -> None:
    tallies = log_of(kind, rng)
    found = learn_discounted(tallies, uniform_design(tallies), adversarial_fraction=alpha, seed=3)
    assert_learned(found, learned_by_hand(tallies, alpha, 3))


@pytest.mark.parametrize("is_robust", [False, True])
def test_users_with_few_cells_may_be_decided_by_the_papers_means(
    is_robust: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of chance is drawn from the learner's own generator."""

    def chosen(
        means: FloatArray, robust: FloatArray, _: FloatArray, own: np.random.Generator
    ) -> FloatArray:
        own.random()
        return robust if is_robust else means

    monkeypatch.setattr(method, "unless_by_chance", chosen)
    tallies = log_of("few cells", rng)
    design = uniform_design(tallies)
    found = learn_discounted(tallies, design, adversarial_fraction=0.1)
    assert_learned(found, learned_by_hand(tallies, 0.1, 0))
    assert ("paper's mean" in found.decided_by.tolist()) == is_robust


def test_leaning_cells_decide_where_they_differ(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_raised(means: FloatArray, *_: Any) -> FloatArray:
        raised = means.copy()
        raised[0, 1] += 50.0
        return raised

    monkeypatch.setattr(method, "upright_means", first_raised)
    tallies = log_of("amounts", rng)
    found = learn_discounted(tallies, uniform_design(tallies), adversarial_fraction=0.1)
    decided = found.decided_by.tolist()
    assert decided[0] in ("redescending mean", "guard")
    assert "redescending mean" not in decided[1:]


def test_the_majority_and_the_warm_up_are_passed_on(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    tallies = log_of("few cells", rng)
    warmup = replace(tallies)
    asked: list[Any] = []

    def discounted(*given: Any) -> Any:
        asked.append(given[3])
        return real(*given)

    def guard(*given: Any, **options: Any) -> Any:
        asked.append((given[1], options))
        return learn_paper(*given, **(options | {"warmup": None}))

    real = method._discounted
    monkeypatch.setattr(method, "_discounted", discounted)
    monkeypatch.setattr(method, "learn_paper", guard)
    design = uniform_design(tallies)
    for asks in (False, True):
        asked.clear()
        learn_discounted(
            tallies, design, adversarial_fraction=0.1, warmup=warmup, asks_majority=asks
        )
        assert asks in [one for one in asked if isinstance(one, bool)]
        (given,) = [one for one in asked if isinstance(one, tuple)]
        assert given[0] is design
        assert given[1] == {"adversarial_fraction": 0.1, "warmup": warmup}
    asked.clear()
    learn_discounted(tallies, design, adversarial_fraction=0.1)
    assert False in [one for one in asked if isinstance(one, bool)]


def test_products_use_one_thread(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()

    def discounted(*given: Any) -> Any:
        seen.update(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return real(*given)

    real = method._discounted
    monkeypatch.setattr(method, "_discounted", discounted)
    tallies = log_of("few cells", rng)
    learn_discounted(tallies, uniform_design(tallies), adversarial_fraction=0.1)
    assert seen == {1}
