"""The whole way from a log and a policy to its value for honest users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from unswayed.errors import InputError, option
from unswayed.evaluation.coalition import CLASSES, JACKKNIFE_GROUPS, Found, find_coalition
from unswayed.evaluation.estimators import (
    ESTIMATORS,
    Estimate,
    EstimatorName,
    Plays,
    Totals,
    calibrated,
    effective_sample_size,
    logged_totals,
    totals_of,
    uplift_of,
    value_of,
    widened,
)
from unswayed.events import UNKNOWN, Columns, Events, Label, OnBadRows, read_events
from unswayed.events.sources import Source
from unswayed.learners.design import design_of_log
from unswayed.learners.from_log import notes_on_bad_rows
from unswayed.learners.interface import FloatArray, IntArray
from unswayed.learners.learning import check_precision
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.unknown_fraction import Auto, check_fraction_or_auto, estimate_fraction
from unswayed.policy import Policy
from unswayed.randomness import generator
from unswayed.tallies import MIN_PROPENSITY, Tallies, as_blocks, tally, tally_events
from unswayed.tallies.findings import examine

Listener = Callable[[str], None]

STEPS = ("reading", "looking for a coalition", "evaluating")
"""The steps of an evaluation, in order."""

MOST_CONTEXTS = 20
"""Ours: contexts that are broken down, the most frequent first."""

FEW = 0.05
"""Ours: an effective sample below this share of the events, or visits without support above it, is
worth a warning."""

MODEL_ERROR = 0.05
"""Ours: the share of a correction that intervals allow it to be wrong by."""

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


def evaluate_log(
    source: Source,
    policy: Policy,
    *,
    baseline: Policy | None = None,
    baseline_name: str = LOGGING,
    adversarial_fraction: float | Auto = "auto",
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
    adversarial_fraction, min_propensity
        As ``learn_log`` takes them.
    on_step
        Called with each of ``STEPS`` as it begins.
    """
    stated = check_fraction_or_auto(adversarial_fraction)
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
    choices, unknown = _choices(policy, events)
    other = None if baseline is None else _choices(baseline, events)[0]
    tallies = _plain_tallies(events)
    check_precision(tallies)
    inverse, more = _inverse_propensities(events, tallies, min_propensity)
    plays = Plays(
        events.users, events.contexts, events.actions, events.rewards, inverse, events.n_users
    )
    on_step("looking for a coalition")
    naive_model = _cell_means(tallies, np.ones(events.n_users))
    robust = _robust_weights(events, tallies, naive_model, choices, other, stated, min_propensity)
    robust_model = _cell_means(tallies, robust.weights)
    on_step("evaluating")
    estimates = tuple(
        _evaluated_by(name, plays, choices, other, model, found)
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
        contexts=_by_context(plays, events, choices, other, naive_model, robust_model, robust),
        effective_sample_size=size,
        matched=int(is_matched.sum()),
        unsupported=unsupported,
        weight_kept=float(robust.weights.mean()),
        found_by=robust.found_by,
        coalition={
            "believed": robust.found.is_believed,
            "gain": robust.found.gain,
            "null_gain": robust.found.null_gain,
            "opposite_gain": robust.found.opposite_gain,
            "share": robust.found.share,
        },
        warnings=_warnings(
            size, len(events), unsupported, weights, estimates, bool(robust.found.stories)
        ),
        notes=(*notes, *more, *unknown),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Robust:
    weights: FloatArray
    alpha: float
    found: Found
    found_by: str


def _robust_weights(
    events: Events,
    tallies: Tallies,
    means: FloatArray,
    choices: IntArray,
    other: IntArray | None,
    stated: float | Auto,
    min_propensity: float,
) -> _Robust:
    """Return what users count: by the coalition against this policy, else by the learner."""
    labelled = tally_events(events, min_propensity=min_propensity).in_blocks(len(events))
    blocked = as_blocks(labelled.uniform())
    design = design_of_log(blocked, "auto")
    alpha = estimate_fraction(blocked, design).chosen if stated == "auto" else stated
    found = find_coalition(
        tallies,
        cell_classes(means, choices, other),
        adversarial_fraction=alpha,
        rng=generator(0, "evaluate"),
    )
    if found.is_believed:
        return _Robust(found.weights, alpha, found, "a coalition against this policy")
    learned = method_named(DEFAULT_METHOD)(blocked, design, adversarial_fraction=alpha)
    return _Robust(learned.user_weights, alpha, found, "the learner")


def cell_classes(means: FloatArray, choices: IntArray, other: IntArray | None) -> IntArray:
    """Return the class of each cell: played by the policy, two rivals, and all others.

    The first rival is what the baseline plays, if it is a policy, and else the largest mean among
    what the evaluated policy does not play; the second is the next largest.

    >>> cell_classes(np.array([[0.3, 0.2, 0.1, 0.0]]), np.array([1]), None).tolist()
    [1, 0, 2, 3]
    """
    rows = np.arange(len(means))
    classes = np.full(means.shape, CLASSES - 1, dtype=np.int64)
    ranked = means.copy()
    is_known = choices >= 0
    classes[rows[is_known], choices[is_known]] = 0
    ranked[rows[is_known], choices[is_known]] = -np.inf
    for rival in (1, 2):
        best = ranked.argmax(axis=1)
        if rival == 1 and other is not None:
            best = np.where((other >= 0) & (other != choices), other, best)
        is_open = np.isfinite(ranked[rows, best])
        classes[rows[is_open], best[is_open]] = rival
        ranked[rows, best] = -np.inf
    return classes.ravel()


def _choices(policy: Policy, events: Events) -> tuple[IntArray, tuple[str, ...]]:
    """Return the action that a policy plays in each context, −1 if the log has none like it."""
    if policy.context_labels.type_name != events.context_labels.type_name:
        raise InputError(
            f"the policy's contexts are of type {policy.context_labels.type_name} and the log's of "
            f"type {events.context_labels.type_name}, so no context of the log is known; name the "
            f"right column with {option('--context-column')}."
        )
    actions, is_known = policy.decide_many(events.context_labels)
    choices = events.action_labels.codes(actions)
    notes = []
    visits = np.bincount(events.contexts, minlength=events.n_contexts)
    missing = float(visits[~is_known].sum() / max(visits.sum(), 1))
    if missing > 0.0:
        notes.append(
            f"{missing:.1%} of the visits are to contexts that the policy does not know; it plays "
            "its default action there."
        )
    absent = choices == UNKNOWN
    if absent.any():
        action = actions[int(np.flatnonzero(absent)[0])]
        notes.append(f"the policy plays {action!r}, which the log does not have.")
    return np.where(absent, -1, choices), tuple(notes)


def _plain_tallies(events: Events) -> Tallies:
    return tally(
        events.users,
        events.contexts,
        events.actions,
        events.rewards,
        n_users=events.n_users,
        n_contexts=events.n_contexts,
        n_actions=events.n_actions,
    )


def _inverse_propensities(
    events: Events, tallies: Tallies, min_propensity: float
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return 1/propensity of each event: as logged, even, or as often as actions were played."""
    if events.propensities is not None:
        clipped = float((events.propensities < min_propensity).mean())
        note = (
            f"{clipped:.2%} of the propensities are below {min_propensity:g} and count as that.",
        )
        return 1.0 / np.maximum(events.propensities, min_propensity), note if clipped else ()
    findings = examine(
        tallies, events.context_labels, events.action_labels, adversarial_fraction=0.0
    )
    if findings.looks_uniform:
        return np.full(len(events), float(events.n_actions)), ()
    plays = np.bincount(tallies.cells, tallies.plays, tallies.n_cells).reshape(
        events.n_contexts, events.n_actions
    )
    shares = plays / np.maximum(plays.sum(axis=1, keepdims=True), 1.0)
    own = np.maximum(shares[events.contexts, events.actions], min_propensity)
    return 1.0 / own, (
        "the log has no propensities and actions were not played evenly; how often each was played "
        "in its context stands for them, which is right only if users did not choose.",
    )


def _cell_means(tallies: Tallies, weights: FloatArray) -> FloatArray:
    """Return weighted mean rewards of all cells; where nothing is known, the context's or log's."""
    own = np.repeat(weights, np.diff(tallies.indptr))
    shape = (tallies.n_contexts, tallies.n_actions)
    plays = np.bincount(tallies.cells, own * tallies.plays, tallies.n_cells).reshape(shape)
    sums = np.bincount(tallies.cells, own * tallies.sums, tallies.n_cells).reshape(shape)
    everywhere = float(sums.sum() / max(float(plays.sum()), 1e-300))
    total = plays.sum(axis=1, keepdims=True)
    of_context = np.where(
        total > 1e-9, sums.sum(axis=1, keepdims=True) / np.maximum(total, 1e-300), everywhere
    )
    return np.where(plays > 1e-9, sums / np.maximum(plays, 1e-300), of_context)


def _evaluated_by(
    name: EstimatorName,
    plays: Plays,
    choices: IntArray,
    other: IntArray | None,
    model: FloatArray,
    robust: _Robust | None,
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
    estimate: Callable[[FloatArray], Estimate], of_all: Estimate, robust: _Robust
) -> Estimate:
    """Return an estimate for honest users, with all that its interval has to allow for.

    Chance; what the weights are uncertain by, from a jackknife; a share of the correction, for the
    model is never quite true; and, where two opposite stories fit, both of them.
    """
    found = estimate(robust.weights)
    error = found.error
    replicates = [estimate(weights).estimate for weights in robust.found.replicates]
    if replicates:
        n = JACKKNIFE_GROUPS
        spread = np.square(np.array(replicates) - np.mean(replicates)).sum()
        error = max(error, float(np.sqrt((n - 1) / n * spread)))
    correction = MODEL_ERROR * (found.estimate - of_all.estimate)
    found = widened(found, float(np.hypot(max(error, of_all.error), correction)))
    for weights in robust.found.stories:
        story = estimate(weights)
        found = found._replace(low=min(found.low, story.low), high=max(found.high, story.high))
    return found


def _by_context(
    plays: Plays,
    events: Events,
    choices: IntArray,
    other: IntArray | None,
    naive_model: FloatArray,
    robust_model: FloatArray,
    robust: _Robust,
) -> tuple[ContextValue, ...]:
    visits = np.bincount(events.contexts, minlength=events.n_contexts)
    ones = np.ones(events.n_users)
    rows = []
    for s in np.argsort(-visits, kind="stable")[:MOST_CONTEXTS].tolist():
        if not visits[s] or choices[s] < 0:
            continue
        at = np.flatnonzero(events.contexts == s)
        some = _rows(plays, at)
        naive = totals_of(some, choices, "dr", naive_model)
        honest = totals_of(some, choices, "dr", robust_model)
        against: Totals = (
            logged_totals(some) if other is None else totals_of(some, other, "dr", robust_model)
        )
        rows.append(
            ContextValue(
                context=events.context_labels[s],
                share=float(visits[s] / len(events)),
                action=events.action_labels[int(choices[s])],
                plays=int((some.actions == choices[s]).sum()),
                naive=value_of(naive, ones),
                robust=value_of(honest, robust.weights),
                robust_uplift=uplift_of(honest, against, robust.weights),
            )
        )
    return tuple(rows)


def _rows(plays: Plays, at: npt.NDArray[np.int64]) -> Plays:
    return Plays(
        plays.users[at],
        plays.contexts[at],
        plays.actions[at],
        plays.rewards[at],
        plays.inverse[at],
        plays.n_users,
    )


def _warnings(
    size: float,
    n_events: int,
    unsupported: float,
    weights: FloatArray,
    estimates: tuple[EvaluatedBy, ...],
    has_two_stories: bool,
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
            "a single event has more than 5 % of all importance weight; estimates hang on it."
        )
    if has_two_stories:
        found.append(
            "some users answer together, and the log does not tell which side of them is honest; "
            "intervals contain both stories."
        )
    by_robust = {one.robust: one.uplift for one in estimates if one.estimator == "dr"}
    if by_robust[True].estimate * by_robust[False].estimate < 0.0:
        found.append(
            "for honest users the policy is "
            + ("better" if by_robust[True].estimate > 0.0 else "worse")
            + " than the baseline, although the plain estimates say the opposite."
        )
    return tuple(found)


def _interval(found: Estimate) -> dict[str, float | None]:
    return {
        "estimate": _number(found.estimate),
        "low": _number(found.low),
        "high": _number(found.high),
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
