"""A fast and simple learning method that records its input."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.tallies import Tallies, UserTallies

RECORDED = "recorded"
"""Its name among the methods."""


class Given(NamedTuple):
    """The arguments that the method got."""

    tallies: UserTallies
    design: Design
    alpha: float
    warmup: Tallies | None


def pooled(tallies: UserTallies) -> Estimates:
    """Return the plain mean of each cell's rewards, with half-widths of .1."""
    counts, sums = tallies.cell_sums("counts"), tallies.cell_sums("sums")
    visits = counts.sum(axis=1)
    return Estimates(
        mean_rewards=np.where(counts > 0, sums / np.maximum(counts, 1e-9), np.nan),
        sampling_errors=np.full(counts.shape, 0.1),
        bias_bounds=np.full(counts.shape, 0.1),
        context_probabilities=visits / max(visits.sum(), 1e-9),
        frequent_contexts=visits >= visits.max(),
        user_weights=np.ones(tallies.n_users),
        decided_by=np.full(len(visits), "pooled mean"),
    )


@dataclass
class Recording:
    """Estimate plain means, with full weight for every user."""

    given: list[Given] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)

    def __call__(
        self, tallies: UserTallies, design: Design, *, alpha: float, warmup: Tallies | None = None
    ) -> Estimates:
        """Return pooled means, and record the arguments."""
        self.given.append(Given(tallies, design, alpha, warmup))
        return replace(pooled(tallies), evidence=dict(self.evidence))
