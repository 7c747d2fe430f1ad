"""How the default learner puts its parts together, and what it reports."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from tests.learners.discount.logs import make_log
from tests.learners.discount.small import grid_of, in_blocks, responses_from
from tests.learners.discount.worlds import make_world
from unswayed.learners.design import uniform_design
from unswayed.learners.discount import learn_discounted, method
from unswayed.learners.discount.loud import FoundLie
from unswayed.learners.discount.means.bounded import cell_values
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.trial.verdicts import Discounted, Round, Verdict
from unswayed.learners.paper import learn_paper
from unswayed.learners.paper.method import FAILURE_PROBABILITY
from unswayed.randomness import generator


def a_round(verdict: Verdict = Verdict.DISCOUNTED, aligned: float = 5.0) -> Round:
    return Round(
        stage="mean",
        model="",
        taste_share=0.0,
        gain=9.0,
        null_gain=1.0,
        opposite_gain=-np.inf,
        alignment=aligned,
        accused=0.1,
        removed=0.1,
        stake=0.1,
        verdict=verdict,
    )


def test_evidence_says_what_was_removed_and_found() -> None:
    lie = FoundLie(np.array([2]), True, 3.0)
    rounds_ = [a_round(), a_round(Verdict.TOO_MANY)]
    found = Discounted(np.array([1.0, 0.5]), True, rounds_)
    assert method._evidence(found, [lie], bounded=0.25, cut=0.125) == {
        "removed": 0.25,
        "coalitions": 1,
        "abstained": True,
        "tastes": True,
        "bounded": 0.25,
        "cut": 0.125,
        "lies": [{"cells": [2], "raises": True, "accounts": 3.0}],
        "rounds": [one.to_json() for one in rounds_],
    }
    nothing = method._evidence(Discounted(np.ones(2), False, []), [], bounded=0.0, cut=0.0)
    assert (nothing["abstained"], nothing["coalitions"], nothing["removed"]) == (False, 0, 0.0)
    for verdict, abstained in (
        (Verdict.LIKE_A_TASTE, True),
        (Verdict.WITHIN_CHANCE, False),
        (Verdict.DISCOUNTED, False),
        (Verdict.CONTRADICTED, False),
    ):
        last = Discounted(np.ones(2), False, [a_round(Verdict.TOO_MANY), a_round(verdict)])
        assert method._evidence(last, [], bounded=0.0, cut=0.0)["abstained"] is abstained


def test_two_and_a_half_cells_a_user_show_pairs_and_so_do_binary_plays() -> None:
    def of(n_entries: int, *, is_binary: bool = False) -> bool:
        users = np.sort(np.arange(n_entries) % 4)
        one = responses_from(
            users, np.zeros(n_entries), np.ones(n_entries), np.zeros(n_entries),
            n_users=4, n_contexts=1, n_actions=1, is_binary=is_binary,
        )  # fmt: skip
        return method._shows_pairs(in_blocks(one))

    assert of(10)
    assert not of(9)
    assert of(4, is_binary=True)


class Stages:
    """Stages with made-up results; keeps what they were given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.called: list[str] = []
        self.options = options
        weights = np.full(4, 0.5)
        loud_round = replace(a_round(), stage="loud")
        self.loud = SimpleNamespace(weights=weights, rounds=[loud_round], lies=["a lie"])
        for name in (
            "discount_loud_lies",
            "discount_coalitions",
            "has_tastes",
            "discount_among_tastes",
            "contradicts",
        ):
            monkeypatch.setattr(method, name, getattr(self, name))

    def discount_loud_lies(self, _plays: Any, **given: Any) -> Any:
        """Return loud lies."""
        self.called.append("loud")
        assert given["adversarial_fraction"] == 0.2
        return self.loud

    def discount_coalitions(self, _responses: Any, weights: Any, **given: Any) -> Any:
        """Return what a stage without tastes found."""
        self.called.append("mean")
        assert given["adversarial_fraction"] == 0.2
        return Discounted(0.5 * weights, False, [self.options["quiet"]]), ["explained"]

    def has_tastes(self, _responses: Any, weights: Any, explained: Any, _rng: Any) -> bool:
        """Return whether users have tastes, before anything quiet was discounted."""
        assert weights.tolist() == [0.5] * 4
        assert explained == ["explained"]
        return bool(self.options["has_tastes"])

    def discount_among_tastes(self, _responses: Any, weights: Any, **given: Any) -> Any:
        """Return what a stage with tastes found."""
        self.called.append("tastes")
        assert weights.tolist() == [0.5] * 4
        assert given["adversarial_fraction"] == 0.2
        return Discounted(0.1 * weights, True, [self.options["tasted"]])

    def contradicts(self, _responses: Any, before: Any, after: Any) -> bool:
        """Return whether the majority contradicts."""
        self.called.append("majority")
        assert before.tolist() == [0.5] * 4
        return bool(self.options.get("contradicts", False)) and after[0] != 0.5


def staged(
    monkeypatch: pytest.MonkeyPatch,
    *,
    asks_majority: bool = False,
    n_cells: int = 3,
    alpha: float = 0.2,
    categories: Any = None,
    **options: Any,
) -> tuple[Stages, Discounted, Any]:
    stages = Stages(monkeypatch, **options)
    known = categories or SimpleNamespace(is_rare=False, is_even=True)
    plays: Any = SimpleNamespace(categories=known)
    responses = in_blocks(grid_of(np.zeros((4, 1, n_cells))))
    found, lies = method._discounted(plays, responses, alpha, asks_majority, generator(0))
    return stages, found, lies


QUIET, LOUD = a_round(), replace(a_round(), stage="loud")
TASTED = replace(a_round(), stage="tastes")
TASTE = replace(QUIET, verdict=Verdict.LIKE_A_TASTE)


def test_quiet_coalitions_are_searched_after_loud_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    stages, found, lies = staged(monkeypatch, quiet=QUIET, has_tastes=False)
    assert stages.called == ["loud", "mean"]
    assert found.weights.tolist() == [0.25] * 4
    assert found.rounds == [LOUD, QUIET]
    assert found.allows_tastes is False
    assert lies == ["a lie"]


@pytest.mark.parametrize(
    ("quiet", "tasted", "weight", "allows_tastes", "expected"),
    [
        # What was believed among tastes counts, and what was believed without them does not.
        (QUIET, TASTED, 0.05, True, [TASTE, TASTED]),
        # Nothing there: what clearly aims stays ...
        (QUIET, replace(TASTED, verdict=Verdict.TOO_MANY), 0.25, False, [QUIET]),
        # ... and what does not was a taste.
        (replace(QUIET, alignment=4.0), replace(TASTED, verdict=Verdict.TOO_MANY), 0.05, True, []),
    ],
)
def test_among_users_with_tastes_the_later_stage_decides(
    monkeypatch: pytest.MonkeyPatch,
    quiet: Round,
    tasted: Round,
    weight: float,
    allows_tastes: bool,
    expected: list[Round],
) -> None:
    stages, found, _ = staged(monkeypatch, quiet=quiet, tasted=tasted, has_tastes=True)
    assert stages.called == ["loud", "mean", "tastes"]
    assert_allclose(found.weights, weight)
    assert found.allows_tastes is allows_tastes
    if not expected:
        expected = [replace(quiet, verdict=Verdict.LIKE_A_TASTE)]
    last = [] if tasted in expected else [tasted]
    assert found.rounds == [LOUD, *expected, *last]


def test_users_with_few_cells_are_searched_for_tastes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages, found, _ = staged(monkeypatch, n_cells=2, tasted=TASTED)
    assert stages.called == ["loud", "tastes"]
    assert found.rounds == [LOUD, TASTED]
    assert_allclose(found.weights, 0.05)


@pytest.mark.parametrize("contradicts", [False, True])
def test_the_majority_is_asked_only_if_wanted(
    monkeypatch: pytest.MonkeyPatch, contradicts: bool
) -> None:
    stages, found, _ = staged(
        monkeypatch, asks_majority=True, quiet=QUIET, has_tastes=False, contradicts=contradicts
    )
    assert stages.called == ["loud", "mean", "majority"]
    assert_allclose(found.weights, 0.5 if contradicts else 0.25)
    verdict = Verdict.CONTRADICTED if contradicts else Verdict.DISCOUNTED
    assert found.rounds == [LOUD, replace(QUIET, verdict=verdict)]


@pytest.mark.parametrize(("is_rare", "is_even"), [(True, True), (False, False), (True, False)])
def test_rare_or_skewed_rewards_are_searched_for_loud_lies_only(
    monkeypatch: pytest.MonkeyPatch, is_rare: bool, is_even: bool
) -> None:
    categories = SimpleNamespace(is_rare=is_rare, is_even=is_even)
    stages, found, lies = staged(monkeypatch, categories=categories)
    assert stages.called == ["loud"]
    assert found.weights.tolist() == [0.5] * 4
    assert (found.rounds, found.allows_tastes, lies) == ([LOUD], False, ["a lie"])


def test_without_colluders_or_entries_nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    stages, found, lies = staged(monkeypatch, alpha=0.0)
    assert (stages.called, found.rounds, lies) == ([], [], [])
    assert found.weights.tolist() == [1.0] * 4
    assert found.allows_tastes is False


def test_estimates_without_colluders_are_the_shrunken_means(rng: np.random.Generator) -> None:
    """Ninety-five percent intervals around them; worst cases and contexts are the guard's."""
    tallies = make_world(rng, n_users=60, n_contexts=4, n_actions=3).tallies
    design = uniform_design(tallies)
    found = learn_discounted(tallies, design, adversarial_fraction=0.0)
    assert found.decided_by.tolist() == ["pooled mean"] * 4
    assert_array_equal(found.user_weights, np.ones(60))
    guard = learn_paper(tallies, design, adversarial_fraction=0.0)
    half_width = found.sampling_errors + found.bias_bounds
    for end in found.interval:
        assert (np.abs(end - found.mean_rewards) <= half_width + 1e-12).all()
    assert_array_equal(found.frequent_contexts, guard.frequent_contexts)
    low, high = guard.interval
    assert_array_equal(found.interval[0], np.fmin(low, found.mean_rewards))
    assert_array_equal(found.interval[1], np.fmax(high, found.mean_rewards))
    assert found.context_probabilities.sum() == pytest.approx(1.0)
    responses = clipped_responses(tallies)
    assert_allclose(
        found.context_probabilities,
        responses.context_probabilities / responses.context_probabilities.sum(),
        atol=0.02,
    )
    assert found.evidence["removed"] == 0.0
    assert found.evidence["cut"] == 0.0
    values = cell_values(responses, np.ones(60))
    assert_allclose(found.mean_rewards, values.shrunken, atol=0.05)
    z = stats.norm.ppf(1.0 - FAILURE_PROBABILITY / 2.0)
    assert_allclose(found.sampling_errors, z * np.sqrt(values.variances), rtol=0.1)


def test_clicks_and_their_copies_in_other_units_are_learned_alike(
    rng: np.random.Generator,
) -> None:
    log = make_log(rng, bots=0.1, n_users=300, rate=0.1)
    plain = log.tallies()
    scaled = replace(log, rewards=5.0 + 3.0 * log.rewards).tallies()
    design = uniform_design(plain)
    one, other = (learn_discounted(t, design, adversarial_fraction=0.1) for t in (plain, scaled))
    assert_allclose(other.mean_rewards, 5.0 + 3.0 * one.mean_rewards, rtol=1e-6)
    assert_allclose(other.sampling_errors, 3.0 * one.sampling_errors, rtol=1e-6)
    assert_allclose(other.user_weights, one.user_weights, atol=1e-6)
    assert one.decided_by.tolist() == other.decided_by.tolist()
    assert "discounted mean" in one.decided_by.tolist()
    assert one.evidence["lies"] == other.evidence["lies"]
