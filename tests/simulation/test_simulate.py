from __future__ import annotations

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.experiments.sweeps import world
from unswayed.simulation.algorithms import algorithms
from unswayed.simulation.simulate import Row, Settings, run_repetition, simulate, summarise

SMALL = {
    "contexts": 3,
    "actions": 4,
    "users": 60,
    "interactions": 10,
    "alpha": 0.2,
    "attack": "push",
    "algorithms": ("naive-ucb", "oracle"),
    "repetitions": 3,
}


def settings(**changes: object) -> Settings:
    """Return small settings with changes."""
    return Settings(**(SMALL | changes))  # type: ignore[arg-type]  # also used with wrong ones


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    chosen = settings(algorithms=("paper", "thompson", "oracle"), attack="shifted-replay")
    assert simulate(chosen, processes=1) == simulate(chosen, processes=2)


def test_rows_are_ordered_and_each_one_is_reported() -> None:
    reported: list[Row] = []
    rows = simulate(settings(), on_row=reported.append)
    assert [(row.algorithm, row.repetition) for row in rows] == [
        (algorithm, repetition) for algorithm in ("naive-ucb", "oracle") for repetition in range(3)
    ]
    assert sorted(reported, key=lambda row: (row.algorithm, row.repetition)) == rows


def test_the_results_of_an_algorithm_do_not_depend_on_the_others() -> None:
    alone = simulate(settings(algorithms=("naive-ucb",)))
    together = simulate(settings(algorithms=("thompson", "naive-ucb")))
    assert alone == [row for row in together if row.algorithm == "naive-ucb"]


def test_seeds_and_repetitions_give_different_worlds() -> None:
    first, second = settings().instance(0), settings().instance(1)
    other = settings(seed=1).instance(0)
    assert not np.array_equal(first.mean_rewards, second.mean_rewards)
    assert not np.array_equal(first.mean_rewards, other.mean_rewards)


@pytest.mark.parametrize("name", algorithms())
def test_every_algorithm_plays(name: str) -> None:
    (row,) = simulate(settings(algorithms=(name,), repetitions=1))
    assert row.loss >= 0.0


def test_the_oracle_is_right_where_the_pooled_mean_is_misled() -> None:
    """3000 plays per context, 240 good ones per action: the gap is 9 standard errors."""
    chosen = settings(
        contexts=10,
        actions=10,
        users=1000,
        interactions=30,
        algorithms=("naive-ucb", "oracle"),
        repetitions=2,
    )
    naive, oracle = summarise(simulate(chosen))
    assert oracle.mean == 0.0
    assert naive.mean >= 0.3


def test_context_probabilities_are_uniform_zipf_or_given() -> None:
    np.testing.assert_allclose(settings().instance(0).context_probabilities, 1 / 3)
    zipf = settings(context_probabilities="zipf:1").instance(0).context_probabilities
    np.testing.assert_allclose(zipf, np.array([6, 3, 2]) / 11)
    given = settings(context_probabilities=(0.7, 0.2, 0.1)).instance(0).context_probabilities
    np.testing.assert_allclose(given, [0.7, 0.2, 0.1])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"algorithms": ("papper",)}, "did you mean paper"),
        ({"algorithms": ()}, "no algorithm"),
        ({"attack": "psuh"}, "did you mean push"),
        ({"knobs": {"loudness": 1}}, "unknown knob"),
        ({"alpha": 0.5}, "alpha"),
        ({"assumed_alpha": 0.7}, "assumed_alpha"),
        ({"repetitions": 0}, "repetitions"),
        ({"seed": -1}, "seed"),
        ({"rewards": "gausian"}, "did you mean gaussian"),
        ({"deviation": 0.0}, "deviation"),
        ({"arrivals": "bursts"}, "unknown arrivals"),
        ({"arrivals": "bursty:1"}, "c_L"),
        ({"arrivals": "bursty:often"}, "after the colon|follows the colon"),
        ({"context_probabilities": "zip:1"}, "must be uniform, zipf:EXPONENT"),
        ({"context_probabilities": "zipf:-1"}, "exponent"),
        ({"context_probabilities": (0.5, 0.5)}, "for each"),
        ({"contexts": 0}, "contexts"),
        ({"actions": 1}, "actions"),
        ({"users": 0}, "users"),
        ({"interactions": 0}, "interactions"),
        ({"gap": 2.0}, "gap"),
        ({"perturbation": -1.0}, "perturbation"),
    ],
)
def test_invalid_settings_are_rejected_before_anything_runs(
    wrong: dict[str, object], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        settings(**wrong)


def test_tastes_are_fixed_bounded_and_uniform() -> None:
    """Rewards are means plus noise; with hardly any noise they show each user's own mean."""
    settings = world(
        users=2000, contexts=10, actions=5, alpha=0.0, perturbation=0.2, deviation=1e-9
    )
    match = settings.match("naive-mean", 0)
    shifts = np.full((2000, 10, 5), np.nan)
    for played in match.rounds():
        place = played.users, played.contexts, played.actions
        shift = played.rewards - match.instance.mean_rewards[played.contexts, played.actions]
        known = ~np.isnan(shifts[place])
        np.testing.assert_allclose(shift[known], shifts[place][known], atol=1e-6)
        shifts[place] = shift
    seen = shifts[~np.isnan(shifts)]
    assert len(seen) > 40_000
    assert np.abs(seen).max() <= 0.2 + 1e-6
    # The mean of 40,000 uniform numbers on [-1, 1] has standard error 0.0029; that of their
    # squares, with mean 1/3 and variance 4/45, has 0.0015.
    assert abs((seen / 0.2).mean()) < 5 * 0.0029
    assert abs(((seen / 0.2) ** 2).mean() - 1 / 3) < 5 * 0.0015
    # Tastes of neighbouring users are independent; their products have variance 1/9.
    products = (shifts[:-1] * shifts[1:] / 0.04)[~np.isnan(shifts[:-1] * shifts[1:])]
    assert abs(products.mean()) < 5 * np.sqrt(1 / 9 / len(products))


def test_regret_is_measured_against_each_users_own_best_action(seed: int) -> None:
    """Because of tastes, every single policy for all users has a positive regret."""
    common, own = (
        run_repetition(world(users=150, perturbation=taste, seed=seed), "oracle-ucb", 0, "regret")
        for taste in (0.0, 0.8)
    )
    assert own.loss > 2.0 * common.loss
