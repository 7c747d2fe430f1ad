import re
from collections.abc import Callable
from math import log, log2, sqrt

import numpy as np
import pytest

from tests.learners.baselines.scenes import (
    Arrivals,
    bernoulli_arrivals,
    chosen_among_ties,
    small_setting,
)
from unswayed.errors import InputError
from unswayed.learners.baselines import ActiveArmElimination

Streams = Callable[..., np.random.Generator]


class LiteralLayers:
    """One context: layers from 1 with sets of active arms and lists of rewards."""

    def __init__(self, n_actions: int, n_layers: int, log_term: float) -> None:
        self.n_actions, self.n_layers, self.log_term = n_actions, n_layers, log_term
        layers = range(1, n_layers + 1)
        self.active = {layer: set(range(n_actions)) for layer in layers}
        self.rewards: dict[int, list[list[float]]] = {
            layer: [[] for _ in range(n_actions)] for layer in layers
        }

    def interval(self, layer: int, arm: int) -> tuple[float, float]:
        """Mean minus and plus the width."""
        rewards = self.rewards[layer][arm]
        if not rewards:
            return -np.inf, np.inf
        x = self.log_term / len(rewards)
        mean, width = sum(rewards) / len(rewards), sqrt(x) + x
        return mean - width, mean + width

    def step(self, rng: np.random.Generator, outcome: np.ndarray) -> int:
        """Play one arrival."""
        u = rng.random()
        layer = next((n for n in self.active if 2.0**-n <= u < 2.0 ** -(n - 1)), 1)
        source = next(n for n in range(layer, self.n_layers + 1) if self.active[n])
        arms = sorted(self.active[source])
        arm = arms[chosen_among_ties(rng, [-len(self.rewards[layer][a]) for a in arms])]
        self.rewards[layer][arm].append(float(outcome[arm]))
        beaten = {
            loser
            for winner in self.active[layer]
            for loser in self.active[layer]
            if self.interval(layer, winner)[0] > self.interval(layer, loser)[1]
        }
        for below in range(1, layer + 1):
            self.active[below] -= beaten
        return arm


def test_elimination_goes_like_its_literal_twin(streams: Streams) -> None:
    # Horizon 16/2 = 8, three layers; rewards 0 and 1 are told apart after 60 plays of each action.
    # First action 0 pays: by 450 arrivals a context layer 1 (5/8 of them) keeps it alone, and
    # layer 2 (1/4) has not decided. Then it pays no more, layer 2 deletes it, layer 1 is empty.
    setting = small_setting(
        streams("play"), n_users=16, n_contexts=2, n_actions=3, interactions_per_user=1
    )
    first = bernoulli_arrivals(
        streams("first"), setting, 900, mean_rewards=np.array([[1.0, 0.0, 0.0]] * 2)
    )
    second = bernoulli_arrivals(
        streams("second"), setting, 6000, mean_rewards=np.array([[0.0, 1.0, 0.5]] * 2)
    )
    learner = ActiveArmElimination(setting)
    log_term = log(4 * 3 * 8 * log2(8) / 0.1)
    assert learner.n_layers == 3
    twins = [LiteralLayers(3, 3, log_term) for _ in range(2)]
    stream = streams("play")
    for arrivals in (first, second):
        expected = [
            twins[context].step(stream, outcome)
            for context, outcome in zip(arrivals.contexts, arrivals.outcomes, strict=True)
        ]
        assert learner.play(*arrivals).tolist() == expected
    for context, twin in enumerate(twins):
        for layer in range(3):
            expected_active = [a in twin.active[layer + 1] for a in range(3)]
            assert learner.is_active[context, layer].tolist() == expected_active
    sizes = learner.is_active.sum(axis=2)
    assert (sizes[:, 0] == 0).all(), "the scene must hold layers that ran empty"
    assert (np.diff(sizes, axis=1) >= 0).all(), "what a layer deletes, earlier layers lose too"
    assert sizes[:, -1].min() >= 1


def test_an_arm_falls_when_it_is_below_by_more_than_two_widths(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_users=1, n_contexts=1, n_actions=2, interactions_per_user=2)
    learner = ActiveArmElimination(setting)
    log_term = log(4 * 2 * 2 * 1 / 0.1)  # horizon 2, one layer: log2(2) = 1
    assert learner.n_layers == 1
    # With n plays of both arms the two widths add to 2(sqrt(x) + x), x = log_term/n; rewards 0 and
    # 1 differ by 1, so arm 0 falls at the first n with sqrt(x) + x < 1/2.
    n = next(n for n in range(1, 1000) if sqrt(log_term / n) + log_term / n < 0.5)
    zeros = np.zeros(2 * n - 2, dtype=np.int64)
    learner.play(zeros, zeros, np.tile([0.0, 1.0], (zeros.size, 1)))
    assert learner.counts.tolist() == [[[n - 1, n - 1]]]
    assert learner.is_active.all()
    learner.play(zeros[:2], zeros[:2], np.tile([0.0, 1.0], (2, 1)))
    assert learner.is_active.tolist() == [[[False, True]]]


def test_layers_are_drawn_with_halving_probabilities(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_users=1, n_contexts=1, n_actions=2, interactions_per_user=16)
    learner = ActiveArmElimination(setting)
    n = 40_000
    zeros = np.zeros(n, dtype=np.int64)
    learner.play(*Arrivals(zeros, zeros, np.full((n, 2), 0.5)))
    shares = learner.counts[0].sum(axis=1) / n
    # Hoeffding, four layers: beyond t with probability at most 8·exp(-2·n·t²) = 1e-9 at t.
    tolerance = sqrt(log(8e9) / (2 * n))
    np.testing.assert_allclose(shares, [0.5 + 1 / 16, 0.25, 0.125, 0.0625], atol=tolerance)


def test_a_context_counts_on_its_even_share_of_all_interactions(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_users=9, n_contexts=3, n_actions=2, interactions_per_user=4)
    learner = ActiveArmElimination(setting, failure_probability=0.05)
    assert learner.n_layers == 4  # 9·4/3 = 12 arrivals, and 2^3 < 12 <= 2^4
    assert learner.log_term == pytest.approx(log(4 * 2 * 12 * log2(12) / 0.05))
    assert learner.counts.shape == learner.sums.shape == learner.is_active.shape == (3, 4, 2)


def test_a_share_below_two_arrivals_counts_as_two(rng: np.random.Generator) -> None:
    setting = small_setting(rng, n_users=1, n_contexts=2, n_actions=5, interactions_per_user=3)
    learner = ActiveArmElimination(setting)
    assert learner.n_layers == 1
    assert learner.log_term == pytest.approx(log(4 * 5 * 2 * 1 / 0.1))


def test_the_best_active_action_of_the_first_layer_that_has_any_is_recommended(
    rng: np.random.Generator,
) -> None:
    setting = small_setting(rng, n_users=1, n_contexts=4, n_actions=3, interactions_per_user=16)
    learner = ActiveArmElimination(setting)
    assert learner.n_layers == 2
    learner.counts[:] = 10
    learner.sums[:] = [[5.0, 1.0, 3.0], [9.0, 2.0, 6.0]]
    # Context 0: layer 1 still has all. Context 1: layer 1 is empty, and layer 2 lost action 0.
    learner.is_active[1] = [[False, False, False], [False, True, True]]
    # Context 2: the active actions of layer 1 that were never played come after the one that was.
    learner.is_active[2, 0] = [False, True, True]
    learner.counts[2, 0] = [10, 10, 0]
    learner.sums[2, 0] = [5.0, -1e6, 0.0]
    # Context 3: of the active ones none was played, and the deleted one stays away.
    learner.is_active[3, 0] = [False, True, True]
    learner.counts[3, 0] = [10, 0, 0]
    learner.sums[3, 0] = [5.0, 0.0, 0.0]
    assert learner.action_probabilities(np.array([0])).tolist() == [
        [1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.5, 0.5],
    ]


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_a_failure_probability_outside_of_0_to_1_is_refused(
    value: float, rng: np.random.Generator
) -> None:
    sentence = f"failure_probability is {value}: it must lie between 0 and 1."
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        ActiveArmElimination(small_setting(rng), failure_probability=value)
