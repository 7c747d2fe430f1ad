"""Logs as production leaves them, with and without bots, and what their judge knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unswayed.randomness import generator
from unswayed.tallies import MIN_PROPENSITY, Tallies, tally
from worlds.production_parts import PRODUCTION_PARTS, production_specs
from worlds.production_rewards import Answers, make_answers
from worlds.production_specs import ProductionPart, ProductionSpec
from worlds.production_traffic import make_platform, make_visitors, visit
from worlds.world import FloatArray, IntArray

__all__ = [
    "PRODUCTION_PARTS",
    "ProductionLog",
    "ProductionPart",
    "ProductionSpec",
    "build_production",
    "production_specs",
]

BoolArray = npt.NDArray[np.bool_]
CAMOUFLAGE_ITEMS = 2
CAMOUFLAGE_PROBABILITY = 0.5
NOBODY = -1


@dataclass(frozen=True, slots=True, eq=False)
class ProductionLog:
    """A log in order of time, and what the learner must not know.

    Attributes
    ----------
    users, contexts, actions
        Shape (n_events,); codes.
    rewards, propensities
        Shape (n_events,); propensities are None where play was uniform and nothing was logged.
    n_users, n_contexts, n_actions
        How many codes there are of each.
    true_means
        Shape (n_contexts, n_actions); of honest traffic: honest users weigh as they visit.
    is_available
        Shape (n_actions,); items that a policy may pick, those not withdrawn.
    context_probabilities
        Shape (n_contexts,); of honest traffic.
    is_bad
        Shape (n_users,).
    targets, second_targets
        Shape (n_contexts,); the items pushed in each context, -1 for none. Only the attack "two"
        has second ones.
    adversarial_fraction
        What learners are told.
    """

    users: IntArray
    contexts: IntArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray | None
    n_users: int
    n_contexts: int
    n_actions: int
    true_means: FloatArray
    is_available: BoolArray
    context_probabilities: FloatArray
    is_bad: BoolArray
    targets: IntArray
    adversarial_fraction: float
    second_targets: IntArray

    def tallies(self) -> Tallies:
        """Return the tallies as ``learn_log`` makes them: weights of 1/(A propensity), if any."""
        weights = None
        if self.propensities is not None:
            weights = 1.0 / np.maximum(self.propensities, MIN_PROPENSITY)
        tallies = tally(
            self.users,
            self.contexts,
            self.actions,
            self.rewards,
            n_users=self.n_users,
            n_contexts=self.n_contexts,
            n_actions=self.n_actions,
            weights=weights,
        )
        return tallies if weights is None else tallies.scaled(1.0 / self.n_actions)

    def optimal(self) -> IntArray:
        """Return the best available item of each context."""
        return self.decide(self.true_means)

    def decide(self, mean_rewards: FloatArray) -> IntArray:
        """Return the available item with the largest mean in each context.

        NaN means unknown; where nothing is known the first available item is taken.
        """
        known = np.where(np.isnan(mean_rewards), -np.inf, mean_rewards)
        known = np.maximum(known, -np.finfo(np.float64).max)
        best: IntArray = np.where(self.is_available, known, -np.inf).argmax(axis=1)
        return best

    def score(self, actions: IntArray) -> float:
        """Return (best - policy) / (best - random) in honest traffic: 0 is best, 1 random play."""
        nu = self.context_probabilities
        available = self.true_means[:, self.is_available]
        best = nu @ available.max(axis=1)
        chosen = nu @ self.true_means[np.arange(self.n_contexts), actions]
        return float((best - chosen) / (best - nu @ available.mean(axis=1)))

    def pushed_share(self, actions: IntArray) -> float:
        """Return the share of honest traffic that gets a pushed item although it is not best."""
        is_pushed = (actions == self.targets) | (actions == self.second_targets)
        return float(self.context_probabilities @ (is_pushed & (actions != self.optimal())))

    def per_cell_mean(self) -> IntArray:
        """Return the best items by the plain mean reward of each cell."""
        return self._best_by_mean(np.ones(len(self.users), dtype=np.bool_))

    def without_bots(self) -> IntArray:
        """Return the best items by the plain mean reward of honest users in each cell."""
        return self._best_by_mean(~self.is_bad[self.users])

    def _best_by_mean(self, is_kept: BoolArray) -> IntArray:
        cells = (self.contexts * self.n_actions + self.actions)[is_kept]
        n_cells = self.n_contexts * self.n_actions
        counts = np.bincount(cells, minlength=n_cells)
        sums = np.bincount(cells, self.rewards[is_kept], n_cells)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return self.decide(means.reshape(self.n_contexts, self.n_actions))


def build_production(spec: ProductionSpec, seed: int) -> ProductionLog:
    """Simulate a log; the same spec and seed give the same log."""
    rng = generator(seed, "production", spec.name)
    answers = make_answers(spec, rng)
    visitors = make_visitors(spec, rng)
    honest_users, visits = visitors.honest_visits()
    true_means = answers.true_means(visits, honest_users)
    platform = make_platform(spec, rng, true_means)
    users, contexts, times = visit(spec, rng, visitors)
    actions, propensities = platform.play(rng, times, contexts)
    rewards = answers.draw(rng, users, contexts, actions)
    best = np.where(platform.is_available, true_means, -np.inf).argmax(axis=1)
    targets = np.full((2, spec.n_contexts), NOBODY)
    if spec.attack != "none":
        targets = _targets(spec, rng, true_means, platform.is_available)
        lies = np.flatnonzero(visitors.is_bad[users])
        rewards[lies] = _lies(
            answers,
            rng,
            users[lies],
            contexts[lies],
            actions[lies],
            rewards[lies],
            honest=rewards[~visitors.is_bad[users]],
            best=best,
            targets=targets,
        )
    is_logged = spec.logging != "uniform" or spec.has_propensities
    return ProductionLog(
        users=users,
        contexts=contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities if is_logged else None,
        n_users=spec.n_users,
        n_contexts=spec.n_contexts,
        n_actions=spec.n_actions,
        true_means=true_means,
        is_available=platform.is_available,
        context_probabilities=visits.sum(axis=0) / visits.sum(),
        is_bad=visitors.is_bad,
        targets=targets[0],
        adversarial_fraction=spec.alpha,
        second_targets=targets[1],
    )


def _targets(
    spec: ProductionSpec,
    rng: np.random.Generator,
    true_means: FloatArray,
    is_available: BoolArray,
) -> IntArray:
    """Return what each of two coalitions pushes in each context; shape (2, n_contexts).

    An item pushed everywhere is one of the worse half of the available ones, on average.
    """
    S = spec.n_contexts
    targets = np.full((2, S), NOBODY)
    relative = true_means / true_means.mean(axis=1, keepdims=True)
    ranked = np.argsort(np.where(is_available, relative.mean(axis=0), np.inf), kind="stable")
    half = ranked[: max(2, int(is_available.sum()) // 2)]
    if spec.attack == "targets":
        targets[0] = rng.choice(half, S)
    elif spec.attack != "sink":
        first, second = rng.permutation(half)[:2]
        targets[0] = first
        if spec.attack == "two":
            targets[1] = second
    return targets


def _lies(
    answers: Answers,
    rng: np.random.Generator,
    users: IntArray,
    contexts: IntArray,
    actions: IntArray,
    ordinary: FloatArray,
    *,
    honest: FloatArray,
    best: IntArray,
    targets: IntArray,
) -> FloatArray:
    """Return what bots report in their events; ``ordinary`` are honest answers there."""
    spec, n = answers.spec, len(users)
    side = users % 2 if spec.attack == "two" else np.zeros(n, dtype=np.int64)
    is_target = actions == targets[side, contexts]
    is_raised = is_target & (rng.random(n) < spec.lie_probability)
    if spec.attack == "camouflage":
        others = np.setdiff1d(np.arange(spec.n_actions), targets)
        decoys = rng.permutation(others)[:CAMOUFLAGE_ITEMS]
        is_raised |= np.isin(actions, decoys) & (rng.random(n) < CAMOUFLAGE_PROBABILITY)
    is_sunk = np.zeros(n, dtype=np.bool_)
    if spec.attack in ("farm", "sink"):
        is_sunk = (actions == best[contexts]) & ~is_target
    told = np.where(is_raised, answers.high(rng, contexts, actions, honest), ordinary)
    return np.where(is_sunk, answers.low(rng, n, honest), told)
