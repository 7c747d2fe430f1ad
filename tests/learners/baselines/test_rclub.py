"""UCB for clusters of users, step by step."""

from collections.abc import Callable
from math import inf, log, sqrt

import numpy as np
import pytest

from tests.learners.baselines.scenes import (
    Arrivals,
    bernoulli_arrivals,
    chosen_among_ties,
    small_setting,
)
from unswayed.learners.baselines import RclubStyle

Streams = Callable[..., np.random.Generator]


class LiteralClusters:
    """Lists of rewards for each user, context and action; edges as a set of pairs."""

    def __init__(self, n_users: int, n_contexts: int, n_actions: int) -> None:
        self.n_users, self.n_contexts, self.n_actions = n_users, n_contexts, n_actions
        self.edges = {(i, j) for i in range(n_users) for j in range(i)}
        self.rewards: dict[tuple[int, int, int], list[float]] = {}
        self.n_played, self.next_cut = 0, 2 * n_users

    def is_cut(self, i: int, j: int) -> bool:
        """Whether two users differ by more than four standard deviations of chance."""
        distance, expected, variance = 0.0, 0.0, 0.0
        for s in range(self.n_contexts):
            for a in range(self.n_actions):
                x, y = self.rewards.get((i, s, a), []), self.rewards.get((j, s, a), [])
                if x and y:
                    n = len(x) + len(y)
                    distance += len(x) * len(y) * (sum(x) / len(x) - sum(y) / len(y)) ** 2
                    expected += 0.25 * n
                    variance += 2 * 0.25**2 * n**2
        return distance > expected + 4 * sqrt(variance)

    def friends(self, user: int) -> set[int]:
        """All users that edges lead to, the user among them."""
        found, todo = {user}, [user]
        while todo:
            i = todo.pop()
            near = {j for j in range(self.n_users) if (i, j) in self.edges or (j, i) in self.edges}
            todo += near - found
            found |= near
        return found

    def rewards_of(self, users: set[int], context: int) -> list[list[float]]:
        """All rewards of some users in a context, for each action."""
        return [
            [x for user in users for x in self.rewards.get((user, context, a), [])]
            for a in range(self.n_actions)
        ]

    def play(self, rng: np.random.Generator, arrivals: Arrivals) -> list[int]:
        """Play a batch, and cut edges after it if the plays have doubled."""
        actions = []
        clusters = [self.friends(user) for user in range(self.n_users)]
        for user, context, outcome in zip(*arrivals, strict=True):
            rewards = self.rewards_of(clusters[user], int(context))
            n = sum(len(x) for x in rewards)
            index = [sum(x) / len(x) + sqrt(2 * log(n) / len(x)) if x else inf for x in rewards]
            action = chosen_among_ties(rng, index)
            cell = (int(user), int(context), action)
            self.rewards.setdefault(cell, []).append(float(outcome[action]))
            actions.append(action)
        self.n_played += len(actions)
        if self.n_played >= self.next_cut:
            self.next_cut = 2 * self.n_played
            self.edges = {(i, j) for i, j in self.edges if not self.is_cut(i, j)}
        return actions


def partition(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in labels}


def test_clusters_play_like_their_literal_twin(streams: Streams) -> None:
    """Users of even number like action 1, the others action 0 of the same two contexts."""
    setting = small_setting(streams("play"), n_users=6, n_contexts=2, n_actions=3)
    arrivals = bernoulli_arrivals(
        streams("arrivals"), setting, 1800, mean_rewards=np.array([[0.1, 0.9, 0.5]] * 2)
    )
    is_odd = arrivals.users % 2 == 1
    arrivals.outcomes[is_odd] = 1.0 - arrivals.outcomes[is_odd]
    learner = RclubStyle(setting)
    assert learner.cluster_of.tolist() == [0] * 6
    twin = LiteralClusters(6, 2, 3)
    stream = streams("play")
    n_clusters = []
    for start in range(0, 1800, 12):  # the first cut is due at the very end of the first batch
        part = arrivals.part(start, start + 12)
        assert learner.play(*part).tolist() == twin.play(stream, part)
        expected = {frozenset(twin.friends(user)) for user in range(6)}
        assert partition(learner.cluster_of) == expected
        n_clusters.append(len(expected))
    assert n_clusters[0] == 1
    assert n_clusters[-1] >= 2, "the scene must hold cuts"
    assert learner.cluster_of.dtype == np.int64


@pytest.mark.parametrize(("n_plays", "is_cut"), [(13, False), (14, True)])
def test_an_edge_goes_when_the_difference_is_four_deviations_above_chance(
    n_plays: int, is_cut: bool, rng: np.random.Generator
) -> None:
    # One cell, n plays of each of two users, means 1/2 apart, noise of variance 1/4: the squared
    # difference n²/4 has mean n/2 and deviation n/√2 by chance. n/4 > 1/2 + 4/√2 from n = 14 on.
    setting = small_setting(rng, n_users=2, n_contexts=1, n_actions=1)
    learner = RclubStyle(setting)
    users = np.array([0, 1] * n_plays)
    rewards = np.where(users == 0, 0.25, 0.75)[:, None]
    learner.play(users, np.zeros(2 * n_plays, np.int64), rewards)
    assert len(set(learner.cluster_of.tolist())) == (2 if is_cut else 1)


def test_the_best_means_of_the_clusters_of_the_given_users_are_averaged(
    rng: np.random.Generator,
) -> None:
    setting = small_setting(rng, n_users=3, n_contexts=2, n_actions=2)
    learner = RclubStyle(setting)
    users = np.arange(60) % 3
    outcomes = np.where((users == 2)[:, None], [0.0, 100.0], [100.0, 0.0])
    for _ in range(2):  # cut, and each cluster tries what it has not played
        learner.play(users, np.zeros(60, np.int64), outcomes)
    assert partition(learner.cluster_of) == {frozenset([0, 1]), frozenset([2])}
    even = [0.5, 0.5]
    assert learner.action_probabilities(np.array([0])).tolist() == [[1.0, 0.0], even]
    assert learner.action_probabilities(np.array([2])).tolist() == [[0.0, 1.0], even]
    assert learner.action_probabilities(np.array([0, 0, 1, 2])).tolist() == [[0.75, 0.25], even]
