"""Results of an evaluation, with their tables, JSON and sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

import pyarrow as pa

from unswayed.defaults import LOGGING as LOGGING
from unswayed.evaluation.estimators import Estimate
from unswayed.events import Label
from unswayed.policy.documents import json_number
from unswayed.visible import number, percent

NEARLY_HALF = 0.48
"""Larger shares are reported as "nearly half"."""

Fitting = Literal["as it is", "cross-fitted", "holdout"]
FITTINGS: dict[Fitting, str] = {
    "as it is": "The policy was evaluated as it is: {reason}.",
    "cross-fitted": "The policy was cross-fitted, learned again from halves of the users and "
    "evaluated on the others: {reason}.",
    "holdout": "The policy was learned again {reason}.",
}
"""How a policy was evaluated, in words."""


@dataclass(frozen=True, slots=True)
class EvaluatedBy:
    """Doubly robust estimates for all users or for honest users.

    ``sampling`` is the uplift with an interval that allows for chance only, not for undetected
    lies.
    """

    robust: bool
    value: Estimate
    uplift: Estimate
    sampling: Estimate
    estimator: Literal["dr"] = "dr"


@dataclass(frozen=True, slots=True)
class ContextValue:
    """The value in one context, beside that of the logging policy for honest users.

    ``action`` is the one that the policy plays most often.
    """

    context: Label
    share: float
    action: Label
    plays: int
    logged: Estimate
    naive: Estimate
    robust: Estimate
    uplift: Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """Value of a policy, compared with a baseline.

    Attributes
    ----------
    source, n_events, n_users
        The log.
    baseline
        What the policy is compared with.
    logged
        Mean reward of what was logged, for honest users.
    fitting, reason
        Whether the policy was cross-fitted, evaluated on a holdout or as it is, and why.
    share, is_assumed
        Intervals of honest users hold if at most this share of the accounts colludes, those
        included that were found; whether it was assumed and not stated.
    holds_to
        The largest such share with which the interval of the uplift does not contain 0; None if
        chance alone could explain the uplift.
    estimates, contexts
        Estimates for all users and for honest ones, and by context.
    effective_sample_size, matched
        Effective number of events, and number of events with an action that the policy plays.
    unsupported
        Share of the policy's plays that were never played in their context.
    weight_kept, n_coalitions
        Share of the accounts' weight that the learner kept, and number of coalitions it found.
    """

    source: str
    n_events: int
    n_users: int
    baseline: str
    logged: Estimate
    fitting: Fitting
    reason: str
    share: float
    is_assumed: bool
    holds_to: float | None
    estimates: tuple[EvaluatedBy, EvaluatedBy]
    contexts: tuple[ContextValue, ...]
    effective_sample_size: float
    matched: int
    unsupported: float
    weight_kept: float
    n_coalitions: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        uplift = self.honest.uplift
        ends = f"{number(uplift.low)} to {number(uplift.high)}"
        return f"<Evaluation: uplift {number(uplift.estimate, sign='+')} ({ends}), {self.fitting}>"

    @property
    def honest(self) -> EvaluatedBy:
        """The estimates for honest users."""
        return self.estimates[1]

    @property
    def naive(self) -> EvaluatedBy:
        """The estimates for all users."""
        return self.estimates[0]

    @property
    def condition(self) -> str:
        """The assumption behind the intervals for honest users."""
        return f"if at most {percent(self.share)} of the accounts collude"

    @property
    def statement(self) -> str:
        """The result in a few sentences."""
        uplift, chance = self.honest.uplift, self.honest.sampling
        against = "what was logged" if self.baseline == LOGGING else self.baseline
        words = [
            f"For honest users the policy gains {number(uplift.estimate, sign='+')} per visit over "
            f"{against}: {number(chance.low)} to {number(chance.high)} if nobody lies unseen, "
            f"{number(uplift.low)} to {number(uplift.high)} {self.condition} (doubly robust, 95% "
            "intervals)."
        ]
        if self.holds_to is not None:
            better = "better" if uplift.estimate > 0.0 else "worse"
            limit = f"unless more than {self.holds_to:.1%} of them collude"
            if self.holds_to > NEARLY_HALF:
                limit = "even if nearly half of them collude"
            words.append(f"It is {better} {limit}.")
        words.append(FITTINGS[self.fitting].format(reason=self.reason))
        return " ".join(words)

    def table(self, part: Literal["estimates", "contexts"] = "estimates") -> pa.Table:
        """Return a part as a table; ``.to_pandas()`` and ``polars.from_arrow`` make data frames."""
        return pa.Table.from_pylist(
            [
                {
                    f"{name}_{end}".removesuffix("_estimate"): item
                    for name, value in _plain(row).items()
                    for end, item in (
                        value if isinstance(value, dict) else {"estimate": value}
                    ).items()
                }
                for row in getattr(self, part)
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as plain JSON values."""
        return {
            "statement": self.statement,
            "estimates": [_plain(one) for one in self.estimates],
            "baseline": self.baseline,
            "logged": _interval(self.logged),
            "fitting": {"how": self.fitting, "reason": self.reason},
            "share": {"at_most": self.share, "is_assumed": self.is_assumed},
            "condition": self.condition,
            "holds_to": self.holds_to,
            "log": {"source": self.source, "events": self.n_events, "users": self.n_users},
            "effective_sample_size": self.effective_sample_size,
            "matched_events": self.matched,
            "unsupported_share": self.unsupported,
            "weight_kept": self.weight_kept,
            "coalitions": self.n_coalitions,
            "contexts": [_plain(one) for one in self.contexts],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def _plain(row: EvaluatedBy | ContextValue) -> dict[str, Any]:
    """Return a row as plain JSON values."""
    values = {one.name: getattr(row, one.name) for one in fields(row)}
    return {
        "uplift_if_nobody_hides" if name == "sampling" else name: (
            _interval(value) if isinstance(value, Estimate) else value
        )
        for name, value in values.items()
    }


def _interval(found: Estimate) -> dict[str, float | None]:
    return {name: json_number(getattr(found, name)) for name in ("estimate", "low", "high")}
