"""Estimates for honest users, and intervals that account for unknown membership."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.evaluation.coalition import JACKKNIFE_GROUPS, Found, find_coalition
from unswayed.evaluation.estimators import (
    Estimate,
    EstimatorName,
    Plays,
    calibrated,
    logged_totals,
    reaching,
    totals_of,
    uplift_of,
    value_of,
    widened,
)
from unswayed.evaluation.log import cell_classes
from unswayed.evaluation.results import ContextValue, EvaluatedBy
from unswayed.events import Events
from unswayed.learners.design import design_of_log
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.unknown_fraction import Auto, estimate_fraction
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally_events

MOST_CONTEXTS = 20
"""Ours: maximum number of contexts in the breakdown."""

MODEL_ERROR, AMBIGUITY_ERROR = 0.05, 0.4
"""Ours: the share of a correction that intervals allow it to be wrong by, of all of it and of the
part that rests on accounts which may be members or not: there the model decides."""


@dataclass(frozen=True, slots=True, eq=False)
class Robust:
    """User weights, the alpha used, and the coalition found."""

    weights: FloatArray
    alpha: float
    found: Found
    found_by: str


def robust_weights(
    events: Events,
    tallies: Tallies,
    means: FloatArray,
    choices: IntArray,
    other: IntArray | None,
    stated: float | Auto,
    min_propensity: float,
) -> Robust:
    """Return user weights: from a coalition against this policy, else from the learner."""
    log = tally_events(events, min_propensity=min_propensity).in_blocks(len(events))
    uniform = log.uniform()
    design = design_of_log(uniform, "auto")
    alpha = estimate_fraction(uniform).chosen if stated == "auto" else stated
    found = find_coalition(
        tallies,
        cell_classes(means, choices, other),
        alpha=alpha,
        rng=generator(0, "evaluate"),
    )
    if found.is_accepted:
        return Robust(found.weights, alpha, found, "a coalition against this policy")
    learned = method_named(DEFAULT_METHOD)(uniform, design, alpha=alpha)
    return Robust(learned.user_weights, alpha, found, "the learner")


def evaluated_by(
    name: EstimatorName,
    plays: Plays,
    choices: IntArray,
    other: IntArray | None,
    model: FloatArray,
    robust: Robust | None,
) -> EvaluatedBy:
    """Return what an estimator says of all users, or of honest ones."""
    totals = totals_of(plays, choices, name, model)
    against = logged_totals(plays) if other is None else totals_of(plays, other, name, model)
    ones = np.ones(plays.n_users)
    value, uplift = value_of(totals, ones), uplift_of(totals, against, ones)
    if robust is None:
        return EvaluatedBy(name, False, value, uplift)
    honest, rival = totals, against
    if name == "ips":
        honest = calibrated(totals, totals_of(plays, choices, "snips", model))
        if other is not None:
            rival = calibrated(against, totals_of(plays, other, "snips", model))

    def uplift_for(weights: FloatArray) -> Estimate:
        return uplift_of(honest, rival, weights)

    def value_for(weights: FloatArray) -> Estimate:
        return value_of(honest, weights)

    return EvaluatedBy(
        name, True, _honestly(value_for, value, robust), _honestly(uplift_for, uplift, robust)
    )


def _honestly(
    estimate: Callable[[FloatArray], Estimate], of_all: Estimate, robust: Robust
) -> Estimate:
    """Return an estimate for honest users with a widened interval.

    Chance; what the weights are uncertain by, from a jackknife; a share of the correction, for the
    model is never quite true; and the estimates of all fits that are about as good.
    """
    found = estimate(robust.weights)
    error = found.error
    replicates = [estimate(weights).estimate for weights in robust.found.replicates]
    if replicates:
        n = JACKKNIFE_GROUPS
        spread = np.square(np.array(replicates) - np.mean(replicates)).sum()
        error = max(error, float(np.sqrt((n - 1) / n * spread)))
    wrong = MODEL_ERROR + AMBIGUITY_ERROR * robust.found.ambiguity
    correction = wrong * (found.estimate - of_all.estimate)
    found = widened(found, float(np.hypot(max(error, of_all.error), correction)))
    others = [estimate(weights).estimate for weights in robust.found.plausible_weights]
    return reaching(found, others)


def by_context(
    plays: Plays,
    events: Events,
    choices: IntArray,
    other: IntArray | None,
    naive_model: FloatArray,
    robust_model: FloatArray,
    robust: Robust,
) -> tuple[ContextValue, ...]:
    """Return the value in the most frequent contexts, by DR."""
    visits = np.bincount(events.contexts, minlength=events.n_contexts)
    ones = np.ones(events.n_users)
    rows = []
    for s in np.argsort(-visits, kind="stable")[:MOST_CONTEXTS].tolist():
        if not visits[s] or choices[s] < 0:
            continue
        some = _rows(plays, np.flatnonzero(events.contexts == s))
        naive = value_of(totals_of(some, choices, "dr", naive_model), ones)
        by = evaluated_by("dr", some, choices, other, robust_model, robust)
        rows.append(
            ContextValue(
                context=events.context_labels[s],
                share=float(visits[s] / len(events)),
                action=events.action_labels[int(choices[s])],
                plays=int((some.actions == choices[s]).sum()),
                naive=naive,
                robust=by.value,
                robust_uplift=by.uplift,
            )
        )
    return tuple(rows)


def _rows(plays: Plays, at: IntArray) -> Plays:
    return Plays(
        plays.users[at],
        plays.contexts[at],
        plays.actions[at],
        plays.rewards[at],
        plays.inverse[at],
        plays.n_users,
    )
