"""The default learner: discount the coalition, if there is one, and keep the paper's worst case."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # publishes none

from unswayed.errors import check_adversarial_fraction
from unswayed.learners.design import Design
from unswayed.learners.discount.everybody import Everybody
from unswayed.learners.discount.leaning_cells import leaning_cells, upright_means
from unswayed.learners.discount.mixture import Accusation
from unswayed.learners.discount.noise import measure_noise
from unswayed.learners.discount.rounds import discount_coalitions
from unswayed.learners.discount.safe_answers import answers_from
from unswayed.learners.discount.story import ABSTAINED, Discounted
from unswayed.learners.discount.tastes import discount_among_tastes, has_tastes
from unswayed.learners.discount.weighing import best_actions, pooled_means
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import FloatArray
from unswayed.learners.paper import learn_paper
from unswayed.learners.paper.method import FAILURE_PROBABILITY
from unswayed.randomness import generator
from unswayed.tallies import BlockedTallies, Tallies

FEW_CELLS = 2.5
"""Ours: with fewer cells per user, what goes together across cells shows nothing; unless answers
are binary, where plays of one cell tell."""


def learn_discounted(
    tallies: Tallies | BlockedTallies,
    design: Design,
    *,
    adversarial_fraction: float,
    warmup: Tallies | None = None,
    seed: int = 0,
) -> Estimates:
    """Estimate the good users' mean rewards after discounting coalitions.

    A coalition is a second population of users with its own mean rewards, found by EM from many
    starts. It is believed only if it beats what the same search finds where there is none, if the
    opposite story is clearly worse, and if decisions hang on it. First good users are taken to
    share one mean; if those who are kept do not look like it, all is done again with tastes
    allowed, where only one-sidedness is evidence.

    Parameters
    ----------
    tallies
        Users' interactions; any design of exploration.
    design
        How their actions were chosen; read by the guard only.
    adversarial_fraction
        α, below 1/2. Overstate rather than understate it.
    warmup
        As in ``learn_paper``; read by the guard only.
    seed
        Nulls and samples are drawn from it, so that equal data give equal estimates.

    Notes
    -----
    Guarantee: where the intervals of ``learn_paper`` hold (Theorem 5.1), suboptimality is at most
    twice its bound, whatever the coalition does, because an action that these intervals rule out is
    never chosen; docs/learner.md has the proof. The intervals returned contain those.

    Deviations from the paper: all of it but the guard.
    """
    alpha = check_adversarial_fraction(adversarial_fraction)
    answers = answers_from(tallies)
    # Idle BLAS threads would spin on a core that the kernels could use.
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(1) as beside:
        guarding = beside.submit(
            learn_paper, tallies, design, adversarial_fraction=alpha, warmup=warmup
        )
        found, stories = _discounted(answers, alpha, seed)
        guard = guarding.result()
    weights = found.weights
    noise = measure_noise(answers, weights)
    means = pooled_means(answers, weights)
    was_discounted = found.n_coalitions > 0
    decided_by = np.full(
        answers.n_contexts, "discounted mean" if was_discounted else "pooled mean", dtype="<U24"
    )
    if alpha > 0:
        leaning = leaning_cells(answers, noise, weights)
        upright = upright_means(means, leaning)
        decided_by[(np.abs(upright - means) > 0).any(axis=1)] = "redescending mean"
        means = upright
    z = float(special.ndtri(1.0 - FAILURE_PROBABILITY / 2.0))
    sampling_errors = (z * np.sqrt(noise.variances / np.maximum(noise.mass, 1e-9))).reshape(
        means.shape
    )
    guarded = _guarded(means, guard)
    decided_by[best_actions(guarded) != best_actions(means)] = "guard"
    reach = guard.sampling_errors + guard.bias_bounds + np.abs(guarded - guard.mean_rewards)
    bias_bounds = np.maximum(reach - sampling_errors, 0.0)
    return Estimates(
        mean_rewards=guarded,
        sampling_errors=np.where(np.isnan(guarded), np.nan, sampling_errors),
        bias_bounds=bias_bounds,
        context_probabilities=answers.context_probabilities / answers.context_probabilities.sum(),
        frequent_contexts=guard.frequent_contexts,
        user_weights=weights,
        decided_by=decided_by,
        evidence=_evidence(found, stories),
    )


def _discounted(
    answers: Everybody, alpha: float, seed: int
) -> tuple[Discounted, list[dict[str, Any]]]:
    """Return what was discounted, without tastes if that fits, else with them; and all rounds."""
    rng = generator(seed, "discount")
    found = Discounted(np.ones(answers.n_users), False, [])
    explained: list[Accusation] = []
    if alpha == 0.0 or answers.n_entries == 0:
        return found, []
    has_pairs = answers.is_binary or answers.cells_per_user >= FEW_CELLS
    if has_pairs:
        found, explained = discount_coalitions(answers, adversarial_fraction=alpha, rng=rng)
    story = [r.told() for r in found.rounds]
    if not has_pairs or has_tastes(answers, explained, rng):
        tasted = discount_among_tastes(answers, adversarial_fraction=alpha, rng=rng)
        story += [r.told() for r in tasted.rounds]
        # Colluders with wild answers look like tastes; what clearly aims at decisions is none.
        if tasted.n_coalitions > 0 or not found.is_aimed:
            found = tasted
    return found, story


def _guarded(means: FloatArray, guard: Estimates) -> FloatArray:
    """Return the means, cut off where needed so that no action wins that the guard rules out.

    An action is ruled out if another one's interval lies above its own.
    """
    half = guard.sampling_errors + guard.bias_bounds
    low, high = guard.mean_rewards - half, guard.mean_rewards + half
    is_known = ~np.isnan(means)
    floor = np.where(np.isnan(low), -np.inf, low).max(axis=1, keepdims=True)
    is_out = high < floor  # NaN compares False: nothing is known against it
    allowed = np.where(is_known & ~is_out, means, -np.inf).max(axis=1, keepdims=True)
    cut = is_out & (means >= allowed) & np.isfinite(allowed)
    just_below = np.nextafter(np.broadcast_to(allowed, means.shape), -np.inf)
    result: FloatArray = np.where(cut, just_below, means)
    return result


def _evidence(found: Discounted, story: list[dict[str, Any]]) -> dict[str, Any]:
    last = found.rounds[-1] if found.rounds else None
    return {
        "removed": float(1.0 - found.weights.mean()),
        "coalitions": found.n_coalitions,
        "abstained": last is not None and last.verdict in ABSTAINED,
        "tastes": found.allows_tastes,
        "rounds": story,
    }
