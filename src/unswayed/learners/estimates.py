"""What every learning method returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.policy import Policy, best_known
from unswayed.tallies import UserTallies


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Estimated mean rewards of the good users, and how they were estimated.

    Attributes
    ----------
    mean_rewards
        Shape (n_contexts, n_actions); NaN where nothing was learned.
    sampling_errors, bias_bounds
        Shape (n_contexts, n_actions); half-widths of the two parts of the interval: chance, and
        the worst that the stated share of colluders can do. Infinite where there is no bound.
    context_probabilities
        Shape (n_contexts,).
    frequent_contexts
        Shape (n_contexts,); True for S₊.
    user_weights
        Shape (n_users,), in [0, 1]; the weight of each user.
    decided_by
        Shape (n_contexts,); which estimator decided each context.
    evidence
        Diagnostics of the method, as JSON values.
    low, high
        Shape (n_contexts, n_actions); ends of intervals that do not lie symmetrically around the
        means. None for means ∓ the sum of the half-widths.
    is_excluded
        Shape (n_contexts, n_actions); actions that worst-case intervals rule out, whatever their
        means. None if there are none.
    decisions
        Shape (n_contexts,); the action of each context, if another rule than the largest mean
        decides. None for the largest mean that is not excluded.
    model
        The fitted model, if it can score single accounts (``bounded.Model``).
    """

    mean_rewards: FloatArray
    sampling_errors: FloatArray
    bias_bounds: FloatArray
    context_probabilities: FloatArray
    frequent_contexts: BoolArray
    user_weights: FloatArray
    decided_by: npt.NDArray[np.str_]
    evidence: dict[str, Any] = field(default_factory=dict)
    low: FloatArray | None = None
    high: FloatArray | None = None
    is_excluded: BoolArray | None = None
    decisions: IntArray | None = None
    model: Any = None

    @property
    def actions(self) -> IntArray:
        """Return the action of each context, 0 if nothing was learned; shape (n_contexts,)."""
        if self.decisions is not None:
            return self.decisions
        return best_known(self.mean_rewards, self.is_excluded)

    @property
    def interval(self) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper ends; shape (n_contexts, n_actions) each."""
        half_width = self.sampling_errors + self.bias_bounds
        low = self.mean_rewards - half_width if self.low is None else self.low
        high = self.mean_rewards + half_width if self.high is None else self.high
        return low, high

    def policy(self, tallies: UserTallies, *, alpha: float, method: str) -> Policy:
        """Return a policy that plays the best actions, with the labels of the tallies."""
        low, high = self.interval
        counts = tallies.cell_sums("plays")
        return Policy(
            context_labels=tallies.context_labels,
            action_labels=tallies.action_labels,
            mean_rewards=self.mean_rewards,
            low=low,
            high=high,
            sampling_errors=self.sampling_errors,
            is_excluded=self.is_excluded,
            decisions=self.decisions,
            counts=counts.astype(np.int64),
            context_probabilities=self.context_probabilities,
            alpha=alpha,
            method=method,
        )
