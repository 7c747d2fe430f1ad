"""Attacks that are defined by formulas behave as the formulas say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.simulation.learners import Believer
from tests.simulation.worlds import small_instance
from unswayed.arrays import FloatArray, IntArray
from unswayed.estimators import trimmed_mean
from unswayed.learners.interface import Setting
from unswayed.policy import Assignment
from unswayed.randomness import generator
from unswayed.simulation.arena import Crowd, Match
from unswayed.simulation.attacks.base import Aim, Attack, Offer, Turn
from unswayed.simulation.attacks.loud import IdGrinding
from unswayed.simulation.attacks.registry import make_attack
from unswayed.simulation.attacks.shifts import TrimEdge, trim_edge
from unswayed.simulation.instances import Instance, RewardLaw


class Bookkeeper(Believer):
    """A learner with sums per user that plays a fixed action per (user, context)."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        shape = (setting.n_users, setting.n_contexts, setting.n_actions)
        self.user_sums, self.user_counts = np.zeros(shape), np.zeros(shape)
        self.assigned = setting.rng.integers(0, setting.n_actions, shape[:2])

    def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
        """Play by assignment and update the sums."""
        actions: IntArray = self.assigned[users, contexts]
        rewards = outcomes[np.arange(users.size), actions]
        np.add.at(self.user_sums, (users, contexts, actions), rewards)
        np.add.at(self.user_counts, (users, contexts, actions), 1.0)
        np.add.at(self.sums, (contexts, actions), rewards)
        np.add.at(self.counts, (contexts, actions), 1.0)
        return actions


def booked(attack: Attack, instance: Instance, crowd: Crowd, *, seed: int) -> Bookkeeper:
    """Run a bookkeeper under an attack and return it."""
    match = Match(instance, attack, Bookkeeper, crowd, algorithm="bookkeeper", seed=seed)
    match.loss()
    assert isinstance(match.learner, Bookkeeper)
    return match.learner


@pytest.mark.parametrize(
    ("alpha", "trim", "bias"),
    # Biases at the trim edge for Gaussian good means, from the paper notes, section 4; each is
    # (phi(a) - phi(b)) (1 - alpha) / (1 - 2 trim) with Phi(a) = trim / (1 - alpha) and b the edge.
    [(0.05, 0.1, 0.088747), (0.1, 0.2, 0.162609), (0.1, 0.15, 0.177072), (0.2, 0.3, 0.346683)],
)
def test_accounts_at_the_edge_give_a_trimmed_mean_its_largest_bias(
    alpha: float, trim: float, bias: float
) -> None:
    n_points = 200_000
    n_bad = round(alpha * n_points)
    # With exact quantiles instead of draws, the only error is that of the grid, O(1 / n).
    good = stats.norm.ppf((np.arange(n_points - n_bad) + 0.5) / (n_points - n_bad))
    edge = trim_edge(alpha=alpha, trim=trim)
    for place, expected in ((edge, bias), (1e6, bias)):
        points = np.concatenate([good, np.full(n_bad, place)])
        estimate = trimmed_mean(points, alpha=alpha, n_trimmed=round(trim * n_points)).estimate
        assert estimate == pytest.approx(expected, abs=2e-4)
    nearer = np.concatenate([good, np.full(n_bad, edge - 0.3)])
    weaker = trimmed_mean(nearer, alpha=alpha, n_trimmed=round(trim * n_points)).estimate
    assert weaker < bias - 1e-3


@pytest.mark.parametrize("law", [RewardLaw.GAUSSIAN, RewardLaw.BERNOULLI])
def test_trim_edge_places_account_means_at_the_edge(law: RewardLaw, seed: int) -> None:
    instance = small_instance(seed, law=law)
    crowd = Crowd(n_users=600, interactions_per_user=120, alpha=0.2)
    attack = TrimEdge(trim=0.25)
    books = booked(attack, instance, crowd, seed=seed)
    aim, accounts = attack.briefing.aim, attack.briefing.accounts
    edge = stats.norm.isf(0.05 / 0.8)
    assert attack.edge == pytest.approx(edge)
    means = instance.mean_rewards
    deviations = np.sqrt(means * (1 - means)) if law is RewardLaw.BERNOULLI else 0.5 * means**0
    for actions, sign in ((aim.target, 1.0), (aim.rival, -1.0)):
        for context, action in enumerate(actions):
            counts = books.user_counts[accounts, context, action]
            sums = books.user_sums[accounts, context, action]
            played = counts >= 10
            assert played.sum() >= 5
            mean, deviation = means[context, action], deviations[context, action]
            wanted = counts * mean + sign * edge * deviation * np.sqrt(counts)
            # About 30 plays in a cell. The attack estimates mean and deviation from about 96 * 30
            # good plays: the error per play is 5 * 0.5 / sqrt(2880) = 0.047 for the mean, and the
            # same times edge sqrt(n) for the deviation. Binary totals have an additional error of
            # half a reward, and cannot exceed the range.
            slack = 0.047 * (counts + edge * np.sqrt(counts)) + 0.5
            wanted = np.clip(wanted, 0.0, counts) if law is RewardLaw.BERNOULLI else wanted
            assert (np.abs(sums - wanted) <= slack)[played].all()


def test_hide_in_covariance_keeps_the_variance_at_its_threshold(seed: int) -> None:
    """A user's residuals along the attacked direction vary as much as the threshold allows."""
    threshold, crowd = 1.5, Crowd(n_users=4000, interactions_per_user=40, alpha=0.2)
    instance = small_instance(seed, law=RewardLaw.GAUSSIAN)
    attack = make_attack("hide-in-covariance", {"threshold": threshold})

    class UniformBooks(Bookkeeper):
        def play(self, users: IntArray, contexts: IntArray, outcomes: FloatArray) -> IntArray:
            shape = (self.setting.n_users, self.setting.n_contexts)
            self.assigned = self.setting.rng.integers(0, self.setting.n_actions, shape)
            return super().play(users, contexts, outcomes)

    match = Match(instance, attack, UniformBooks, crowd, algorithm="uniform", seed=seed)
    match.loss()
    assert isinstance(match.learner, UniformBooks)
    books = match.learner
    residuals = books.user_sums - books.user_counts * instance.mean_rewards
    ranking = np.argsort(-instance.mean_rewards, axis=1)
    rows = np.arange(4)
    along = residuals[:, rows, ranking[:, 1]] - residuals[:, rows, ranking[:, 0]]
    scores = along.sum(axis=1)
    is_bad = np.isin(np.arange(4000), attack.briefing.accounts)
    ratio = scores.var() / scores[~is_bad].var()
    # The shift is D for the expected number of plays, which is approximately Poisson with mean 16:
    # its variance adds alpha D² / 16, at most 5%. Variances of 4000 scores have a relative error of
    # sqrt(2/4000).
    assert ratio == pytest.approx(threshold, rel=0.05 + 5 * np.sqrt(2 / 3200))


@pytest.mark.parametrize(("name", "strength"), [("framing", 0.7), ("scapegoats", 1.5)])
def test_framing_changes_the_gap_by_its_strength(name: str, strength: float, seed: int) -> None:
    """There is no noise, so results are exact; a tenth are decoys, which shift the other way."""
    crowd = Crowd(n_users=500, interactions_per_user=1, alpha=0.2)
    instance = small_instance(seed, law=RewardLaw.GAUSSIAN)
    attack = make_attack(name, {"strength": strength, "decoys": 0.1, "reach": 3.0})
    Match(instance, attack, Believer, crowd, algorithm="believer", seed=seed).loss()
    for context, means in enumerate(instance.mean_rewards):
        best, runner_up = np.argsort(-means)[:2]
        turn = Turn(round_number=0, accounts=np.arange(100), contexts=np.full(100, context))
        rewards = attack.rewards(turn)
        lies = rewards[:, runner_up] - rewards[:, best] + means[best] - means[runner_up]
        assert 0.2 * lies.mean() == pytest.approx(strength * (means[best] - means[runner_up]))
        assert (lies < 0).sum() == 10
        assert lies.min() == pytest.approx(-3.0 * lies.max())


def test_the_two_sided_coalition_makes_best_and_runner_up_look_alike(seed: int) -> None:
    """At share 0.3, gap 0.1 and mean 1/2 the pair hides up to 31 plays (paper-notes, section 4)."""
    instance = Instance(
        context_probabilities=np.array([1.0]), mean_rewards=np.array([[0.6, 0.5, 0.3]])
    )
    crowd = Crowd(n_users=9000, interactions_per_user=20, alpha=0.3)
    contrasts, distances = {}, {}
    for name in ("hiding-two-sided", "honest"):
        books = booked(make_attack(name), instance, crowd, seed=seed)
        best, second = (
            books.user_sums[books.assigned[:, 0] == action, 0, action] for action in (0, 1)
        )
        contrasts[name] = best.mean() - second.mean()
        laws = [np.bincount(sums.astype(int), minlength=21) / sums.size for sums in (best, second)]
        distances[name] = 0.5 * np.abs(laws[0] - laws[1]).sum()
    # There are 3000 users on each side, with totals of standard deviation at most 20 / 2 = 10 (in
    # fact about 3).
    assert abs(contrasts["hiding-two-sided"]) < 5 * 3.5 * np.sqrt(2 / 3000)
    assert contrasts["honest"] == pytest.approx(2.0, abs=5 * 2.3 * np.sqrt(2 / 3000))
    # The expected distance of two empirical distributions on 21 counts is at most sqrt(21 / 3000) /
    # 2 * 2.
    assert distances["hiding-two-sided"] < np.sqrt(21 / 3000)
    assert distances["honest"] > 0.25  # 0.35 in truth


def test_the_one_sided_coalition_makes_the_best_look_ordinary(seed: int) -> None:
    """At gap 0.1 and mean 1/2, a share of 0.2 hides one play perfectly (1/6 would suffice)."""
    instance = Instance(context_probabilities=np.array([1.0]), mean_rewards=np.array([[0.6, 0.5]]))
    crowd = Crowd(n_users=20_000, interactions_per_user=1, alpha=0.2)
    books = booked(make_attack("hiding"), instance, crowd, seed=seed)
    pooled = books.sums[0] / books.counts[0]
    assert abs(pooled[0] - 0.5) < 5 * 0.5 / np.sqrt(books.counts[0, 0])


def test_chosen_names_fill_a_group_only_if_the_secret_is_known(
    seed: int,
) -> None:
    n_users, n_actions, share = 2000, 10, 0.2
    offer = Offer(
        n_users=n_users,
        n_accounts=400,
        n_contexts=3,
        n_actions=n_actions,
        aim=Aim(target=np.array([4, 5, 6]), rival=np.array([0, 1, 2])),
    )
    names = IdGrinding(context=1).enrol(offer, generator(seed, "enrolment"))
    assert np.unique(names).size == 400
    corrupted = {}
    for secret in (bytes(16), generator(seed, "secret").bytes(16)):
        assignment = Assignment(secret=secret)
        users = assignment.digests("user", range(n_users))
        contexts = np.repeat(assignment.digests("context", [1]), n_users)
        group = np.flatnonzero(assignment.actions(users, contexts, n_actions=n_actions) == 5)
        corrupted[secret == bytes(16)] = np.isin(group, names).mean()
    freely = share * n_actions / (1 - share + share * n_actions)
    assert corrupted[True] == pytest.approx(freely, abs=0.01)
    # About 200 names are in a random group: a binomial share of 0.2, with five standard errors.
    assert abs(corrupted[False] - share) < 5 * np.sqrt(share * (1 - share) / 150)
