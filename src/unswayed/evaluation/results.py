"""What an evaluation says: frozen results, and the JSON that programs read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unswayed.evaluation.estimators import Estimate, EstimatorName
from unswayed.events import Label
from unswayed.policy.documents import json_number

LOGGING = "logging"
"""The baseline that is what was logged."""


@dataclass(frozen=True, slots=True)
class EvaluatedBy:
    """What one estimator says, of all users alike or of honest ones."""

    estimator: EstimatorName
    robust: bool
    value: Estimate
    uplift: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "estimator": self.estimator,
            "robust": self.robust,
            "value": _interval(self.value),
            "uplift": _interval(self.uplift),
        }


@dataclass(frozen=True, slots=True)
class ContextValue:
    """The value in one context by DR, for all users and for honest ones."""

    context: Label
    share: float
    action: Label
    plays: int
    naive: Estimate
    robust: Estimate
    robust_uplift: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "context": self.context,
            "share": self.share,
            "action": self.action,
            "plays": self.plays,
            "naive": _interval(self.naive),
            "robust": _interval(self.robust),
            "uplift": _interval(self.robust_uplift),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """How good a policy is, against a baseline.

    ``effective_sample_size`` is that of the importance weights; ``matched`` counts events with the
    policy's action, and ``unsupported`` is the share of visits to contexts where it was never
    played.
    """

    source: str
    baseline: str
    alpha: float
    n_events: int
    n_users: int
    estimates: tuple[EvaluatedBy, ...]
    contexts: tuple[ContextValue, ...]
    effective_sample_size: float
    matched: int
    unsupported: float
    weight_kept: float
    found_by: str
    coalition: dict[str, float | bool]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "estimates": [one.to_json() for one in self.estimates],
            "baseline": self.baseline,
            "alpha": self.alpha,
            "log": {"source": self.source, "events": self.n_events, "users": self.n_users},
            "effective_sample_size": self.effective_sample_size,
            "matched_events": self.matched,
            "unsupported_share": self.unsupported,
            "weight_kept": self.weight_kept,
            "weights_from": self.found_by,
            "coalition": self.coalition,
            "contexts": [one.to_json() for one in self.contexts],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def _interval(found: Estimate) -> dict[str, float | None]:
    return {
        "estimate": json_number(found.estimate),
        "low": json_number(found.low),
        "high": json_number(found.high),
    }
