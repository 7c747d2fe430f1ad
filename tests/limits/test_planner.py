from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from unswayed.cli.plan import plan_words
from unswayed.errors import InputError
from unswayed.learners.methods import METHODS
from unswayed.limits import instance_complexity, total_variation
from unswayed.limits.planner import (
    FEWEST_USERS,
    SHAPES,
    Plan,
    Traffic,
    constants,
    paper_factor,
    plan_traffic,
)

UNIFORM = np.full(100, 0.01)


def planned(**changes: Any) -> Plan:
    question: dict[str, Any] = {
        "context_probabilities": UNIFORM,
        "n_actions": 20,
        "alpha": 0.1,
        "target_suboptimality": 0.05,
        "failure_probability": 0.1,
    }
    return plan_traffic(**(question | changes))


def plays(**changes: Any) -> int:
    return planned(**changes).methods[0].interactions_per_user


def test_plays_follow_the_formula_with_the_fitted_factor() -> None:
    """With few contexts, no plays are needed for context probabilities."""
    nu = np.array([0.4, 0.3, 0.2, 0.1])
    plan = planned(context_probabilities=nu, n_actions=5, n_users=10_000)
    few_users = constants()["methods"]["paper"]["few_users"]["frequent"]
    corruption = 0.1 + few_users * 5 * math.log(20) / 10_000
    factor = paper_factor("frequent", 0.1, 0.1)
    expected = (factor * instance_complexity(nu, 5) / 0.05) ** 2 * corruption
    assert plan.methods[0].interactions_per_user == math.ceil(expected)
    assert plan.methods[0].context_steps == 0


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("target_suboptimality", [0.09, 0.05, 0.02, 0.01]),
        ("alpha", [0.06, 0.1, 0.2, 0.3]),
        ("failure_probability", [0.5, 0.2, 0.1, 0.02]),
        ("n_users", [200_000, 20_000, 5_000, 2_500]),
        ("traffic", [Traffic(arrival_ratio=ratio) for ratio in (2.0, 3.0, 8.0, 50.0)]),
        ("traffic", [Traffic(exploration=share) for share in (1.0, 0.5, 0.2, 0.02)]),
        ("traffic", [Traffic(), Traffic(is_heavy_tailed=True)]),
        ("traffic", [Traffic(deviation=deviation) for deviation in (0.1, 0.5, 2.0)]),
    ],
)
def test_harder_targets_never_need_fewer_plays(name: str, values: list[float]) -> None:
    needed = [plays(**{name: value}) for value in values]
    assert all(easier <= harder for easier, harder in pairwise(needed))
    if name != "n_users":  # the factor for few users may be small
        assert needed[0] < needed[-1]


def test_halving_the_target_needs_four_times_the_plays() -> None:
    """Up to rounding to whole numbers."""
    assert plays(target_suboptimality=0.01) == pytest.approx(
        4 * plays(target_suboptimality=0.02), abs=4
    )


@pytest.mark.parametrize("fraction", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("n_actions", [2, 10, 200])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_the_lower_bound_is_exact_and_never_above_a_plan(
    fraction: float, n_actions: int, share: float
) -> None:
    """Coins 2·epsilon apart are hidden if their distance is at most alpha/(1 − alpha)."""
    epsilon = share * fraction
    plan = planned(n_actions=n_actions, alpha=fraction, target_suboptimality=epsilon)
    bound = plan.lower_bound
    distances = np.atleast_1d(total_variation(2 * epsilon, [bound - 1, bound], base=0.5 - epsilon))
    assert distances[0] <= fraction / (1 - fraction) * (1 + 1e-9)
    assert distances[1] > fraction / (1 - fraction)
    assert bound <= plan.methods[0].interactions_per_user
    assert bound <= plan.lower_bound_uniform


def test_there_are_as_many_frequent_contexts_as_actions() -> None:
    plan = planned()
    assert (plan.n_frequent, round(plan.frequent_share, 12)) == (20, 0.2)
    assert plan.methods[0].context_steps > 0
    few = planned(context_probabilities=[0.5, 0.5])
    assert (few.n_frequent, few.frequent_share) == (2, 1.0)
    assert few.methods[0].context_error is None


def test_the_context_phase_is_part_of_the_plays_and_accurate_enough() -> None:
    plan = planned()
    method = plan.methods[0]
    assert method.context_steps < method.total_interactions
    assert method.context_error is not None
    assert method.context_error <= plan.target_suboptimality * (1 + 1e-9)


def test_without_users_the_plan_uses_as_many_as_the_constants_require() -> None:
    """At least as many users as in the calibration: contexts times actions, divided by alpha."""
    plan = planned()
    assert (plan.n_users, plan.users_needed, plan.users_given) == (20_000, 20_000, False)
    assert planned(context_probabilities=[1.0], n_actions=2).n_users == FEWEST_USERS
    many_actions = planned(context_probabilities=[1.0], n_actions=100)
    few_users = constants()["methods"]["paper"]["few_users"]["frequent"]
    assert many_actions.n_users == math.ceil(few_users * 100 * math.log(100) / 0.1)


def test_plays_do_not_depend_on_the_units_of_rewards() -> None:
    """Doubling both the deviation and the target changes the units only."""
    assert plays(traffic=Traffic(deviation=0.25), target_suboptimality=0.025) == plays()
    clicks = planned(traffic=Traffic(base=0.02), target_suboptimality=0.005)
    scale = math.sqrt(0.02 * 0.98) / 0.5
    usual = planned(target_suboptimality=0.005 / scale)
    growth = (
        clicks.methods[0].interactions_per_user - clicks.methods[0].context_steps / clicks.n_users
    ) / (usual.methods[0].interactions_per_user - usual.methods[0].context_steps / usual.n_users)
    rows = [row for row in constants()["methods"]["paper"]["traffic"] if row["kind"] == "clicks"]
    assert growth == pytest.approx(
        max(1.0, *((row["mean"] / row["usual"]) ** 2 for row in rows)), rel=0.05
    )


def test_the_description_contains_the_numbers_of_the_plan() -> None:
    plan = planned(n_users=50_000)
    text = " ".join(plan_words(plan))
    method = plan.methods[0]
    for number in (method.interactions_per_user, method.total_interactions, plan.lower_bound):
        assert f"{number:,}" in text
    assert "20,000 of your 50,000 users would be enough" in text
    assert "extrapolation" in " ".join(plan_words(planned(n_users=3_000)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_suboptimality": 0.1}, "nothing to plan"),
        ({"target_suboptimality": 0.0}, "above 0"),
        ({"target_suboptimality": 1e-5}, "out of reach"),
        ({"target_suboptimality": 1e-7}, "cannot be learned in practice"),
        ({"alpha": 0.0}, "without a coalition"),
        ({"alpha": 0.4}, "below one third"),
        ({"alpha": 1.5}, "share of the users"),
        ({"failure_probability": 0.0}, "failure probability"),
        ({"failure_probability": 0.9}, "failure probability"),
        ({"context_probabilities": [0.5, 0.4]}, "sum to 0.9"),
        ({"context_probabilities": [1.5, -0.5]}, "at least 0"),
        ({"n_actions": 1}, "at least 2"),
        ({"n_users": 1_000}, "users cannot learn"),
        ({"lead": -1.0}, "lead"),
    ],
)
def test_impossible_questions_are_explained(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        planned(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrival_ratio": 1.0}, "`arrival_ratio` is 1.0"),
        ({"arrival_ratio": math.nan}, "`arrival_ratio` is nan"),
        ({"base": 0.0}, "click rate"),
        ({"deviation": math.inf}, "deviation"),
        ({"exploration": 1.1}, "exploration"),
    ],
)
def test_impossible_traffic_is_explained(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Traffic(**changes)


def test_the_constants_document_their_origin() -> None:
    shipped = constants()
    assert shipped["experiment"] == "benchmarks/calibrate_planner.py"
    assert {"seed", "repetitions", "rewards", "versions"} <= set(shipped)
    assert set(shipped["methods"]) <= set(METHODS)
    for fitted in shipped["methods"].values():
        assert {row["shape"] for row in fitted["rows"]} == set(SHAPES)
        assert {row["alpha"] for row in fitted["rows"]} >= {0.03, 0.1, 0.2, 0.3}
        kinds = {row["kind"] for row in fitted["traffic"]}
        assert kinds == {"ratio", "heavy-tailed", "clicks", "exploration"}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_calibrated_world_lost_more_than_the_factor_allows(shape: str) -> None:
    for fitted in constants()["methods"].values():
        for row in fitted["rows"]:
            if row["shape"] != shape:
                continue
            factor = paper_factor(shape, row["alpha"], 0.5)
            assert row["mean"] <= factor + 1e-12
