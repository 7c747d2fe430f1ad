"""Algorithm 2 on collected data: context probabilities, recovery, and mean rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.estimators import MeanEstimate
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper.context_probabilities import (
    Multivariate,
    estimate_context_probabilities,
)
from unswayed.learners.paper.intervals import cell_intervals
from unswayed.learners.paper.recovery import Univariate, recover_frequent, recover_rare
from unswayed.learners.paper.reward_units import measure_units, measured_from
from unswayed.tallies import Tallies, UserTallies

#: The paper's: its estimates hold with probability 9/10.
FAILURE_PROBABILITY = 0.1


def frequent_contexts(
    context_probabilities: FloatArray, *, n_actions: int, is_sticky: BoolArray | None = None
) -> BoolArray:
    """Return S₊: True for the min(S, A) most probable contexts; of equal ones the first.

    Where not all contexts are sticky, S₊ was fixed while playing, or never: those that are.

    >>> frequent_contexts(np.array([0.1, 0.4, 0.2, 0.3]), n_actions=2).tolist()
    [False, True, False, True]
    """
    if is_sticky is not None and not is_sticky.all():
        return is_sticky
    order = np.argsort(-context_probabilities, kind="stable")
    is_frequent = np.zeros(len(order), dtype=np.bool_)
    is_frequent[order[:n_actions]] = True
    return is_frequent


def split_contexts(
    context_probabilities: FloatArray, *, n_actions: int, sticky_plays: float = 0.0
) -> BoolArray:
    """Return the S₊ with the smallest bound: the m most probable contexts, m at most min(S, A).

    Parameters
    ----------
    context_probabilities
        Shape (n_contexts,); ν̂.
    sticky_plays
        Plays n of a usual user, if plays are over and users kept one action in every context; 0
        while S₊ is being chosen, as contexts beyond it will be played uniformly.

    Notes
    -----
    By the proof of Theorem 5.1 the loss is O(sqrt(α L/T)) times

    K_m = Σ_{j≤m} sqrt(ν_[j]) + sqrt(A · Σ_{j>m} ν_[j] · (1 + n·ν_[m+1])).

    The last factor is one for uniform plays. Where users kept one action, a user's mean varies with
    that action, too: by A·ν beside the A/n of chance. The paper has m = min(S, A) and K_m = K(B).
    For S ≤ A that is kept. Beyond, K(B) has a bump: sqrt(2A) at S = 2A for uniform contexts, where
    the filter alone, m = 0, has sqrt(A).

    >>> split_contexts(np.full(4, 0.25), n_actions=4).sum()
    np.int64(4)
    >>> split_contexts(np.full(8, 0.125), n_actions=4).sum()
    np.int64(0)
    >>> split_contexts(np.array([0.9] + [0.01] * 10), n_actions=4).sum()
    np.int64(1)
    """
    literal = frequent_contexts(context_probabilities, n_actions=n_actions)
    if literal.all():
        return literal
    ranked = -np.sort(-context_probabilities)
    heads = np.concatenate([[0.0], np.cumsum(np.sqrt(ranked[:n_actions]))])
    tails = np.maximum(1.0 - np.concatenate([[0.0], np.cumsum(ranked[:n_actions])]), 0.0)
    bounds = heads + np.sqrt(n_actions * tails * (1.0 + sticky_plays * ranked[: n_actions + 1]))
    # Of equal bounds the largest m, which is the paper's.
    m = n_actions - int(np.argmin(np.round(bounds[::-1], 9)))
    return frequent_contexts(context_probabilities, n_actions=m)


def learn_paper(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    warmup: Tallies | None = None,
    per_visit: bool = False,
    is_literal: bool = False,
    univariate: Univariate | None = None,
    multivariate: Multivariate | None = None,
) -> Estimates:
    """Estimate the good users' mean rewards from collected interactions (Algorithm 2).

    Parameters
    ----------
    tallies
        The interactions of lines 3–10.
    design
        How their actions were chosen (lines 5–9).
    alpha
        α, below 1/2.
    warmup
        The T₀ interactions of Algorithm 1, if they were collected apart. None reads the context
        probabilities off ``tallies``, as on a log.
    per_visit
        Whether frequent contexts are estimated from users' means per visit (Section 3.1) instead of
        sums over all of their interactions (appendix). For comparison only: a context that few
        visit can then be full of colluders (erratum 9).
    is_literal
        Whether S₊ are the min(S, A) most probable contexts, as printed, whatever the bounds say.
    univariate, multivariate
        Other estimators than the trimmed mean and the spectral filter; see ``unswayed.paper``.

    Notes
    -----
    Guarantee: suboptimality O(K(B)·sqrt(α L/T)) with probability 2/3, for L = Ω(SA log(SA)/α)
    (Theorem 5.1; erratum 6 adds a term sqrt(2 ε A) to K(B)). The intervals are not the theorem's:
    ``cell_intervals`` says what they assume; those of a context hold together with probability
    9/10.

    Deviations from the paper:

    - S₊ has the size with the smallest bound (``split_contexts``), unless ``is_literal``.
    - Trimmed means need the groups I_{s,a}, so only contexts that were played sticky are in S₊;
      a log of uniform plays is base case 2 whatever its contexts.
    - Rewards are measured from an origin of their own (``measure_units``), since a user who never
      came counts as zero there: adding a constant to all rewards changes nothing.
    - Mean rewards are reported as b̂·σ_s/ν̂_s, which estimates μ; b̂/σ_s estimates
      ν·μ/σ_s², with the same best action (erratum 8).
    """
    # Line 1: the top-A frequent contexts S₊ from Algorithm 1.
    contexts = estimate_context_probabilities(
        tallies if warmup is None else warmup, alpha=alpha, multivariate=multivariate
    )
    probabilities = contexts.context_probabilities
    if is_literal or not design.is_sticky.all():
        is_frequent = frequent_contexts(
            probabilities, n_actions=tallies.n_actions, is_sticky=design.is_sticky
        )
    else:
        interactions = tallies.interactions
        plays = float(np.median(interactions[interactions > 0]))
        is_frequent = split_contexts(probabilities, n_actions=tallies.n_actions, sticky_plays=plays)

    # Line 11: the recovery procedure, frequent and rare contexts apart.
    units = measure_units(tallies, alpha=alpha)
    measured = measured_from(tallies, units)
    scaled_means = recover_frequent(
        measured,
        design,
        contexts.scales,
        is_frequent,
        alpha=alpha,
        failure_probability=FAILURE_PROBABILITY,
        per_visit=per_visit,
        univariate=univariate,
    ).scaled_means
    user_weights = np.ones(tallies.n_users)
    evidence: dict[str, Any] = {"context_filter": _filter_evidence(contexts.filtered)}
    if not is_frequent.all():
        rare = recover_rare(
            measured, contexts.scales, ~is_frequent, alpha=alpha, multivariate=multivariate
        )
        assert rare.filtered is not None
        user_weights[tallies.interactions > 0] = rare.filtered.weights
        evidence["reward_filter"] = _filter_evidence(rare.filtered)
        scaled_means = np.where(is_frequent[:, None], scaled_means, rare.scaled_means)

    # Line 12 takes the largest mean of each context; the policy does that.
    to_rewards = np.where(
        # Elsewhere the zeros of absent users are no evidence.
        (tallies.cell_users() > 0) & (probabilities > 0)[:, None],
        (contexts.scales / np.maximum(probabilities, np.finfo(float).tiny))[:, None],
        np.nan,
    )
    if per_visit:  # which are means already where contexts are frequent
        to_rewards[is_frequent] = np.where(np.isnan(to_rewards[is_frequent]), np.nan, 1.0)
    means = units.origin + scaled_means * to_rewards
    intervals = cell_intervals(
        tallies,
        design,
        alpha=alpha,
        failure_probability=FAILURE_PROBABILITY,
        origin=units.origin,
    )
    is_known = ~np.isnan(means)
    low = np.where(is_known, intervals.low, np.nan)
    high = np.where(is_known, intervals.high, np.nan)
    # Half-widths reach to the farther end, wherever the estimate lies.
    half = np.maximum(high - means, means - low)
    sampling_errors = np.minimum(intervals.sampling_errors, half)
    return Estimates(
        mean_rewards=means,
        sampling_errors=sampling_errors,
        bias_bounds=half - sampling_errors,
        low=low,
        high=high,
        context_probabilities=contexts.context_probabilities,
        frequent_contexts=is_frequent,
        user_weights=user_weights,
        decided_by=np.where(is_frequent, "trimmed mean", "spectral filter"),
        evidence=evidence,
    )


def learn_paper_literal(
    tallies: UserTallies, design: Design, *, alpha: float, warmup: Tallies | None = None
) -> Estimates:
    """Robust MCB as printed: S₊ are the min(S, A) most frequent contexts, whatever the bounds say.

    Parameters as ``learn_paper``, which takes the better path where there are more contexts than
    actions.
    """
    return learn_paper(tallies, design, alpha=alpha, warmup=warmup, is_literal=True)


def _filter_evidence(filtered: MeanEstimate) -> dict[str, Any]:
    last = filtered.spectrum[-1] if filtered.spectrum else None
    return {
        "stopped": filtered.stopped,
        "removed": filtered.removed,
        "rounds": filtered.iterations,
        "top_eigenvalue": None if last is None else last.top_eigenvalue,
        "threshold": None if last is None else last.threshold,
    }
