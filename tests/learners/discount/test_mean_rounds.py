"""Rounds of quiet accusations, each step by itself: candidates, nulls, verdicts and refits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from tests.learners.discount.small import grid_of, in_blocks
from unswayed.arrays import FloatArray
from unswayed.learners.discount.one_mean import rounds
from unswayed.learners.discount.one_mean.mixture import Accusation, Model, fit_coalitions
from unswayed.learners.discount.one_mean.search import Finding, Null, rival_cells
from unswayed.learners.discount.responses.noise import Noise, measure_noise
from unswayed.learners.discount.responses.residuals import (
    Residuals,
    blocked_residuals,
    residuals_of,
)
from unswayed.learners.discount.trial.aims import alignment, pooled_means, stake
from unswayed.learners.discount.trial.verdicts import Verdict
from unswayed.policy import best_known
from unswayed.randomness import generator

N_USERS, N_CONTEXTS, N_ACTIONS = 60, 12, 5
N_CELLS = N_CONTEXTS * N_ACTIONS
MODEL = Model(largest_mass=0.25, shrinkage=1.0, cells=np.ones(N_CELLS))
IS_BAD = (np.arange(N_USERS) < 9).astype(float)
BEST, PUSHED = 0, 3


@pytest.fixture
def attacked(rng: np.random.Generator) -> tuple[Residuals, Noise]:
    """Return users of whom nine push the fourth action above the first."""
    means = 0.3 * rng.standard_normal((N_USERS, N_CONTEXTS, N_ACTIONS))
    means[:, :, BEST] += 0.3
    means[:9, :, PUSHED] += 4.0
    weights = np.ones(N_USERS)
    responses = grid_of(means, context_probabilities=np.arange(1.0, 13.0) / 78.0)
    noise = measure_noise(responses, weights)
    return residuals_of(responses, weights, noise, np.float32), noise


def accusation(probabilities: FloatArray = IS_BAD, **options: Any) -> Accusation:
    n = len(probabilities)
    fields: dict[str, Any] = {
        "means": np.zeros(N_CELLS),
        "shifts": np.ones(N_CELLS),
        "probabilities": probabilities,
        "scores": np.zeros(n),
        "strengths": np.zeros(n),
        "spread_of_the_good": 0.0,
        "mass": 0.15,
        "raw_gain": 80.0,
        "is_void": False,
    }
    return Accusation(**(fields | options))


def candidate_of(
    data: Residuals, noise: Noise, found: Accusation, *, model: Model = MODEL, alpha: float = 0.2
) -> rounds._Candidate:
    standing = best_known(pooled_means(data.responses, data.weights))
    return rounds._candidate(data, noise, Finding(found, -5.0), standing, model, alpha)


def test_a_candidate_says_what_would_go_and_what_is_at_stake(
    attacked: tuple[Residuals, Noise],
) -> None:
    data, noise = attacked
    standing = best_known(pooled_means(data.responses, np.ones(N_USERS)))
    assert (standing == PUSHED).all()
    found = candidate_of(data, noise, accusation())
    assert found.verdict is None
    assert found.model is MODEL
    assert found.margin == 80.0 - 5.0
    assert found.removed == pytest.approx(9 / 60)
    after = 1.0 - IS_BAD
    assert found.stake == pytest.approx(stake(data.responses, standing, after))
    proposed = best_known(pooled_means(data.responses, after))
    assert found.alignment == pytest.approx(
        alignment(
            data.responses, noise, np.ones(N_USERS), IS_BAD, standing=standing, proposed=proposed
        )
    )
    assert found.alignment > 4.5


def test_candidates_that_gain_or_stake_nothing_are_not_asked_for_their_aim(
    attacked: tuple[Residuals, Noise],
) -> None:
    data, noise = attacked
    weak = candidate_of(data, noise, accusation(raw_gain=5.0))
    assert (weak.verdict, weak.margin) == (Verdict.WITHIN_CHANCE, 0.0)
    assert np.isnan(weak.alignment)
    just = candidate_of(data, noise, accusation(raw_gain=5.001))
    assert just.verdict is None
    nobody = candidate_of(data, noise, accusation(np.zeros(N_USERS)))
    assert nobody.stake == 0.0
    assert np.isnan(nobody.alignment)
    assert nobody.verdict is None


@pytest.mark.parametrize(
    ("n_accused", "probability", "alpha", "is_too_many"),
    [
        (12, 1.0, 0.16, False),  # 12 of 60 users are 1.25 · .16 of them
        (13, 1.0, 0.16, True),
        (21, 0.49, 0.1, False),  # .1715 of the weight goes, of .2 that may
        (30, 0.399, 0.1, False),  # nearly .2
        (30, 0.401, 0.1, True),
    ],
)
def test_more_accused_than_stated_are_too_many(
    attacked: tuple[Residuals, Noise],
    n_accused: int,
    probability: float,
    alpha: float,
    is_too_many: bool,
) -> None:
    data, noise = attacked
    accused = np.where(np.arange(N_USERS) < n_accused, probability, 0.0)
    model = replace(MODEL, largest_mass=1.25 * alpha)
    found = candidate_of(data, noise, accusation(accused), model=model, alpha=alpha)
    assert found.verdict == (Verdict.TOO_MANY if is_too_many else None)


def test_with_more_room_only_what_aims_is_looked_at(attacked: tuple[Residuals, Noise]) -> None:
    data, noise = attacked
    roomy = replace(MODEL, largest_mass=0.5 * 1.25 + 1e-6)
    aimed = candidate_of(data, noise, accusation(), model=roomy, alpha=0.5)
    assert aimed.verdict is None
    by_chance = (np.arange(N_USERS) % 5 == 0).astype(float)
    other = candidate_of(data, noise, accusation(by_chance), model=roomy, alpha=0.5)
    assert other.verdict == Verdict.TOO_MANY
    stated = candidate_of(
        data, noise, accusation(by_chance), model=replace(MODEL, largest_mass=0.5 * 1.25), alpha=0.5
    )
    assert stated.verdict is None


def test_models_lie_everywhere_or_among_three_of_more_than_four_actions(
    attacked: tuple[Residuals, Noise], rng: np.random.Generator
) -> None:
    data, noise = attacked
    models = rounds._models(data, noise, 0.2)
    assert [(m.largest_mass, m.shrinkage, m.rivals_only) for m in models] == [
        (0.25, 1.0, False),
        (0.25, 3.0, False),
        (0.25, 1.0, True),
        (0.25, 2.5, True),
    ]
    assert all((m.cells == 1.0).all() for m in models[:2])
    for m in models[2:]:
        assert_array_equal(m.cells, rival_cells(data.responses, noise.means))
    four = grid_of(rng.random((20, 3, 4)))
    known = measure_noise(four, np.ones(20))
    few = rounds._models(residuals_of(four, np.ones(20), known, np.float32), known, 0.1)
    assert [(m.largest_mass, m.rivals_only) for m in few] == [(0.125, False)] * 2


def test_fits_at_their_limit_get_more_room(attacked: tuple[Residuals, Noise]) -> None:
    data, noise = attacked
    standing = best_known(pooled_means(data.responses, data.weights))
    at_limit, below = accusation(mass=0.2376), accusation(mass=0.2375)

    def refitted(alpha: float, *found: Accusation) -> list[rounds._Candidate]:
        some = [candidate_of(data, noise, one, alpha=alpha) for one in found]
        return rounds._with_more_room(data, noise, some, standing, alpha)

    assert refitted(0.2, below) == []
    (one,) = refitted(0.2, below, at_limit)
    assert one.model.largest_mass == 0.45
    assert one.model.cells is MODEL.cells
    (small,) = refitted(0.1, at_limit)
    assert small.model.largest_mass == 0.25
    assert small.finding.accusation.gain > 100.0
    assert refitted(0.37, at_limit) == []  # 1.25 times .37 is more than there may be at all


class Nulls:
    """Nulls with made-up gains; keeps which models were asked for."""

    def __init__(self, *gains: float) -> None:
        self.left = list(gains)
        self.asked: list[list[float]] = []
        self.n_fresh = 0

    def gains(self, models: list[Model]) -> list[float]:
        """Return the next gains."""
        self.asked.append([model.shrinkage for model in models])
        return [self.left.pop(0) for _ in models]

    def fresh(self) -> Any:
        """Count the copies."""
        self.n_fresh += 1
        return self


def made_up(
    gain: float, *, verdict: Verdict | None = None, shrinkage: float = 1.0
) -> rounds._Candidate:
    return rounds._Candidate(
        replace(MODEL, shrinkage=shrinkage),
        Finding(accusation(raw_gain=gain), -5.0),
        removed=0.1,
        stake=0.2,
        alignment=5.0,
        verdict=verdict,
        margin=gain - 5.0,
    )


def held(gain: float, first: float, *more: float) -> tuple[float, bool, int]:
    null: Any = Nulls(*more)
    largest, is_clear = rounds._held_against_chance(made_up(gain), first, null)
    return largest, is_clear, null.n_fresh


def test_a_clear_call_needs_one_null_and_a_close_one_four() -> None:
    """Beside a null of 20 it takes 1.15 · 20 + 5 = 28; close is below twice that and 50."""
    assert held(28.0, 20.0) == (20.0, False, 0)
    assert held(106.0, 20.0) == (20.0, True, 0)
    assert held(105.9, 20.0, 20.0, 20.0, 20.0) == (20.0, True, 3)
    assert held(28.1, 20.0, 10.0, 20.0, 20.0) == (20.0, False, 1)  # 20 and the scatter are 30
    assert held(30.1, 20.0, 10.0, 19.0, 18.0) == (20.0, True, 3)
    assert held(60.0, 20.0, 50.0) == (50.0, False, 1)
    assert held(66.0, 20.0, 20.0, 50.0) == (50.0, False, 2)


def test_the_first_candidate_that_is_not_within_chance_decides() -> None:
    null: Any = Nulls(20.0)
    best, gain = rounds._judged([made_up(200.0), made_up(150.0)], null)
    assert (best.verdict, best.margin, gain) == (Verdict.DISCOUNTED, 195.0, 20.0)
    assert null.asked == [[1.0]]
    # After the first those of all others are searched side by side.
    null = Nulls(190.0, 150.0, 10.0)
    some = [made_up(200.0), made_up(150.0, shrinkage=2.0), made_up(140.0, shrinkage=3.0)]
    best, gain = rounds._judged(some, null)
    assert (best.verdict, best.margin, gain) == (Verdict.DISCOUNTED, 135.0, 10.0)
    assert null.asked == [[1.0], [2.0, 3.0]]
    null = Nulls(190.0, 150.0, 130.0)
    best, gain = rounds._judged(some, null)
    assert (best.verdict, best.margin, gain) == (Verdict.WITHIN_CHANCE, 135.0, 130.0)


def test_a_candidate_with_a_verdict_needs_no_null() -> None:
    null: Any = Nulls()
    best, gain = rounds._judged([made_up(90.0, verdict=Verdict.TOO_MANY), made_up(9.0)], null)
    assert best.verdict == Verdict.TOO_MANY
    assert np.isnan(gain)
    null = Nulls(85.0)
    some = [
        made_up(90.0),
        made_up(4.0, verdict=Verdict.WITHIN_CHANCE),
        made_up(80.0, verdict=Verdict.TOO_MANY),
    ]
    best, gain = rounds._judged(some, null)
    assert (best.verdict, best.margin) == (Verdict.TOO_MANY, 75.0)
    assert np.isnan(gain)


@pytest.mark.parametrize(
    ("contexts", "rivals_only", "model"),
    [
        ([True] * 3, False, "shifts everywhere, shrinkage 2.5"),
        ([True] * 3, True, "shifts among rivals, shrinkage 2.5"),
        (
            [True] * 1234 + [False],
            False,
            "shifts everywhere in the 1,234 most frequent contexts, shrinkage 2.5",
        ),
    ],
)
def test_a_round_says_what_was_found(contexts: list[bool], rivals_only: bool, model: str) -> None:
    one = made_up(90.0, verdict=Verdict.DISCOUNTED, shrinkage=2.5)
    one = replace(
        one,
        model=replace(one.model, rivals_only=rivals_only),
        finding=Finding(accusation(np.array([0.9, 0.5, 0.6, 0.0]), raw_gain=90.0), -3.0),
    )
    weights = np.array([1.0, 1.0, 0.5, 1.0])
    found = rounds._round(one, 0.3, 12.0, np.array(contexts), weights)
    assert found.to_json() == {
        "stage": "mean",
        "model": model,
        "taste_share": 0.3,
        "gain": 90.0,
        "null_gain": 12.0,
        "opposite_gain": -3.0,
        "alignment": 5.0,
        "accused": 1.5 / 4.0,
        "removed": 0.1,
        "stake": 0.2,
        "verdict": "discounted",
    }


def test_users_outside_of_a_sample_are_judged_by_its_line(
    attacked: tuple[Residuals, Noise], rng: np.random.Generator
) -> None:
    data, noise = attacked
    responses = in_blocks(data.responses, 20, 41)
    contexts = np.array([True, False, True, True, False, True] * 2)
    line = rng.standard_normal((2, N_CELLS)).astype(np.float32) * 0.3
    for mass, prior in ((0.15, 0.15), (0.7, 0.5), (0.0, 1e-9)):
        one: Any = accusation(means=line[0], shifts=line[1], mass=mass)
        found = rounds._Found(made_round(), one, noise, MODEL)
        weights = np.ones(N_USERS)
        probabilities = rounds._posteriors(responses, weights, found, contexts)
        x = data.residuals.reshape(N_USERS, N_CELLS).astype(np.float64)
        worth = data.worth.reshape(N_USERS, N_CELLS).astype(np.float64)
        shifts = line[1] * np.repeat(contexts, N_ACTIONS)
        ratios = (worth * (x - line[0])) @ shifts - 0.5 * worth @ shifts**2
        expected = special.expit(special.logit(prior) + ratios)
        assert_allclose(probabilities, expected, rtol=1e-3, atol=1e-12)


def made_round() -> Any:
    one = made_up(90.0, verdict=Verdict.DISCOUNTED)
    return rounds._round(one, 0.3, 12.0, np.ones(3, np.bool_), np.ones(N_USERS))


def test_a_refit_measures_all_responses_and_takes_four_steps(
    attacked: tuple[Residuals, Noise],
) -> None:
    data, noise = attacked
    responses, weights = in_blocks(data.responses, 20, 41), np.linspace(0.5, 1.0, N_USERS)
    among = replace(MODEL, rivals_only=True, cells=np.zeros(N_CELLS))
    known = replace(noise, taste_share=0.3)
    start = 0.1 + 0.6 * IS_BAD
    for model in (MODEL, among):
        found = rounds._Found(made_round(), accusation(), known, model)
        fit = rounds._refitted(responses, weights, found, start)
        measured = measure_noise(responses, weights, 0.3)
        rows = blocked_residuals(responses, measured, weights)
        wanted = model.among(rival_cells(responses, measured.means))
        (expected,) = fit_coalitions(rows, start[:, None], [wanted], 4)
        assert fit.gain == expected.gain
        assert_array_equal(fit.probabilities, expected.probabilities)


def test_dense_contexts_are_searched_first_and_all_of_them_if_they_show_anything(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses = in_blocks(grid_of(rng.random((300, 3, 4))))
    (whole,) = rounds._samples(responses, generator(0))
    assert whole.is_everything
    some = np.array([True, False, True])
    monkeypatch.setattr(type(responses), "dense_contexts", lambda *_: some)
    first, second = rounds._samples(responses, generator(0))
    assert first.contexts.tolist() == some.tolist()
    assert second.is_everything
    monkeypatch.setattr(rounds, "SPARSE", 300.0)  # responses for each of twelve cells
    assert len(list(rounds._samples(responses, generator(0)))) == 2
    monkeypatch.setattr(rounds, "SPARSE", 300.1)
    (only,) = rounds._samples(responses, generator(0))
    assert only.contexts.tolist() == some.tolist()
    monkeypatch.setattr(rounds, "SPARSE", 200.0)
    monkeypatch.setattr(rounds, "SAMPLE_ENTRIES", 2400)
    first, second = rounds._samples(responses, generator(0))
    assert not second.is_everything
    monkeypatch.setattr(rounds, "SAMPLE_ENTRIES", 2399)
    assert len(list(rounds._samples(responses, generator(0)))) == 1


def test_a_coalition_is_discounted_and_the_next_round_finds_no_more(
    attacked: tuple[Residuals, Noise],
) -> None:
    data, _ = attacked
    responses, weights = in_blocks(data.responses, 30), np.full(N_USERS, 0.9)
    found, believed = rounds.discount_coalitions(
        responses, weights, adversarial_fraction=0.2, rng=generator(0)
    )
    assert [r.is_accepted for r in found.rounds] == [True, False]
    assert found.allows_tastes is False
    assert len(believed) == 1
    assert_allclose(found.weights, 0.9 * (1.0 - believed[0].probabilities))
    assert found.weights[:9].max() < 0.01
    assert found.weights[9:].min() > 0.85
    first = found.rounds[0]
    assert first.accused == pytest.approx(0.9 * 9 / 60)
    assert first.gain > first.null_gain
    assert first.stage == "mean"
    (own,) = generator(0).spawn(1)
    (sample,) = rounds._samples(responses, generator(0))
    again = rounds._search(sample, weights, 0.2, True, own)
    assert again.round == first
    assert isinstance(Null(data, again.noise, 0.2, own), Null)
