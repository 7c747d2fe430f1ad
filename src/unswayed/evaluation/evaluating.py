"""The whole way from a log and a policy to its value for honest users."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.evaluation.estimators import ESTIMATORS, Plays, effective_sample_size
from unswayed.evaluation.honest import by_context, evaluated_by, robust_weights
from unswayed.evaluation.log import cell_means, choices_of, inverse_propensities, plain_tallies
from unswayed.evaluation.results import LOGGING, EvaluatedBy, Evaluation
from unswayed.events import Columns, Events, OnBadRows, read_events
from unswayed.events.sources import Source
from unswayed.learners.explaining import notes_on_bad_rows
from unswayed.learners.from_log import Listener
from unswayed.learners.learning import check_precision
from unswayed.learners.unknown_fraction import Auto, check_fraction_or_auto
from unswayed.policy import Policy
from unswayed.tallies import MIN_PROPENSITY

STEPS = ("reading", "looking for a coalition", "evaluating")
"""The steps of an evaluation, in order."""

FEW = 0.05
"""Ours: an effective sample below this share of the events, or visits without support above it, is
worth a warning."""


def evaluate_log(
    source: Source,
    policy: Policy,
    *,
    baseline: Policy | None = None,
    baseline_name: str = LOGGING,
    alpha: float | Auto = "auto",
    columns: Columns | None = None,
    query: str | None = None,
    on_bad_rows: OnBadRows | str = "error",
    min_propensity: float = MIN_PROPENSITY,
    memory: int | None = None,
    on_step: Listener = lambda _: None,
) -> Evaluation:
    """Evaluate a policy on a log of another one.

    Parameters
    ----------
    source, columns, query, on_bad_rows, memory
        As ``read_events`` takes them.
    policy
        What is evaluated.
    baseline
        What it is compared with; None for what was logged.
    baseline_name
        How the baseline is called in the result.
    alpha, min_propensity
        As ``learn_log`` takes them.
    on_step
        Called with each of ``STEPS`` as it begins.
    """
    stated = check_fraction_or_auto(alpha)
    on_step("reading")
    reading = read_events(
        source, columns=columns, query=query, on_bad_rows=on_bad_rows, memory=memory
    )
    return evaluate_events(
        reading.events,
        policy,
        source=reading.provenance.source,
        baseline=baseline,
        baseline_name=baseline_name,
        stated=stated,
        min_propensity=min_propensity,
        notes=notes_on_bad_rows(reading.provenance),
        on_step=on_step,
    )


def evaluate_events(
    events: Events,
    policy: Policy,
    *,
    source: str = "the log",
    baseline: Policy | None = None,
    baseline_name: str = LOGGING,
    stated: float | Auto = "auto",
    min_propensity: float = MIN_PROPENSITY,
    notes: tuple[str, ...] = (),
    on_step: Listener = lambda _: None,
) -> Evaluation:
    """Evaluate a policy on events."""
    if not len(events):
        raise InputError("there are no events to evaluate a policy on; give at least one.")
    choices, unknown = choices_of(policy, events)
    other = None if baseline is None else choices_of(baseline, events)[0]
    tallies = plain_tallies(events)
    check_precision(tallies)
    inverse, more = inverse_propensities(events, tallies, min_propensity)
    plays = Plays(
        events.users, events.contexts, events.actions, events.rewards, inverse, events.n_users
    )
    on_step("looking for a coalition")
    naive_model = cell_means(tallies, np.ones(events.n_users))
    robust = robust_weights(events, tallies, naive_model, choices, other, stated, min_propensity)
    robust_model = cell_means(tallies, robust.weights)
    on_step("evaluating")
    estimates = tuple(
        evaluated_by(name, plays, choices, other, model, found)
        for name in ESTIMATORS
        for model, found in ((naive_model, None), (robust_model, robust))
    )
    chosen = choices[events.contexts]
    is_matched = events.actions == chosen
    weights = inverse[is_matched]
    met = np.bincount(tallies.cells, tallies.plays, tallies.n_cells).reshape(
        events.n_contexts, events.n_actions
    )
    has_support = (choices >= 0) & (met[np.arange(events.n_contexts), np.maximum(choices, 0)] > 0)
    unsupported = float(1.0 - has_support[events.contexts].mean())
    size = effective_sample_size(weights)
    return Evaluation(
        source=source,
        baseline=baseline_name,
        alpha=robust.alpha,
        n_events=len(events),
        n_users=events.n_users,
        estimates=estimates,
        contexts=by_context(plays, events, choices, other, naive_model, robust_model, robust),
        effective_sample_size=size,
        matched=int(is_matched.sum()),
        unsupported=unsupported,
        weight_kept=float(robust.weights.mean()),
        found_by=robust.found_by,
        coalition={
            "believed": robust.found.is_accepted,
            "gain": robust.found.gain,
            "null_gain": robust.found.null_gain,
            "opposite_gain": robust.found.opposite_gain,
            "share": robust.found.share,
        },
        warnings=_warnings(
            size, len(events), unsupported, weights, estimates, robust.found.has_opposites
        ),
        notes=(*notes, *more, *unknown),
    )


def _warnings(
    size: float,
    n_events: int,
    unsupported: float,
    weights: FloatArray,
    estimates: tuple[EvaluatedBy, ...],
    has_opposites: bool,
) -> tuple[str, ...]:
    found = []
    if size < FEW * n_events:
        found.append(
            f"the effective sample is {size:,.0f} of {n_events:,} events: the log says little "
            "about this policy; explore more."
        )
    if unsupported > 0.0:
        found.append(
            f"{unsupported:.1%} of the visits are to contexts where the policy's action was never "
            "played; IPS and SNIPS leave them out, and DR takes the context's mean."
        )
    total = float(weights.sum())
    if total > 0.0 and float(weights.max()) > FEW * total:
        found.append(
            "a single event has more than 5% of all importance weight; estimates hang on it."
        )
    if has_opposites:
        found.append(
            "some users' rewards go together, and the log does not show which side of them is "
            "honest; intervals contain both explanations."
        )
    by_robust = {one.robust: one.uplift for one in estimates if one.estimator == "dr"}
    if by_robust[True].estimate * by_robust[False].estimate < 0.0:
        found.append(
            "for honest users the policy is "
            + ("better" if by_robust[True].estimate > 0.0 else "worse")
            + " than the baseline, although the plain estimates say the opposite."
        )
    return tuple(found)
