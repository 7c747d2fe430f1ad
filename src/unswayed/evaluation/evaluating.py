"""Estimate the value of a policy for honest users from a log.

A policy is overestimated on the log that it was learned from (the winner's curse). If it came from
the log that it is evaluated on, or if its origin is unknown, it is cross-fitted: learned again with
the same method and the reward model on one half of the users, and evaluated on the other half, and
vice versa. Results are averaged over several splits. With one split, or with more and smaller
folds, errors of the folds are correlated and intervals too narrow.

A policy that is learned from half of the users is slightly worse than one learned from all, and the
estimate without cross-fitting is biased upwards. So the lower end of an interval comes from
cross-fitting, and the upper end from the estimate without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.defaults import ASSUMED_SHARE
from unswayed.errors import InputError, option
from unswayed.evaluation.estimators import (
    FEW_DRAWS,
    Estimate,
    Honest,
    Terms,
    Z,
    cell_means,
    mean_of,
)
from unswayed.evaluation.results import LOGGING, ContextValue, EvaluatedBy, Evaluation, Fitting
from unswayed.events import UNKNOWN, Columns, Events, Label, read_events
from unswayed.events.known import read_known
from unswayed.events.sources import Source
from unswayed.learners.bounded.method import Reviewed, find_coalitions
from unswayed.learners.design import design_of_log
from unswayed.learners.explaining import notes_on_bad_rows
from unswayed.learners.features.shape import in_leaves_of
from unswayed.learners.from_log import Listener
from unswayed.learners.learning import check_precision, learn_policy
from unswayed.learners.methods import method_names
from unswayed.learners.unknown_fraction import (
    SEARCHED_FRACTION,
    Auto,
    check_fraction_or_auto,
    fraction_of,
)
from unswayed.policy import Origin, Policy
from unswayed.policy.partition import Partition
from unswayed.randomness import generator
from unswayed.tallies import MIN_PROPENSITY, Tallies, tally_events
from unswayed.tallies.log_summary import summarise

STEPS = ("reading", "looking for a coalition", "fitting", "evaluating")
"""The steps of an evaluation, in order."""


FEW = 0.05
"""Ours: warnings are given if one event has more than this share of the importance weight, or if
the effective share of the events is below it and chance could explain the uplift."""

MOST_CONTEXTS = 20
"""Ours: maximum number of contexts in the breakdown."""

LARGEST_SHARE = 0.49
"""Largest share of colluders that is considered."""

PROBABILITY = "probability"
"""Column of a table of a stochastic policy, beside those of the context and the action."""

OTHER_LOG = "it was learned from another log"
"""Reason why a policy is evaluated without cross-fitting."""

KEPT_LEAVES = (
    "the policy was learned again with the leaves it has, which may have been learned from these "
    "very users; if so, its value is a little too high. A log of other days has no such bias."
)
"""A note on policies with a partition."""

FEWEST_USERS, SPLITS = 4, 3
"""Minimum number of users for cross-fitting, and number of random splits into halves (ours)."""


class Judged(NamedTuple):
    """A policy evaluated on the events of a log."""

    table: FloatArray  # shape (n_contexts, n_actions), probabilities of actions
    fitting: Fitting
    reason: str
    # If cross-fitted: for each split, the tables of the policies that are evaluated on its halves.
    halves: tuple[tuple[FloatArray, FloatArray], ...] = ()


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
    on_bad_rows: str = "error",
    min_propensity: float = MIN_PROPENSITY,
    on_step: Listener = lambda _: None,
    **names: Any,
) -> Evaluation:
    """Estimate a policy's value and uplift for honest users from a log of another policy.

    Parameters
    ----------
    source, columns, query, on_bad_rows
        As ``read_events`` takes them; or events.
    policy
        The policy, or a table or file of a stochastic policy with the log's context and action
        columns and a column ``probability``. A policy that was learned from features needs these
        columns in the log; its contexts are the leaves.
    baseline
        What the policy is compared with, in the same forms; None for what was logged.
    baseline_name
        Name of the baseline in the result.
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
    names
        Fields of ``Columns``, such as ``user="account_id"``, as ``learn_log`` takes them.

    Notes
    -----
    A policy that was learned from this log, or may have been, is cross-fitted.

    Guarantee: asymptotically, intervals for honest users have a coverage of 95 % if at most
    ``share`` of the accounts collude and the learner's odds of membership are right up to a
    constant factor; see ``estimators``.
    """
    stated = check_fraction_or_auto(alpha)
    if names:
        others = ("alpha", "baseline", "holdout", "known", "columns")
        columns = (columns or Columns()).renamed(names, others=others)
    on_step("reading")
    notes: tuple[str, ...] = ()
    ends: tuple[str | None, str | None] = (None, None)
    if isinstance(source, Events):
        events, name, times, columns = source, "the log", source.times, columns or Columns()
    else:
        partition = _partition_of(policy, baseline)
        if partition is not None:
            columns = replace(columns or Columns(), features=partition.names)
        elif columns is not None and columns.bins and isinstance(policy, Policy):
            # The edges of the policy's partition, as one learned on this log would have other
            # leaves.
            edges = policy.context_columns[1]
            columns = replace(columns, bins={**columns.bins, **edges})
        reading = read_events(
            source,
            columns=columns,
            query=query,
            on_bad_rows=on_bad_rows,
            with_times=holdout is not None,
        )
        events, times, read = reading.events, reading.times, reading.provenance
        name, columns, ends = read.source, read.columns, (read.first_time, read.last_time)
        notes = notes_on_bad_rows(read)
        if partition is not None:
            events = in_leaves_of(partition, events, reading.attributes)
    if not len(events):
        raise InputError("there are no events to evaluate a policy on; give at least one.")
    early = None
    if holdout is not None:
        early, events = _early_and_late(events, times, holdout)
    tallies = _tallies(events, min_propensity)
    check_precision(tallies)
    inverse, more = _inverse_propensities(events, tallies, min_propensity)
    notes += more
    on_step("looking for a coalition")
    reviewed = None if known is None else Reviewed.of(read_known(known), events.user_labels)
    found = find_coalitions(
        tallies, alpha=SEARCHED_FRACTION if stated == "auto" else stated, reviewed=reviewed
    )
    if stated == "auto":
        fraction = fraction_of(found, tallies.n_actions).chosen
        share = max(fraction, ASSUMED_SHARE)
        if fraction > SEARCHED_FRACTION:
            found = find_coalitions(tallies, alpha=fraction, reviewed=reviewed)
    else:
        share = stated
    on_step("fitting")
    counts = tallies.cell_sums("plays").astype(np.int64)
    labels = events.context_labels, events.action_labels
    origin = Origin.of(*labels, counts, events.user_labels, ends)
    policies = []
    for one in (policy,) if baseline is None else (policy, baseline):
        if not isinstance(one, Policy):
            table, more = _stochastic_choices(one, events, columns)
            policies.append(Judged(table, "as it is", "it is a table of probabilities"))
        elif early is None:
            table, more = _choices_of(one, events)
            policies.append(_judged(one, events, tallies, table, origin))
        else:
            again = _learned_again(one, _tallies(early, min_propensity))
            table, more = _choices_of(again, events)
            reason = f"from the first {len(early):,} events and evaluated on the rest"
            policies.append(Judged(table, "holdout", reason))
        notes += more
        if isinstance(one, Policy) and one.partition and policies[-1].fitting != "as it is":
            notes += (KEPT_LEAVES,)
    on_step("evaluating")
    honest = Honest.of(events, found.weights).hiding(share)
    plain = Comparison.of(events, inverse, policies, np.ones(events.n_users))
    robust = Comparison.of(events, inverse, policies, found.weights)
    estimates = (plain.estimates(), robust.estimates(honest))
    table, ratios = policies[0].table, robust.terms[0][0].factors
    if not ratios.any():
        raise InputError(
            "no event of the log has the action that the policy plays in its context, so nothing "
            "can be said about the policy; check that both have the same contexts and actions."
        )
    unsupported = float(1.0 - (table * (counts > 0)).sum(axis=1)[events.contexts].mean())
    size = float(ratios.sum() ** 2 / (ratios**2).sum())  # effective sample
    return Evaluation(
        source=name,
        n_events=len(events),
        n_users=int((tallies.interactions > 0).sum()),
        baseline=baseline_name,
        logged=mean_of(events.users, events.rewards, found.weights),
        fitting=policies[0].fitting,
        reason=policies[0].reason,
        share=share,
        is_assumed=stated == "auto",
        holds_to=_holds_to(robust, honest, estimates[-1]),
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


class Comparison(NamedTuple):
    """A policy and its baseline on the events of a log, with one model of rewards."""

    # Value and uplift: without cross-fitting, and for each split.
    terms: tuple[tuple[Terms, Terms], ...]
    weights: FloatArray  # shape (n_users,), weights of accounts
    is_rival_fitted: bool  # whether the baseline was cross-fitted, too

    @classmethod
    def of(
        cls,
        events: Events,
        inverse: FloatArray,
        policies: Sequence[Judged],
        weights: FloatArray,
    ) -> Comparison:
        """Compare a policy with a baseline, or with the logging policy if only one policy is given.

        ``inverse`` are inverse propensities of the events.
        """
        users, s, a = events.users, events.contexts, events.actions
        found = []
        for split in (None, *range(max(len(one.halves) for one in policies))):
            half_of, masks = np.zeros(events.n_users, np.int64), [np.ones(events.n_users)]
            if split is not None:
                half_of = _halves_of(events.n_users, split)
                masks = [(half_of != half).astype(np.float64) for half in (0, 1)]
            model = np.stack([cell_means(events, weights * mask) for mask in masks])
            halves = half_of[users]
            fitted = model[halves, s, a]
            residuals, pair = events.rewards - fitted, []
            for one in policies:
                is_crossed = split is not None and one.halves
                table = np.stack(one.halves[split] if is_crossed else [one.table] * len(masks))
                beside = 1.0 - table.sum(axis=2, keepdims=True)  # actions missing from the log
                expected = (np.append(table, beside, 2) * model).sum(axis=2)[halves, s]
                pair.append(Terms(users, expected, table[halves, s, a] * inverse, residuals))
            logged = Terms(users, fitted, np.ones(len(events)), residuals)
            found.append((pair[0], pair[0].minus(pair[1] if len(pair) > 1 else logged)))
        return cls(tuple(found), weights, any(one.halves for one in policies[1:]))

    def rows(self, selected: BoolArray) -> Comparison:
        """Return the comparison on a subset of the events, with the same model."""
        some = tuple((value.rows(selected), uplift.rows(selected)) for value, uplift in self.terms)
        return self._replace(terms=some)

    def estimates(self, honest: Honest | None = None) -> EvaluatedBy:
        """Return the value and the uplift, and the uplift with an interval for chance only.

        With ``honest``, the first two are for honest users, and their intervals allow for
        undetected lies; otherwise they are for all users.
        """
        value, uplift = zip(*self.terms, strict=True)
        return EvaluatedBy(
            honest is not None,
            self._pooled(value, honest),
            self._pooled(uplift, honest, is_uplift=True),
            self._pooled(uplift, is_uplift=True),
        )

    def uplift(self, honest: Honest) -> Estimate:
        """Return the uplift for honest users."""
        return self._pooled([uplift for _, uplift in self.terms], honest, is_uplift=True)

    def _pooled(
        self, splits: Sequence[Terms], honest: Honest | None = None, *, is_uplift: bool = False
    ) -> Estimate:
        """Return the mean over splits; its upper end is at least that of the unsplit estimate."""
        own, *crossed = (self._estimate(terms, honest, is_uplift=is_uplift) for terms in splits)
        if not crossed:
            return own
        estimate, low, high, error = np.mean(crossed, axis=0).tolist()
        if is_uplift and self.is_rival_fitted:  # a fitted baseline adds bias
            low = min(low, own.low)
        return Estimate(estimate, low, max(high, own.high), error)

    def _estimate(self, terms: Terms, honest: Honest | None, *, is_uplift: bool) -> Estimate:
        """Return an estimate with an interval that allows for undetected lies.

        The estimate is the mean prediction of the model plus a mean weighted residual. The effect
        of lies on the residuals is bounded; predictions have a sampling error only.
        """
        found = mean_of(terms.users, terms.values, self.weights)
        if honest is None or honest.share == 0.0:
            return found
        low, high = honest.bounds(terms.factors, terms.residuals)
        own = self.weights[terms.users]
        mean = float(own @ (terms.factors * terms.residuals)) / max(float(own.sum()), 1e-300)
        chance = Z * mean_of(terms.users, terms.expected, self.weights).error
        low = min(found.low, found.estimate - float(np.hypot(max(mean - low, 0.0), chance)))
        high = max(found.high, found.estimate + float(np.hypot(max(high - mean, 0.0), chance)))
        least, most = honest.range
        if is_uplift:  # it is at most the range of rewards
            least, most = least - most, most - least
        low, high = max(low, min(least, found.low)), min(high, max(most, found.high))
        return found._replace(low=low, high=high)


def _partition_of(policy: Policy | Source, baseline: Policy | Source | None) -> Partition | None:
    """Return the partition of the policy; raise if the baseline has another one."""
    policies = (policy,) if baseline is None else (policy, baseline)
    found = [one.partition if isinstance(one, Policy) else None for one in policies]
    if len({one and one.hash for one in found}) > 1:
        raise InputError(
            "the policy and its baseline have different contexts: at least one was learned from "
            "features, and not with the other's leaves. Evaluate each by itself."
        )
    return found[0]


def _choices_of(policy: Policy, events: Events) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the probabilities of actions, and notes; 0 for actions that the log does not have.

    The probabilities have shape (n_contexts, n_actions), in codes of the log.
    """
    _check_contexts(policy.context_labels.type_name, events)
    actions, is_known = policy.decide_many(events.context_labels)
    notes = []
    missing = float((~is_known)[events.contexts].mean())
    if missing > 0.0:
        notes.append(
            f"{missing:.1%} of the visits are to contexts that the policy does not know; it plays "
            "its default action there."
        )
    found, more = _coded(events, list(events.context_labels), actions, np.ones(len(actions)))
    return found, (*notes, *more)


def _stochastic_choices(
    table: Source, events: Events, columns: Columns
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the probabilities and notes, read from a table with a row per context and action."""
    action = columns.action
    named = Columns(user=action, context=columns.context, action=action, reward=PROBABILITY)
    try:
        rows = read_events(table, columns=named).events
    except InputError as error:
        lacks = str(error).partition("; it has")[0].removesuffix(" for the reward")
        raise InputError(
            "the policy is neither a policy file nor a table of contexts, actions and the "
            f"{PROBABILITY} of each: {lacks}."
        ) from error
    _check_contexts(rows.context_labels.type_name, events)
    totals = np.bincount(rows.contexts, rows.rewards, rows.n_contexts)
    is_wrong = np.abs(totals - 1.0) > 1e-6
    is_wrong[rows.contexts[rows.rewards < 0.0]] = True
    if is_wrong.any():
        first = int(is_wrong.argmax())
        raise InputError(
            f"the probabilities of context {rows.context_labels[first]!r} add up to "
            f"{totals[first]:.6g}, or one is negative; they must be at least 0 and add up to 1."
        )
    for context in events.context_labels:
        if context not in rows.context_labels:
            raise InputError(
                f"the policy's table has no row for context {context!r}, which the log has; add "
                "its actions with their probabilities."
            )
    contexts = [rows.context_labels[s] for s in rows.contexts.tolist()]
    actions = [rows.action_labels[a] for a in rows.actions.tolist()]
    return _coded(events, contexts, actions, rows.rewards)


def _check_contexts(type_name: str, events: Events) -> None:
    if type_name != events.context_labels.type_name:
        raise InputError(
            f"the policy's contexts are of type {type_name} and the log's of type "
            f"{events.context_labels.type_name}, so no context of the log is known; name the right "
            f"column with {option('--context-column')}."
        )


def _coded(
    events: Events, contexts: list[Label], actions: list[Label], probabilities: FloatArray
) -> tuple[FloatArray, tuple[str, ...]]:
    rows, columns = events.context_labels.codes(contexts), events.action_labels.codes(actions)
    absent = [actions[k] for k in np.flatnonzero((columns == UNKNOWN) & (probabilities > 0.0))[:1]]
    is_here = (rows != UNKNOWN) & (columns != UNKNOWN)
    found = np.zeros((events.n_contexts, events.n_actions))
    np.add.at(found, (rows[is_here], columns[is_here]), probabilities[is_here])
    return found, tuple(f"the policy plays {x!r}, which the log does not have." for x in absent)


def _inverse_propensities(
    events: Events, tallies: Tallies, min_propensity: float
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return inverse propensities: as logged, uniform, or estimated from action frequencies."""
    if events.propensities is not None:
        clipped = float((events.propensities < min_propensity).mean())
        note = (
            f"{clipped:.2%} of the propensities are below {min_propensity:g} and count as that.",
        )
        return 1.0 / np.maximum(events.propensities, min_propensity), note if clipped else ()
    if summarise(tallies, alpha=0.0).looks_uniform:
        return np.full(len(events), float(events.n_actions)), ()
    plays = tallies.cell_sums("plays")
    shares = plays / np.maximum(plays.sum(axis=1, keepdims=True), 1.0)
    own = np.maximum(shares[events.contexts, events.actions], min_propensity)
    return 1.0 / own, (
        "the log has no propensities and actions were not played evenly; propensities are "
        "estimated by how often each was played in its context, which is wrong if users chose.",
    )


def _judged(
    policy: Policy, events: Events, tallies: Tallies, table: FloatArray, origin: Origin
) -> Judged:
    """Return the choices to evaluate: cross-fitted, unless the policy came from another log."""
    recorded = Origin.from_json(policy.source.get("origin"))
    relation = "unknown" if recorded is None else recorded.relation(origin)
    if relation == "other":
        return Judged(table, "as it is", OTHER_LOG)
    why = {
        "same": "it was learned from this log",
        "overlapping": "it was learned from a log with accounts and times of this one",
        "unknown": "it may have been learned from this log",
    }[relation]
    if policy.method not in method_names() or events.n_users < FEWEST_USERS:
        return Judged(table, "as it is", f"{why}, but cannot be learned again")
    halves = []
    for split in range(SPLITS):
        half_of = _halves_of(events.n_users, split)
        others = (tallies.of_users(np.flatnonzero(half_of != half)) for half in (0, 1))
        first, second = (_choices_of(_learned_again(policy, one), events)[0] for one in others)
        halves.append((first, second))
    return Judged(table, "cross-fitted", why, tuple(halves))


def _learned_again(policy: Policy, tallies: Tallies) -> Policy:
    """Learn a policy from other tallies, with the policy's method and alpha."""
    design = design_of_log(tallies, "auto")
    return learn_policy(tallies, design, alpha=policy.alpha, method=policy.method).policy


def _halves_of(n_users: int, split: int) -> IntArray:
    """Return the half, 0 or 1, to which each user belongs in a split."""
    return np.asarray(generator(0, "halves", split).permutation(n_users) % 2)


def _early_and_late(
    events: Events, times: FloatArray | None, share: float
) -> tuple[Events, Events]:
    """Split a log by time; the last ``share`` of its events are held out."""
    flag = option("--holdout")
    if not 0.0 < share < 1.0:
        raise InputError(f"{flag} is {share:g}: it is a share of the events, above 0 and below 1.")
    if times is None or np.isnan(times).all():
        raise InputError(
            f"{flag} splits by time, and the log has no times; see {option('--time-column')}."
        )
    if np.isnan(times).any():
        row = int(np.isnan(times).argmax()) + 1
        raise InputError(f"{flag} needs the time of every event, and event {row:,} has none.")
    is_late = times > np.quantile(times, 1.0 - share, method="lower")
    if not is_late.any() or is_late.all():
        raise InputError(f"{flag} is {share:g}: all events would be on one side; choose another.")
    return events.rows(~is_late), events.rows(is_late)


def _tallies(events: Events, min_propensity: float) -> Tallies:
    return tally_events(events, min_propensity=min_propensity).in_blocks(len(events)).uniform()


def _holds_to(robust: Comparison, honest: Honest, found: EvaluatedBy) -> float | None:
    """Return the largest share of colluders for which the uplift keeps its sign."""
    if found.sampling.low <= 0.0 <= found.sampling.high:
        return None
    is_open = found.uplift.low <= 0.0 <= found.uplift.high
    share = honest.share
    low, high = (0.0, share) if is_open else (share, max(share, LARGEST_SHARE))
    for _ in range(7):
        middle = (low + high) / 2.0
        uplift = robust.uplift(honest.hiding(middle, draws=FEW_DRAWS))
        if uplift.low <= 0.0 <= uplift.high:
            high = middle
        else:
            low = middle
    return low


def _by_context(
    events: Events, table: FloatArray, plain: Comparison, robust: Comparison, honest: Honest
) -> tuple[ContextValue, ...]:
    """Return the policy's value in each of the most frequent contexts."""
    visits = np.bincount(events.contexts, minlength=events.n_contexts)
    rows = []
    for s in np.argsort(-visits, kind="stable")[:MOST_CONTEXTS].tolist():
        if not visits[s] or not table[s].any():
            continue
        here = events.contexts == s
        action, some = int(table[s].argmax()), events.rows(here)
        of_honest = robust.rows(here).estimates(honest.rows(here))
        rows.append(
            ContextValue(
                context=events.context_labels[s],
                share=float(visits[s] / len(events)),
                action=events.action_labels[action],
                plays=int((some.actions == action).sum()),
                logged=mean_of(some.users, some.rewards, robust.weights),
                naive=plain.rows(here).estimates().value,
                robust=of_honest.value,
                uplift=of_honest.uplift,
            )
        )
    return tuple(rows)


def _warnings(
    size: float,
    unsupported: float,
    ratios: FloatArray,
    estimates: tuple[EvaluatedBy, EvaluatedBy],
    policy: Judged,
) -> tuple[str, ...]:
    naive, robust = estimates
    uplift, chance = robust.uplift, robust.sampling
    better = "better" if uplift.estimate > 0.0 else "worse"
    found = {
        f"chance alone could explain the uplift: the effective sample is {size:,.0f} of "
        f"{len(ratios):,} events. Log more plays of the policy's actions.": (
            size < FEW * len(ratios) and chance.low <= 0.0 <= chance.high
        ),
        f"{unsupported:.1%} of what the policy plays was never played in its context; its mean "
        "reward is taken to be the context's.": unsupported > 1e-9,
        "a single event has more than 5% of all importance weight; estimates hang on it.": (
            float(ratios.max()) > FEW * float(ratios.sum())
        ),
        "if the policy was chosen for its rewards in this log, the estimates are too high; "
        "evaluate it on a log of other days.": (
            policy.fitting == "as it is" and policy.reason != OTHER_LOG
        ),
        f"for honest users the policy is {better} than the baseline, although the plain estimates "
        "say the opposite.": uplift.estimate * naive.uplift.estimate < 0.0,
    }
    return tuple(warning for warning, is_so in found.items() if is_so)
