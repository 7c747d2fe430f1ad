"""The result type of every learning method."""

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

    Tables have shape (n_contexts, n_actions).
    """

    mean_rewards: FloatArray  # NaN where nothing was learned
    # Half-widths of the two parts of the interval: sampling error, and the worst bias that the
    # stated share of colluders can cause. Infinite where there is no bound.
    sampling_errors: FloatArray
    bias_bounds: FloatArray
    context_probabilities: FloatArray  # shape (n_contexts,)
    frequent_contexts: BoolArray  # shape (n_contexts,): True for S₊
    user_weights: FloatArray  # shape (n_users,), in [0, 1]
    decided_by: npt.NDArray[np.str_]  # shape (n_contexts,): which estimator was used
    evidence: dict[str, Any] = field(default_factory=dict)  # diagnostics, as JSON values
    # Ends of the intervals, if these are not symmetric around the means.
    low: FloatArray | None = None
    high: FloatArray | None = None
    is_excluded: BoolArray | None = None  # whether worst-case intervals exclude the action
    # Shape (n_contexts,): the chosen actions; None if they are those with the largest means that
    # are not excluded.
    decisions: IntArray | None = None
    model: Any = None  # the fitted model, if it can score single accounts (``bounded.Model``)

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
