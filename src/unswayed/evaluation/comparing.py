"""A policy beside a baseline on the events of a log: for all users, and for honest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.evaluation.estimators import (
    Estimate,
    EstimatorName,
    Terms,
    Totals,
    totals_of,
    value_of,
)
from unswayed.evaluation.fitting import Judged, halves_of
from unswayed.evaluation.hidden import Honest, Z
from unswayed.evaluation.results import EvaluatedBy
from unswayed.events import Events


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What estimators read of a policy and of its baseline, with one model of rewards.

    ``weights`` are those of users, shape (n_users,), in the model and in robust estimates.
    """

    policy: Terms
    baseline: Terms
    weights: FloatArray

    @classmethod
    def of(
        cls,
        events: Events,
        inverse: FloatArray,
        policies: Sequence[Judged],
        weights: FloatArray,
        split: int | None = None,
    ) -> Comparison:
        """Return the terms of a policy and its baseline; without one, of what was logged.

        ``inverse`` are inverse propensities of the events. Without a split policies are taken as
        they are.
        """
        n_users = events.n_users
        if split is None:
            half_of, models = np.zeros(n_users, np.int64), [cell_means(events, weights)]
        else:
            half_of = halves_of(n_users, split)
            models = [cell_means(events, weights * (half_of != half)) for half in (0, 1)]
        halves, s, a = half_of[events.users], events.contexts, events.actions
        model = np.stack(models)
        terms = []
        for one in policies:
            fitted = [one.table] * len(models)
            if split is not None and one.halves:
                fitted = list(one.halves[split])
            table = np.stack(fitted)
            terms.append(
                Terms(
                    events.users,
                    events.rewards,
                    table[halves, s, a] * inverse,
                    # What the policy plays beside the log's actions is expected to bring nothing.
                    (table * model).sum(axis=2)[halves, s],
                    model[halves, s, a],
                    n_users,
                )
            )
        return cls(terms[0], terms[1] if len(terms) > 1 else terms[0].logged(), weights)

    def logged(self, rows: BoolArray | None = None) -> Estimate:
        """Return the mean reward of honest users in what was logged."""
        terms = self.policy if rows is None else self.policy.rows(rows)
        return value_of(totals_of(terms.logged(), "dr"), self.weights)

    def for_all(self, name: EstimatorName, rows: BoolArray | None = None) -> EvaluatedBy:
        """Return what an estimator says of all users alike, in some events or all."""
        ones = np.ones(self.policy.n_users)
        value, uplift = self._estimates(name, ones, rows, is_calibrated=False)
        return EvaluatedBy(name, False, value, uplift, uplift)

    def for_honest(
        self, name: EstimatorName, honest: Honest, rows: BoolArray | None = None
    ) -> EvaluatedBy:
        """Return what an estimator says of honest users, with all that may be hidden.

        What is hidden moves all estimators about as much, and is computed for DR.
        """
        value, uplift = self._estimates("dr", self.weights, rows, is_calibrated=True)
        hidden = value, uplift
        if honest.share > 0.0:
            hidden = (
                self._hidden(value, honest, None, rows),
                self._hidden(uplift, honest, self.baseline, rows),
            )
        if name == "dr":
            return EvaluatedBy(name, True, *hidden, uplift)
        own = self._estimates(name, self.weights, rows, is_calibrated=True)
        value, uplift = (_reaching(*pair) for pair in zip(own, hidden, strict=True))
        return EvaluatedBy(name, True, value, uplift, own[1])

    def _estimates(
        self,
        name: EstimatorName,
        weights: FloatArray,
        rows: BoolArray | None,
        *,
        is_calibrated: bool,
    ) -> tuple[Estimate, Estimate]:
        """Return the value and the uplift, with intervals that allow for chance."""
        totals, against = (
            totals_of(one if rows is None else one.rows(rows), name, is_calibrated=is_calibrated)
            for one in (self.policy, self.baseline)
        )
        return value_of(totals, weights), value_of(totals, weights, against)

    def _hidden(
        self, found: Estimate, honest: Honest, against: Terms | None, rows: BoolArray | None
    ) -> Estimate:
        """Return a DR estimate whose interval allows for accounts that lie unseen.

        It is a part that rewards do not enter, beside the model, and a mean residual.
        """
        factors, expected = self.policy.ratios, self.policy.expected
        if against is not None:
            factors, expected = factors - against.ratios, expected - against.expected
        residuals = self.policy.rewards - self.policy.fitted
        low, high = honest.bounds(factors, residuals, rows)
        kept = slice(None) if rows is None else rows
        users, n = self.policy.users[kept], self.policy.n_users
        own = self.weights[users]
        mean = float(own @ (factors * residuals)[kept]) / max(float(own.sum()), 1e-300)
        design = Totals(
            np.bincount(users, expected[kept], n).astype(np.float64),
            np.bincount(users, minlength=n).astype(np.float64),
        )
        chance = Z * value_of(design, self.weights).error
        return found._replace(
            low=min(found.low, found.estimate - float(np.hypot(max(mean - low, 0.0), chance))),
            high=max(found.high, found.estimate + float(np.hypot(max(high - mean, 0.0), chance))),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """A comparison with policies as they are, and one for each split that was cross-fitted.

    ``is_rival_fitted`` says that the baseline was cross-fitted, too.
    """

    as_is: Comparison
    crossed: tuple[Comparison, ...]
    is_rival_fitted: bool

    @classmethod
    def of(
        cls,
        events: Events,
        inverse: FloatArray,
        policies: Sequence[Judged],
        weights: FloatArray,
    ) -> Comparisons:
        """Return the comparisons of a policy, and of a baseline if there are two policies."""
        n_splits = max(len(one.halves) for one in policies)
        crossed = (
            Comparison.of(events, inverse, policies, weights, split) for split in range(n_splits)
        )
        return cls(
            Comparison.of(events, inverse, policies, weights),
            tuple(crossed),
            any(one.halves for one in policies[1:]),
        )

    def for_all(self, name: EstimatorName, rows: BoolArray | None = None) -> EvaluatedBy:
        """Return what an estimator says of all users alike, in some events or all."""
        return self._pooled([one.for_all(name, rows) for one in (self.as_is, *self.crossed)])

    def for_honest(
        self, name: EstimatorName, honest: Honest, rows: BoolArray | None = None
    ) -> EvaluatedBy:
        """Return what an estimator says of honest users, with all that may be hidden."""
        parts = (self.as_is, *self.crossed)
        return self._pooled([one.for_honest(name, honest, rows) for one in parts])

    def _pooled(self, found: list[EvaluatedBy]) -> EvaluatedBy:
        """Average over splits; the policy as it is has the upper end, see ``fitting``."""
        as_is, *crossed = found
        if not crossed:
            return as_is
        value, uplift, sampling = (
            _mean_of([getattr(one, part) for one in crossed], getattr(as_is, part), is_both)
            for part, is_both in (
                ("value", False),
                ("uplift", self.is_rival_fitted),
                ("sampling", self.is_rival_fitted),
            )
        )
        return EvaluatedBy(as_is.estimator, as_is.robust, value, uplift, sampling)


def _mean_of(crossed: list[Estimate], as_is: Estimate, is_both: bool) -> Estimate:
    """Return the mean of estimates; ``is_both`` if either end may be too near as it is."""
    estimate, low, high, error = np.mean(crossed, axis=0).tolist()
    low = min(low, as_is.low) if is_both else low
    return Estimate(estimate, low, max(high, as_is.high), error)


def _reaching(found: Estimate, doubly: Estimate) -> Estimate:
    """Return an estimate with its own chance, and with all that is hidden from the other one."""
    below, above = doubly.estimate - doubly.low, doubly.high - doubly.estimate
    return found._replace(
        low=found.estimate - float(np.hypot(found.estimate - found.low, below)),
        high=found.estimate + float(np.hypot(found.high - found.estimate, above)),
    )


def cell_means(events: Events, user_weights: FloatArray) -> FloatArray:
    """Return mean rewards of all cells; where nothing is known, the context's or log's.

    Shape (n_contexts, n_actions).
    """
    shape, weights = (events.n_contexts, events.n_actions), user_weights[events.users]
    cells = events.contexts.astype(np.int64) * shape[1] + events.actions
    plays = np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(cells, weights * events.rewards, shape[0] * shape[1]).reshape(shape)
    everywhere = float(sums.sum() / max(float(plays.sum()), 1e-300))
    total = plays.sum(axis=1, keepdims=True)
    of_context = np.where(
        total > 1e-9, sums.sum(axis=1, keepdims=True) / np.maximum(total, 1e-300), everywhere
    )
    return np.where(plays > 1e-9, sums / np.maximum(plays, 1e-300), of_context)
