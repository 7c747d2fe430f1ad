from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.limits.planner import Plan, plan_traffic
from unswayed.simulation import fewest_plays as module
from unswayed.simulation.fewest_plays import PlaySearch, fewest_plays, search_words
from unswayed.simulation.planned import PlanTrial, simulated_leads

FOUR = np.full(4, 0.25)
PLAN = plan_traffic(FOUR, 4, 0.25, 0.15, 0.1)
PLANNED = PLAN.methods[0].interactions_per_user


def searched(
    monkeypatch: pytest.MonkeyPatch, share_within: Callable[[int, int], float], **options: Any
) -> PlaySearch:
    """Search where the share of repetitions within the target is known for plays and seeds."""

    def trial(
        _plan: Plan, _nu: object, _method: str, plays: int, *, attack: str, gap: float, **rest: Any
    ) -> PlanTrial:
        return PlanTrial(attack, gap, 0.01, 0.1, share_within(plays, rest["seed"]))

    monkeypatch.setattr(module, "simulated_trial", trial)
    return fewest_plays(PLAN, FOUR, "bounded", seed=7, **options)


def tried(found: PlaySearch) -> list[tuple[int, int, bool]]:
    return [(step.interactions_per_user, step.seed, step.holds) for step in found.steps]


def test_plays_are_halved_while_they_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    half, quarter = -(-PLANNED // 2), -(-PLANNED // 4)
    found = searched(monkeypatch, lambda plays, _: 0.9 if plays >= half else 0.8)
    assert tried(found) == [
        (PLANNED, 7, True),
        (half, 7, True),
        (quarter, 7, False),
        (half, 8, True),
    ]
    assert found.interactions_per_user == half
    assert found.share_of_plan == half / PLANNED


def test_what_fails_in_fresh_worlds_is_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every further world fewer plays than planned turn out not to be enough."""
    found = searched(monkeypatch, lambda plays, seed: float(seed == 7 or plays >= PLANNED))
    first, *others = [step for step in found.steps if step.seed > 7]
    assert first.interactions_per_user == min(step.interactions_per_user for step in found.steps)
    assert not first.holds
    for before, after in zip([first, *others], others, strict=False):
        assert after.interactions_per_user == 2 * before.interactions_per_user
        assert after.seed == before.seed + 1
    assert others[-1].holds
    assert found.interactions_per_user == others[-1].interactions_per_user >= PLANNED


def test_where_the_plan_is_not_enough_up_to_four_times_as_many_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = searched(monkeypatch, lambda plays, _: float(plays >= 4 * PLANNED))
    assert tried(found) == [
        (PLANNED, 7, False),
        (2 * PLANNED, 7, False),
        (4 * PLANNED, 7, True),
        (4 * PLANNED, 8, True),
    ]
    assert found.interactions_per_user == 4 * PLANNED
    never = searched(monkeypatch, lambda _plays, _seed: 0.5)
    assert [step.interactions_per_user for step in never.steps] == [
        PLANNED,
        2 * PLANNED,
        4 * PLANNED,
    ]
    assert never.interactions_per_user is None
    assert never.share_of_plan is None
    assert (
        f"did not meet the target with up to {4 * PLANNED:,} plays" in search_words(never, PLAN)[0]
    )
    assert search_words(never, PLAN)[0].endswith("learn with --method paper.")


def test_nothing_below_the_lower_bound_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, lambda _plays, _seed: 1.0)
    assert found.interactions_per_user is not None
    assert PLAN.lower_bound <= found.interactions_per_user <= max(1, 2 * PLAN.lower_bound)


def test_a_number_of_plays_is_enough_only_under_every_attack_and_lead_above_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, str, float]] = []
    searched(
        monkeypatch,
        lambda _plays, _seed: 1.0,
        attacks=("nuke", "push"),
        on_trial=lambda plays, trial: seen.append((plays, trial.attack, trial.gap)),
    )
    first = {(attack, gap) for plays, attack, gap in seen[:4] if plays == PLANNED}
    leads = [gap for gap in simulated_leads(PLAN) if gap > 0.15]
    assert len(leads) == 2  # a smaller one costs no more than the target
    assert first == {(attack, gap) for attack in ("nuke", "push") for gap in leads}


def test_a_search_in_a_small_world_is_real() -> None:
    """Under one attack, with few repetitions; the share that meets the target is counted."""
    found = fewest_plays(PLAN, FOUR, "paper", attacks=("nuke",), repetitions=3)
    assert not found.is_scaled
    assert found.steps[0].interactions_per_user == PLANNED
    assert found.steps[0].holds  # as in test_planned, where this plan is verified
    assert any(not step.holds for step in found.steps)  # else the bound would have been reached
    assert found.interactions_per_user is not None
    sentence = search_words(found, PLAN)[0]
    assert f"In simulation {found.interactions_per_user:,} plays per user were enough" in sentence
    assert sentence.endswith("stayed within 0.15 under nuke, and again in fresh worlds.")


def test_a_smaller_world_stands_in_for_a_plan_too_large_to_simulate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LARGEST_SEARCHED_RUN", 100_000)
    nu = np.full(20, 0.05)
    plan = plan_traffic(nu, 10, 0.25, 0.15, 0.1)
    monkeypatch.setattr(
        module,
        "simulated_trial",
        lambda *_, attack, gap, **__: PlanTrial(attack, gap, 0.0, 0.0, 1.0),
    )
    found = fewest_plays(plan, nu, "bounded")
    assert found.is_scaled
    assert found.plan.methods[0].total_interactions * found.plan.n_actions <= 100_000
    words = search_words(found, plan)
    assert f"{found.plan.n_contexts:,} contexts, {found.plan.n_actions:,} actions" in words[0]
    assert found.share_of_plan is not None
    about = -(-found.share_of_plan * plan.methods[0].interactions_per_user // 1)
    assert f"would take about {about:,.0f} plays per user" in words[2]


def test_an_unknown_method_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="magic"):
        fewest_plays(PLAN, FOUR, "magic")
