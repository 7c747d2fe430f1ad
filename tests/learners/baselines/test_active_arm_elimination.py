from collections.abc import Callable
from math import log, log2, sqrt

import numpy as np

from tests.learners.baselines.scenes import bernoulli_arrivals, chosen_among_ties, small_setting
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
        """Return the mean minus and plus the width."""
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


def test_elimination_equals_its_literal_twin(streams: Streams) -> None:
    # The horizon is 16/2 = 8, so there are three layers; rewards 0 and 1 are separated after 60
    # plays of each action. First, action 0 pays: after 450 arrivals per context, layer 1 (5/8 of
    # them) has deleted the others, and layer 2 (1/4) has deleted none. Then it pays nothing, so
    # layer 2 deletes it, and layer 1 is empty.
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
