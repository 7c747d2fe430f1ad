"""The whole way from a log and a policy to its value for honest users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.evaluation.choices import choices_of, inverse_propensities, stochastic_choices
from unswayed.evaluation.comparing import Comparisons
from unswayed.evaluation.estimators import ESTIMATORS, effective_sample_size
from unswayed.evaluation.fitting import Judged, early_and_late, judged, learned_again
from unswayed.evaluation.hidden import Honest
from unswayed.evaluation.results import LOGGING, ContextValue, EvaluatedBy, Evaluation
from unswayed.events import Columns, Events, OnBadRows, read_events
from unswayed.events.known import read_known
from unswayed.events.sources import Source
from unswayed.learners.bounded.method import Reviewed, find_coalitions
from unswayed.learners.explaining import notes_on_bad_rows
from unswayed.learners.from_log import Listener
from unswayed.learners.learning import check_precision
from unswayed.learners.unknown_fraction import Auto, check_fraction_or_auto, estimate_fraction
from unswayed.policy import Origin, Policy
from unswayed.randomness import generator
from unswayed.tallies import MIN_PROPENSITY, Tallies, tally_events

STEPS = ("reading", "looking for a coalition", "fitting", "evaluating")
"""The steps of an evaluation, in order."""

ASSUMED_SHARE = 0.2
"""Ours: with alpha "auto", intervals allow for so many colluders at least, found or not. How many
hide cannot be known from a log; a smaller share that you are sure of gives narrower intervals."""

FEW = 0.05
"""Ours: a single event with more of the importance weight is worth a warning, and so is a smaller
effective sample if the uplift could be chance."""

MOST_CONTEXTS = 20
"""Ours: contexts that are broken down, the most frequent first."""

LARGEST_SHARE = 0.49
"""From one half on nothing can be said."""


def evaluate_policy(
    source: Source | Events,
    policy: Policy | Source,
    *,
    baseline: Policy | Source | None = None,
    baseline_name: str = LOGGING,
    alpha: float | Auto = "auto",
    holdout: float | None = None,
    known: str | Path | None = None,
    columns: Columns | None = None,
    query: str | None = None,
    on_bad_rows: OnBadRows | str = "error",
    min_propensity: float = MIN_PROPENSITY,
    memory: int | None = None,
    on_step: Listener = lambda _: None,
) -> Evaluation:
    """Estimate how much better a policy is for honest users, from a log of another one.

    Parameters
    ----------
    source, columns, query, on_bad_rows, memory
        As ``read_events`` takes them; or events.
    policy
        What is evaluated: a policy, or a table or file of a stochastic one with the log's columns
        of context and action and a column ``probability``.
    baseline
        What it is compared with, in the same forms; None for what was logged.
    baseline_name
        How the baseline is called in the result.
    alpha
        The largest share of accounts that may collude. With "auto" a fifth, or more if more look
        like colluders.
    holdout
        Learn the policy again from all but the last share of the events, by their times, and
        evaluate it on these.
    known
        A file of reviewed accounts, as ``learn_log`` takes it.
    min_propensity
        Smaller propensities are raised to this one.
    on_step
        Called with each of ``STEPS`` as it begins.

    Notes
    -----
    A policy that was learned from this log, or may have been, is cross-fitted; see ``fitting``.

    Guarantee: asymptotically, intervals of honest users hold with 95 % if at most ``share`` of the
    accounts collude and the coalitions that were found are none but colluders, up to a factor of
    the odds; see ``hidden``.
    """
    stated = check_fraction_or_auto(alpha)
    on_step("reading")
    notes: tuple[str, ...] = ()
    ends: tuple[str | None, str | None] = (None, None)
    if isinstance(source, Events):
        events, name, times, columns = source, "the log", source.times, columns or Columns()
    else:
        reading = read_events(
            source,
            columns=columns,
            query=query,
            on_bad_rows=on_bad_rows,
            memory=memory,
            with_times=holdout is not None,
        )
        events, times, read = reading.events, reading.times, reading.provenance
        name, columns, ends = read.source, read.columns, (read.first_time, read.last_time)
        notes = notes_on_bad_rows(read)
    if not len(events):
        raise InputError("there are no events to evaluate a policy on; give at least one.")
    early = None
    if holdout is not None:
        early, events = early_and_late(events, times, holdout)
    tallies = _tallies(events, min_propensity)
    check_precision(tallies)
    inverse, more = inverse_propensities(events, tallies, min_propensity)
    notes += more
    on_step("looking for a coalition")
    reviewed = None if known is None else Reviewed.of(read_known(known), events.user_labels)
    searched = estimate_fraction(tallies, reviewed).chosen if stated == "auto" else stated
    share = max(searched, ASSUMED_SHARE) if stated == "auto" else stated
    found = find_coalitions(tallies, alpha=searched, reviewed=reviewed)
    on_step("fitting")
    counts = tallies.cell_sums("plays").astype(np.int64)
    labels = events.context_labels, events.action_labels
    origin = Origin.of(*labels, counts, events.user_labels, ends)
    policies = []
    for one in (policy,) if baseline is None else (policy, baseline):
        if not isinstance(one, Policy):
            table, more = stochastic_choices(one, events, columns)
            policies.append(Judged(table, "as it is", "it is a table of probabilities"))
        elif early is None:
            table, more = choices_of(one, events)
            policies.append(judged(one, events, tallies, table, origin))
        else:
            again = learned_again(one, early, _tallies(early, min_propensity))
            table, more = choices_of(again, events)
            reason = f"from the first {len(early):,} events and evaluated on the rest"
            policies.append(Judged(table, "holdout", reason))
        notes += more
    on_step("evaluating")
    cells = events.contexts.astype(np.int64) * events.n_actions + events.actions

    def honest_but(share: float) -> Honest:
        rng = generator(0, "evaluate")
        return Honest.of(events.users, cells, events.rewards, found.weights, share=share, rng=rng)

    honest = honest_but(share)
    plain = Comparisons.of(events, inverse, policies, np.ones(events.n_users))
    robust = Comparisons.of(events, inverse, policies, found.weights)
    estimates = tuple(
        one
        for estimator in ESTIMATORS
        for one in (plain.for_all(estimator), robust.for_honest(estimator, honest))
    )
    table, ratios = policies[0].table, robust.as_is.policy.ratios
    unsupported = float(1.0 - (table * (counts > 0)).sum(axis=1)[events.contexts].mean())
    size = effective_sample_size(ratios)
    return Evaluation(
        source=name,
        n_events=len(events),
        n_users=int((tallies.interactions > 0).sum()),
        baseline=baseline_name,
        logged=robust.as_is.logged(),
        fitting=policies[0].fitting,
        reason=policies[0].reason,
        share=share,
        is_assumed=stated == "auto",
        holds_to=_holds_to(robust, honest_but, estimates[-1]),
        estimates=estimates,
        contexts=_by_context(events, table, plain, robust, honest),
        effective_sample_size=size,
        matched=int((ratios > 0.0).sum()),
        unsupported=unsupported,
        weight_kept=float(found.weights.mean()),
        n_coalitions=sum(group.is_flagged for group in found.groups),
        warnings=_warnings(size, unsupported, ratios, estimates, policies[0]),
        notes=notes,
    )


def _tallies(events: Events, min_propensity: float) -> Tallies:
    return tally_events(events, min_propensity=min_propensity).in_blocks(len(events)).uniform()


def _holds_to(
    robust: Comparisons, honest_but: Callable[[float], Honest], found: EvaluatedBy
) -> float | None:
    """Return the largest share of colluders with which the uplift keeps its sign."""
    if found.sampling.low <= 0.0 <= found.sampling.high:
        return None
    low, high = 0.0, LARGEST_SHARE
    for _ in range(7):
        middle = (low + high) / 2.0
        uplift = robust.for_honest("dr", honest_but(middle)).uplift
        if uplift.low <= 0.0 <= uplift.high:
            high = middle
        else:
            low = middle
    return low


def _by_context(
    events: Events, table: FloatArray, plain: Comparisons, robust: Comparisons, honest: Honest
) -> tuple[ContextValue, ...]:
    """Return the value in the most frequent contexts, by DR."""
    visits = np.bincount(events.contexts, minlength=events.n_contexts)
    rows = []
    for s in np.argsort(-visits, kind="stable")[:MOST_CONTEXTS].tolist():
        if not visits[s] or not table[s].any():
            continue
        here = events.contexts == s
        action = int(table[s].argmax())
        of_honest = robust.for_honest("dr", honest, here)
        rows.append(
            ContextValue(
                context=events.context_labels[s],
                share=float(visits[s] / len(events)),
                action=events.action_labels[action],
                plays=int((events.actions[here] == action).sum()),
                logged=robust.as_is.logged(here),
                naive=plain.for_all("dr", here).value,
                robust=of_honest.value,
                robust_uplift=of_honest.uplift,
            )
        )
    return tuple(rows)


def _warnings(
    size: float,
    unsupported: float,
    ratios: FloatArray,
    estimates: tuple[EvaluatedBy, ...],
    policy: Judged,
) -> tuple[str, ...]:
    found = []
    by_robust = {one.robust: one for one in estimates if one.estimator == "dr"}
    uplift, chance = by_robust[True].uplift, by_robust[True].sampling
    if size < FEW * len(ratios) and chance.low <= 0.0 <= chance.high:
        found.append(
            f"chance alone could explain the uplift: the effective sample is {size:,.0f} of "
            f"{len(ratios):,} events. Log more plays of the policy's actions."
        )
    if unsupported > 1e-9:
        found.append(
            f"{unsupported:.1%} of what the policy plays was never played in its context; IPS and "
            "SNIPS leave it out, and DR takes the context's mean."
        )
    if float(ratios.max()) > FEW * float(ratios.sum()) > 0.0:
        found.append(
            "a single event has more than 5% of all importance weight; estimates hang on it."
        )
    if policy.is_doubtful:
        found.append(
            "if the policy was chosen for its rewards in this log, the estimates are too high; "
            "evaluate it on a log of other days."
        )
    if uplift.estimate * by_robust[False].uplift.estimate < 0.0:
        found.append(
            "for honest users the policy is "
            + ("better" if uplift.estimate > 0.0 else "worse")
            + " than the baseline, although the plain estimates say the opposite."
        )
    return tuple(found)
