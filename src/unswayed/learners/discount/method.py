"""The default learner: discount the coalition, if there is one, and keep the paper's worst case."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

from unswayed.arrays import FloatArray
from unswayed.errors import check_adversarial_fraction
from unswayed.learners.design import Design
from unswayed.learners.discount.loud import FoundLie, SampledPlays, discount_loud_lies
from unswayed.learners.discount.means.bounded import cell_values
from unswayed.learners.discount.means.redescending import leaning_cells, upright_means
from unswayed.learners.discount.one_mean import discount_coalitions
from unswayed.learners.discount.one_mean.mixture import Accusation
from unswayed.learners.discount.responses.categories import find_categories, unit_of
from unswayed.learners.discount.responses.clipping import clipped_responses
from unswayed.learners.discount.responses.noise import measure_noise
from unswayed.learners.discount.responses.responses import BlockedResponses
from unswayed.learners.discount.responses.sampling import lean_of_users, sampled, single_rewards
from unswayed.learners.discount.tastes import discount_among_tastes, has_tastes
from unswayed.learners.discount.trial.aims import unless_by_chance
from unswayed.learners.discount.trial.majority import contradicts
from unswayed.learners.discount.trial.verdicts import ABSTAINED, Discounted
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import (
    allowed_actions,
    frequent_contexts,
    guard_intervals,
    learn_paper,
)
from unswayed.learners.paper.method import FAILURE_PROBABILITY
from unswayed.policy import best_known
from unswayed.randomness import generator
from unswayed.tallies import Tallies, UserTallies

FEW_CELLS = 2.5
"""Ours: with fewer cells per user, correlations across cells are no evidence; unless responses are
binary, where repeated plays of one cell are."""


def learn_discounted(
    tallies: UserTallies,
    design: Design,
    *,
    adversarial_fraction: float,
    warmup: Tallies | None = None,
    seed: int = 0,
    asks_majority: bool = False,
) -> Estimates:
    """Estimate the good users' mean rewards after discounting coalitions.

    Loud lies are searched first: accounts whose rewards for one item, or for the winners of
    contexts, lie beyond every honest taste. Where rewards are neither rare nor skewed, quiet
    coalitions are searched, too: a second population of users with mean rewards of its own. It is
    believed only if the same search gains less under the null, and if it aims at the actions that
    win. Decisions are taken by means in which the influence of every account is bounded, shrunk
    towards what contexts and actions have in common.

    Parameters
    ----------
    tallies
        Users' interactions; any design of exploration.
    design
        How their actions were chosen; read by the guard only.
    adversarial_fraction
        α, below 1/2. Overstate rather than understate it.
    warmup
        As in ``learn_paper``; read only where its means are asked for.
    seed
        Seeds the nulls and samples, so that equal data give equal estimates.
    asks_majority
        Whether to drop quiet accusations if the majority clearly prefers the decisions that they
        overturn; see ``trial.majority``.

    Notes
    -----
    Guarantee: where the intervals of ``learn_paper`` hold (Theorem 5.1), suboptimality is at most
    twice its bound, whatever the coalition does, because an action that these intervals rule out is
    never chosen (``is_excluded``); docs/guarantee.md has the proof. The intervals returned contain
    those.

    Deviations from the paper: all of it but the guard.
    """
    alpha = check_adversarial_fraction(adversarial_fraction)
    rng = generator(seed, "discount")
    # Idle BLAS threads would spin on a core that the kernels could use.
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(1) as beside:
        guarding = beside.submit(guard_intervals, tallies, design, adversarial_fraction=alpha)
        sample, chosen = sampled(tallies, rng)
        rewards = single_rewards(sample)
        categories = find_categories(rewards, lean_of_users(sample))
        unit = unit_of(categories, rewards, sample)
        reach = None if categories.is_even else unit.reach
        responses = clipped_responses(unit.of(tallies), reach=reach)
        is_searched = alpha > 0 and categories.is_even and not categories.is_rare
        # Users with one cell show no correlation across cells; the paper's means may still differ.
        asks_paper = is_searched and not _shows_pairs(responses)
        paper = (
            beside.submit(learn_paper, tallies, design, adversarial_fraction=alpha, warmup=warmup)
            if asks_paper
            else None
        )
        plays = SampledPlays(tallies, sample, chosen, categories)
        found, lies = _discounted(plays, responses, alpha, asks_majority, rng)
        guard = guarding.result()
        paper_means = None if paper is None else paper.result().mean_rewards
    weights = found.weights
    values = cell_values(responses, weights)
    means = values.shrunken
    decided_by = np.full(
        responses.n_contexts, "discounted mean" if found.n_coalitions else "pooled mean", "<U24"
    )
    if is_searched:
        leaning = leaning_cells(responses, measure_noise(responses, weights), weights)
        upright = upright_means(means, np.sqrt(values.variances), leaning, rng)
        decided_by[(np.abs(upright - means) > 0).any(axis=1)] = "redescending mean"
        means = upright
    means = unit.back(means)
    errors = unit.width * np.sqrt(values.variances)
    if paper_means is not None:
        robust = unless_by_chance(means, paper_means, errors, rng)
        decided_by[(np.abs(robust - means) > 0).any(axis=1)] = "paper's mean"
        means = robust
    is_allowed, is_known = allowed_actions(guard), ~np.isnan(means)
    # Where nothing is known of what is allowed, nothing is ruled out.
    is_excluded = ~is_allowed & (is_allowed & is_known).any(axis=1, keepdims=True)
    decided_by[best_known(means, is_excluded) != best_known(means)] = "guard"
    z = float(special.ndtri(1.0 - FAILURE_PROBABILITY / 2.0))
    low, high = np.fmin(guard.low, means), np.fmax(guard.high, means)
    sampling_errors = np.where(is_known, z * errors, np.nan)
    half = np.maximum(high - means, means - low)
    probabilities = responses.context_probabilities / responses.context_probabilities.sum()
    return Estimates(
        mean_rewards=means,
        sampling_errors=sampling_errors,
        bias_bounds=np.maximum(half - sampling_errors, 0.0),
        context_probabilities=probabilities,
        frequent_contexts=frequent_contexts(
            probabilities, n_actions=tallies.n_actions, is_sticky=design.is_sticky
        ),
        user_weights=weights,
        decided_by=decided_by,
        evidence=_evidence(
            found, lies, bounded=values.bounded, cut=0.0 if reach is None else unit.cut
        ),
        low=low,
        high=high,
        is_excluded=is_excluded,
    )


def _discounted(
    plays: SampledPlays,
    responses: BlockedResponses,
    alpha: float,
    asks_majority: bool,
    rng: np.random.Generator,
) -> tuple[Discounted, list[FoundLie]]:
    """Return what was discounted: loud lies, then quiet coalitions where they can be detected."""
    if alpha == 0.0 or responses.n_entries == 0:
        return Discounted(np.ones(responses.n_users), False, []), []
    loud = discount_loud_lies(plays, adversarial_fraction=alpha, rng=rng)
    if plays.categories.is_rare or not plays.categories.is_even:
        return Discounted(loud.weights, False, loud.rounds), loud.lies
    quiet = _quiet(responses, loud.weights, alpha, rng)
    if asks_majority and contradicts(responses, loud.weights, quiet.weights):
        quiet = quiet.contradicted(loud.weights)
    return (
        Discounted(quiet.weights, quiet.allows_tastes, [*loud.rounds, *quiet.rounds]),
        loud.lies,
    )


def _quiet(
    responses: BlockedResponses, weights: FloatArray, alpha: float, rng: np.random.Generator
) -> Discounted:
    """Return what was discounted by a model without tastes if that fits, else with them."""
    found = Discounted(weights, False, [])
    explained: list[Accusation] = []
    has_pairs = _shows_pairs(responses)
    if has_pairs:
        found, explained = discount_coalitions(
            responses, weights, adversarial_fraction=alpha, rng=rng
        )
    rounds = found.rounds
    if not has_pairs or has_tastes(responses, weights, explained, rng):
        tasted = discount_among_tastes(responses, weights, adversarial_fraction=alpha, rng=rng)
        # Colluders with wild responses look like tastes; what clearly aims at decisions is none.
        if tasted.n_coalitions > 0 or not found.is_aimed:
            found, rounds = tasted, [one.overruled() for one in rounds]
        rounds = [*rounds, *tasted.rounds]
    return Discounted(found.weights, found.allows_tastes, rounds)


def _shows_pairs(responses: BlockedResponses) -> bool:
    """Return whether users have enough cells, or plays of one cell, to show correlations."""
    return responses.is_binary or responses.cells_per_user >= FEW_CELLS


def _evidence(
    found: Discounted, lies: list[FoundLie], bounded: float, cut: float
) -> dict[str, Any]:
    last = found.rounds[-1] if found.rounds else None
    return {
        "removed": float(1.0 - found.weights.mean()),
        "coalitions": found.n_coalitions,
        "abstained": last is not None and last.verdict in ABSTAINED,
        "tastes": found.allows_tastes,
        "bounded": bounded,
        "cut": cut,
        "lies": [lie.to_json() for lie in lies],
        "rounds": [r.to_json() for r in found.rounds],
    }
