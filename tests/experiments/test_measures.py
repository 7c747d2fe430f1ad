from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unswayed.experiments.lower_bounds import ONE_SIDED, TWO_SIDED, right_decisions, success
from unswayed.experiments.sweeps import world
from unswayed.experiments.upper_bounds import context_error

VISITS = world(contexts=20, actions=2, users=500, interactions=16, context_probabilities="zipf:1")
HIDDEN = world(contexts=1, actions=2, users=400, interactions=9, gap=0.1, rewards="bernoulli")


def test_the_oracle_of_the_lemma_has_sampling_error_only() -> None:
    """E|nu_hat - nu|_1 <= sum sqrt(nu/n) <= sqrt(S/n), n = 400 good users times 16 visits.

    One visit changes the error by at most 2/n, so it is within 5/sqrt(n) of its mean except with
    probability exp(-2·25/4) (McDiarmid).
    """
    n = 400 * 16
    assert context_error(VISITS, "oracle", "context-poisoning", 0) <= (np.sqrt(20) + 5) / np.sqrt(n)


def test_a_flood_biases_plain_shares_but_not_algorithm_1() -> None:
    """Moving a fifth of all visits to a rare context gives an l1 error of about 2·0.2·(1 - nu)."""
    plain = context_error(VISITS, "naive-mean", "context-poisoning", 0)
    assert plain == pytest.approx(0.4, abs=0.06)
    assert context_error(VISITS, "paper", "context-poisoning", 0) < plain / 3


def test_without_colluders_everybody_finds_the_better_action() -> None:
    """The control: with 18,000 plays per action, the lead of 0.05 is 9.5 standard errors."""
    clean = replace(HIDDEN, users=4000, alpha=1e-9)
    assert [success(clean, "naive-mean", ONE_SIDED, repetition) for repetition in range(6)] == [
        1.0
    ] * 6


def test_the_oracle_finds_the_hidden_better_action() -> None:
    """With 14,400 good plays per action, the lead of 0.05 is 8.5 standard errors."""
    many = replace(HIDDEN, users=4000)
    found = [success(many, "oracle", TWO_SIDED, repetition) for repetition in range(10)]
    assert found == [1.0] * 10


def test_no_other_learner_finds_the_hidden_better_action() -> None:
    """At n = 9 both worlds look the same, so 60 decisions are tosses of a fair coin."""
    found = [success(HIDDEN, "naive-mean", TWO_SIDED, repetition) for repetition in range(60)]
    assert 15 <= sum(found) <= 45, "3.9 standard deviations around 30"


def test_only_the_oracle_finds_gaps_hidden_in_many_contexts() -> None:
    hidden = world(
        contexts=8, actions=2, users=20_000, interactions=2, gap=0.05, rewards="bernoulli"
    )
    pooled, oracle = (
        np.mean([right_decisions(hidden, name, "honest", n) for n in range(25)])
        for name in ("naive-mean", "oracle")
    )
    # With decisions by a fair coin in 200 contexts, the standard error is 0.035; three are allowed.
    assert abs(pooled - 0.5) < 3 * 0.5 / np.sqrt(8 * 25)
    assert oracle > 0.9
