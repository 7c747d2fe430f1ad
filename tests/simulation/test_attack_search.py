"""The searching attacker finds harm where there is some, and is judged where it never looked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.randomness import generator
from unswayed.simulation.attack_search import (
    FIRST_FRESH_WORLD,
    LEAST_BUDGET,
    ONLY_BINARY,
    Candidate,
    attacks_for,
    drawn,
    neighbour,
    ranges_of,
    runs_planned,
    search_attacks,
)
from unswayed.simulation.attacks.registry import ATTACKS, knobs_of, make_attack
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import run_repetition


def small(algorithm: str = "naive-mean", *, seed: int = 0) -> Settings:
    """Return worlds in which the pooled mean is right without lies, and a run takes milliseconds.

    A cell has 200 * 20 / 9 = 444 plays of deviation at most 0.5, so a contrast has a standard error
    of at most 0.034 and the gap is 8.9 of them.
    """
    return Settings(
        contexts=3,
        actions=3,
        users=200,
        interactions=20,
        alpha=0.2,
        attack="honest",
        algorithms=(algorithm,),
        rewards="bernoulli",
        seed=seed,
    )


def test_the_search_finds_an_attack_on_the_pooled_mean_at_least_as_bad_as_push(seed: int) -> None:
    """Push, as it comes, is among the first candidates; both are judged in the same fresh worlds.

    The winner was chosen over push in other worlds, so only chance can put it behind: by more than
    three standard errors of a mean over eight worlds with P < 0.01.
    """
    settings, fresh = small(seed=seed), 8
    worst = search_attacks(settings, budget=100, fresh_worlds=fresh)[0]
    push = [
        run_repetition(replace(settings, attack="push"), "naive-mean", FIRST_FRESH_WORLD + world)
        for world in range(fresh)
    ]
    losses = np.array([row.loss for row in push])
    stderr = float(np.hypot(worst.fresh.stderr or 0.0, losses.std(ddof=1) / np.sqrt(fresh)))
    assert worst.fresh.mean >= losses.mean() - 3 * stderr
    assert worst.fresh.mean > 0.1  # a third of the gap, where honest accounts do no harm
    assert worst.honest.mean == 0.0


def test_the_winner_is_judged_in_worlds_that_the_search_never_saw(seed: int) -> None:
    settings = small(seed=seed)
    worst = search_attacks(settings, budget=60, fresh_worlds=3)[0]
    assert worst.fresh.mean != worst.training_mean
    attacked = replace(settings, attack=worst.attack, knobs=worst.knobs)
    assert worst.fresh.repetitions == tuple(
        run_repetition(attacked, "naive-mean", FIRST_FRESH_WORLD + world).loss for world in range(3)
    )
    trained = [
        run_repetition(attacked, "naive-mean", world).loss for world in range(worst.training_worlds)
    ]
    assert worst.training_mean == pytest.approx(np.mean(trained))
    assert worst.training_worlds < FIRST_FRESH_WORLD


@pytest.mark.parametrize("budget", [LEAST_BUDGET, 57, 120])
def test_the_search_keeps_to_its_budget(budget: int, seed: int) -> None:
    settings = small(seed=seed)
    calls: list[None] = []
    worst = search_attacks(
        settings, budget=budget, fresh_worlds=2, on_run=lambda: calls.append(None)
    )[0]
    assert worst.runs <= budget
    # Two fresh worlds for the winner, the honest, and the one before climbing if it is another.
    assert len(calls) in (worst.runs + 4, worst.runs + 6)
    assert len(calls) <= runs_planned(settings, budget=budget, fresh_worlds=2)


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(seed: int) -> None:
    settings = small(seed=seed)
    one, two = (
        search_attacks(settings, budget=30, fresh_worlds=2, processes=n, on_run=lambda: None)
        for n in (1, 2)
    )
    assert one == two


def test_every_attack_but_the_one_that_searches_itself_is_in_the_space() -> None:
    assert set(attacks_for(is_binary=True)) == set(ATTACKS) - {"best-response"}
    unsearched = {name for name in ATTACKS if set(knobs_of(ATTACKS[name])) != set(ranges_of(name))}
    assert unsearched == {"best-response", "id-grinding"}


def test_whatever_is_drawn_can_be_played(seed: int) -> None:
    rng = generator(seed, "space")
    attacks = attacks_for(is_binary=True)
    seen = set()
    for _ in range(300):
        candidate = drawn(attacks, rng)
        for each in (candidate, neighbour(candidate, rng), neighbour(Candidate("push"), rng)):
            make_attack(each.attack, each.knobs)
            assert all(0.0 <= unit <= 1.0 for unit in each.units or ())
        seen.add(candidate.attack)
    # Each attack is drawn with probability 1/56 at least: missed by 300 draws with P = 0.0045, so
    # the expected number of missing ones is 0.13 and three are missing with P < 4e-4.
    assert len(set(attacks) - seen) < 3


def test_coalitions_that_need_zeros_and_ones_are_left_out_elsewhere() -> None:
    assert set(attacks_for(is_binary=True)) - set(attacks_for(is_binary=False)) == set(ONLY_BINARY)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"budget": LEAST_BUDGET - 1}, "budget"),
        ({"fresh_worlds": 1}, "fresh-worlds"),
        ({"processes": 0}, "processes"),
    ],
)
def test_a_search_that_cannot_be_is_refused(options: dict[str, int], named: str) -> None:
    chosen = {"budget": LEAST_BUDGET, "fresh_worlds": 2, "processes": 1} | options
    with pytest.raises(InputError, match=named):
        search_attacks(
            small(),
            budget=chosen["budget"],
            fresh_worlds=chosen["fresh_worlds"],
            processes=chosen["processes"],
        )
