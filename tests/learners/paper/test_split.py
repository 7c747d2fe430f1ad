"""The split into frequent and rare contexts has the smallest bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unswayed.learners.methods import METHODS
from unswayed.learners.paper import frequent_contexts, split_contexts
from unswayed.learners.players import learner_specs
from unswayed.randomness import generator
from unswayed.simulation.arena import Crowd, Match
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.instances import RewardLaw, random_instance


def bound(nu: np.ndarray, is_frequent: np.ndarray, n_actions: int, plays: float) -> float:
    """Return K_m, the bound of Theorem 5.1's proof for a given S₊."""
    rest = nu[~is_frequent]
    factor = 1.0 + plays * rest.max(initial=0.0)
    return float(np.sqrt(nu[is_frequent]).sum() + np.sqrt(n_actions * rest.sum() * factor))


@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=30),
    st.integers(2, 12),
    st.sampled_from([0.0, 5.0, 100.0]),
)
def test_the_chosen_set_of_frequent_contexts_has_the_smallest_bound(
    weights: list[float], n_actions: int, plays: float
) -> None:
    nu = np.array(weights) / np.sum(weights)
    chosen = split_contexts(nu, n_actions=n_actions, sticky_plays=plays)
    literal = frequent_contexts(nu, n_actions=n_actions)
    assert not (chosen & ~literal).any()
    if len(nu) <= n_actions:
        assert chosen.all()
        return
    others = [frequent_contexts(nu, n_actions=m) for m in range(n_actions + 1)]
    least = min(bound(nu, other, n_actions, plays) for other in others)
    assert bound(nu, chosen, n_actions, plays) == pytest.approx(least, abs=1e-8)


def test_many_sticky_plays_favour_trimming() -> None:
    """A user's mean depends on the kept action, which more plays do not average out."""
    nu = np.full(20, 0.05)
    assert not split_contexts(nu, n_actions=10).any()
    assert split_contexts(nu, n_actions=10, sticky_plays=1000.0).sum() == 10


def loss(name: str, seed: int) -> float:
    """Return a learner's loss with 12 contexts and 6 actions under nuke."""
    instance = random_instance(
        n_contexts=12, n_actions=6, gap=0.3, rng=generator(seed), law=RewardLaw.GAUSSIAN
    )
    crowd = Crowd(n_users=1500, alpha=0.2, interactions_per_user=30)
    make, nuke = learner_specs()[name].make, make_attack("nuke")
    return Match(instance, nuke, make, crowd, algorithm=name, seed=seed).loss()


def test_with_more_contexts_than_actions_our_split_loses_less(seed: int) -> None:
    """The split of the printed algorithm loses more than the filter alone."""
    literal, better = (
        np.mean([loss(name, 10 * seed + world) for world in range(2)])
        for name in ("paper-literal", "paper")
    )
    assert better < 0.03 < literal


def test_both_splits_are_registered_methods() -> None:
    assert {"paper", "paper-literal"} <= set(METHODS)
