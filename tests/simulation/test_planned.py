from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.limits.planner import Plan, plan_traffic
from unswayed.simulation import planned
from unswayed.simulation.planned import PlanTrial, Verification, n_runs, verify_plan

FOUR = np.full(4, 0.25)


def small_plan(**changes: object) -> Plan:
    question: dict[str, object] = {
        "context_probabilities": FOUR,
        "n_actions": 4,
        "alpha": 0.25,
        "target_suboptimality": 0.15,
        "failure_probability": 0.1,
    }
    return plan_traffic(**(question | changes))  # type: ignore[arg-type]  # one question, changed


def test_a_small_plan_holds_when_it_is_simulated() -> None:
    """The negative control has a sixteenth of the plays, so the bound is four times as large."""
    plan = small_plan()
    found = verify_plan(plan, FOUR, repetitions=3)
    assert not found.is_scaled
    assert found.holds
    assert found.trials[0].share_within == min(trial.share_within for trial in found.trials)
    assert len(found.trials) * found.repetitions == n_runs(plan, 3)

    method = plan.methods[0]
    fewer = replace(method, interactions_per_user=max(1, method.interactions_per_user // 16))
    assert not verify_plan(replace(plan, methods=(fewer,)), FOUR, repetitions=3).holds


@pytest.mark.parametrize(("n_within", "holds"), [(10, True), (9, True), (8, False)])
def test_a_plan_holds_if_the_promised_share_of_repetitions_does(n_within: int, holds: bool) -> None:
    """Delta is .1. A mean below the target is not enough: what fails may fail by little."""
    trial = PlanTrial("push", 0.1, mean=0.01, largest=0.2, share_within=n_within / 10)
    found = Verification(False, small_plan(), "paper", 10, 0, (trial,))
    assert found.holds == holds


def test_the_same_seed_gives_the_same_trials() -> None:
    plan = small_plan()
    first, second = (verify_plan(plan, FOUR, repetitions=1, seed=3) for _ in range(2))
    assert first.trials == second.trials


def test_a_plan_too_large_to_simulate_is_replaced_by_a_smaller_one_of_its_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nu = np.arange(30, 0, -1) / 465
    plan = small_plan(context_probabilities=nu, n_actions=10)
    monkeypatch.setattr(planned, "LARGEST_RUN", 200_000)
    found = verify_plan(plan, nu, repetitions=1)
    small = found.plan
    assert found.is_scaled
    assert small.methods[0].total_interactions * small.n_actions <= 200_000
    assert small.n_contexts > small.n_actions  # as in the plan
    assert small.target_suboptimality == plan.target_suboptimality


def test_a_target_that_no_world_is_small_enough_for_is_refused() -> None:
    plan = small_plan(target_suboptimality=0.0005)
    with pytest.raises(InputError, match="verify a larger epsilon"):
        verify_plan(plan, FOUR)
