"""Algorithm 2 on collected data: context probabilities, recovery, and mean rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.estimators import MeanEstimate
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper.context_probabilities import estimate_context_probabilities
from unswayed.learners.paper.intervals import cell_intervals
from unswayed.learners.paper.recovery import recover_frequent, recover_rare
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


def learn_paper(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    warmup: Tallies | None = None,
    per_visit: bool = False,
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

    Notes
    -----
    Guarantee: suboptimality O(K(B)·sqrt(α L/T)) with probability 2/3, for L = Ω(SA log(SA)/α)
    (Theorem 5.1; erratum 6 adds a term sqrt(2 ε A) to K(B)). The intervals are not the theorem's:
    ``cell_intervals`` says what they assume; those of a context hold together with probability
    9/10.

    Deviations from the paper:

    - Trimmed means need the groups I_{s,a}, so only contexts that were played sticky are in S₊;
      a log of uniform plays is base case 2 whatever its contexts.
    - Rewards are measured from an origin of their own (``measure_units``), since a user who never
      came counts as zero there: adding a constant to all rewards changes nothing.
    - Mean rewards are reported as b̂·σ_s/ν̂_s, which estimates μ; b̂/σ_s estimates
      ν·μ/σ_s², with the same best action (erratum 8).
    """
    # Line 1: the top-A frequent contexts S₊ from Algorithm 1.
    contexts = estimate_context_probabilities(tallies if warmup is None else warmup, alpha=alpha)
    is_frequent = frequent_contexts(
        contexts.context_probabilities, n_actions=tallies.n_actions, is_sticky=design.is_sticky
    )

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
    ).scaled_means
    user_weights = np.ones(tallies.n_users)
    evidence: dict[str, Any] = {"context_filter": _filter_evidence(contexts.filtered)}
    if not is_frequent.all():
        rare = recover_rare(measured, contexts.scales, ~is_frequent, alpha=alpha)
        assert rare.filtered is not None
        user_weights[tallies.interactions > 0] = rare.filtered.weights
        evidence["reward_filter"] = _filter_evidence(rare.filtered)
        scaled_means = np.where(is_frequent[:, None], scaled_means, rare.scaled_means)

    # Line 12 takes the largest mean of each context; the policy does that.
    probabilities = contexts.context_probabilities
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


def _filter_evidence(filtered: MeanEstimate) -> dict[str, Any]:
    last = filtered.spectrum[-1] if filtered.spectrum else None
    return {
        "stopped": filtered.stopped,
        "removed": filtered.removed,
        "rounds": filtered.iterations,
        "top_eigenvalue": None if last is None else last.top_eigenvalue,
        "threshold": None if last is None else last.threshold,
    }
