"""The default learner: bounded means, one model of a coalition, decisions by regret.

1. Read the rewards and bound every account's influence on the means (``rewards``, ``means``).
2. Model honest accounts by levels and tastes (``honest``).
3. Search for a coalition that explains the log better than any honest model (``coalition``).
4. Flag it if the evidence is clear, and decisions depend on it or the evidence per member is large.
   Remove its accounts, and search again.
5. Groups with less evidence are suspected. In each context, choose the action with the smallest
   worst-case regret over the cases that suspects are honest and that they lied.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import check_adversarial_fraction
from unswayed.events import Labels
from unswayed.events.known import KnownAccounts
from unswayed.learners.bounded.coalition import (
    Coalition,
    Search,
    log_odds,
    members_of,
)
from unswayed.learners.bounded.honest import (
    LEAST_CORRELATION,
    Accounts,
    Law,
    intraclass_correlation,
)
from unswayed.learners.bounded.means import (
    CellMeans,
    cell_means,
    find_caps,
    most_plays,
    shrunken,
    weighed,
)
from unswayed.learners.bounded.rewards import (
    SAMPLE_ENTRIES,
    Reading,
    category_counts,
    read,
    read_rewards,
    rows_of,
    sampled_codes,
)
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import (
    FAILURE_PROBABILITY,
    allowed_actions,
    frequent_contexts,
    guard_intervals,
)
from unswayed.policy import best_known
from unswayed.randomness import generator
from unswayed.tallies import Tallies, UserTallies

SEARCH_ENTRIES = 60_000
"""In logs with more than ``SAMPLE_ENTRIES``, a sample with about this many entries is searched."""

CLEAR = 50.0
"""Evidence that is required to flag a group, in nats."""

HALVED = 0.5
"""A decision depends on a group if removing the group reduces its lead to less than this
fraction."""

QUIET, LOUD = 0.1, 2.0
"""Evidence per member, in nats, that is required to flag a group on which a decision depends, and
any other group. If the model of tastes is wrong, evidence grows with the number of accounts."""

SUSPECTED = 0.35
"""Fraction of ``CLEAR`` that is required to suspect a group."""

MORE, LARGEST_SHARE = 0.1, 0.49
"""Members are at most ``MORE`` above the assumed share, and at most ``LARGEST_SHARE``."""

MARGIN = 1.25
"""The true share of colluders may exceed the assumed or estimated one by this factor."""

MOST_ROUNDS = 8
"""Largest number of rounds; each sets one group aside."""

SETTLED = 0.05
"""Level of the sign test of reviewed members: five of five equal reviews suffice, four do not."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Accounts that act together.

    Attributes
    ----------
    members
        Shape (n_users,); probability of membership.
    is_flagged
        Whether the evidence is clear; otherwise the group is suspected.
    evidence
        Log-likelihood gain over the best model of honest accounts, in nats.
    strength
        The evidence as a fraction of what is required to flag the group.
    shift
        Shape (n_contexts, n_actions); the group's effect on the means; NaN where unknown.
    """

    members: FloatArray
    is_flagged: bool
    evidence: float
    strength: float
    shift: FloatArray

    def to_json(self, means: FloatArray) -> dict[str, Any]:
        """Return the size, the evidence and the most affected cells as plain JSON values.

        ``turned`` is the number of contexts in which the group changes the best action. ``means``
        exclude the group if it was flagged, and include it otherwise.
        """
        shift = np.nan_to_num(self.shift)
        other = means + self.shift if self.is_flagged else means - self.shift
        # If all actions but one are lowered, that one is reported as raised.
        usual = np.median(shift, axis=1, keepdims=True) if shift.shape[1] > 2 else 0.0
        up, down = np.maximum(shift - usual, 0.0), np.maximum(usual - shift, 0.0)
        raises = bool(up.sum(axis=0).max() >= down.sum(axis=0).max())
        moved = up if raises else down
        total = moved.sum(axis=0)
        if total.max() > 0.5 * total.sum():
            actions = np.full(len(moved), int(total.argmax()))
        else:
            actions = moved.argmax(axis=1)
        contexts = np.flatnonzero(moved[np.arange(len(moved)), actions] > 0.0)
        return {
            "cells": (contexts * shift.shape[1] + actions[contexts]).tolist(),
            "raises": raises,
            "accounts": float(self.members.sum()),
            "status": "flagged" if self.is_flagged else "suspected",
            "nats": round(self.evidence, 1),
            "turned": int((best_known(other) != best_known(means)).sum()),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The fitted model, from which the evidence against any account can be computed.

    Attributes
    ----------
    reading, correlation
        Categories and ranges of rewards, and the intraclass correlation of plays.
    coalitions
        All coalitions that were found, each with the distributions of rewards at that time.
    """

    reading: Reading
    correlation: float
    coalitions: list[tuple[Law, Coalition]]

    def evidence(self, tallies: Tallies) -> FloatArray:
        """Return each account's largest log-odds of membership in a coalition, at least 0."""
        found = np.zeros(tallies.n_users)
        for law, coalition in self.coalitions:
            rows = weighed(read(tallies, self.reading), self.correlation)
            odds = log_odds(rows, np.ones(tallies.n_users), coalition, law)
            found = np.maximum(found, odds)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Bounded means, the groups that were found, and the fitted model.

    ``stories`` has the strength of each suspected group, and the shrunken means if it lied.
    """

    weights: FloatArray
    groups: list[Group]
    cells: CellMeans
    means: FloatArray
    stories: list[tuple[float, FloatArray]]
    model: Model
    bounded: float


def learn_bounded(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    warmup: Tallies | None = None,  # noqa: ARG001 - every method takes it
    seed: int = 0,
    reviewed: Reviewed | None = None,
) -> Estimates:
    """Estimate the good users' mean rewards from bounded means without flagged coalitions.

    Parameters
    ----------
    tallies
        Users' interactions, from any design of exploration.
    design
        How the actions were chosen; used by the guard only.
    alpha
        Share of accounts that may collude, below 1/2. Too large is safer than too small.
    warmup
        Not used.
    seed
        Seed of the random samples; the same data and seed give the same estimates.
    reviewed
        Accounts whose status is known. Fake accounts do not count, and honest ones are never
        flagged. A group is cleared or flagged if a sign test shows that most are honest or fake.

    Notes
    -----
    Guarantee: before any account is flagged, k accounts have at most the share 3k/n of the weight
    of a cell with n visitors, whatever they do. If the caps do not change, they move its mean by at
    most this share of the range to which rewards are clipped. An action that the intervals of
    ``learn_paper`` rule out is never chosen. The proofs are in docs/guarantee.md.

    Deviations from the paper: everything except the guard.
    """
    alpha = check_adversarial_fraction(alpha)
    # Idle BLAS threads would spin on a core that the kernels could use.
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(1) as beside:
        guarding = beside.submit(guard_intervals, tallies, design, alpha=alpha)
        found = find_coalitions(tallies, alpha=alpha, seed=seed, reviewed=reviewed)
        guard = guarding.result()
    means, cells = found.means, found.cells
    is_known = ~np.isnan(means)
    is_allowed = allowed_actions(guard)
    # Nothing is excluded where no allowed action has a known mean.
    is_excluded = ~is_allowed & (is_allowed & is_known).any(axis=1, keepdims=True)
    plain = best_known(means)
    decisions = smallest_regret(means, found.stories, is_excluded)
    is_undecided = np.zeros(len(means), np.bool_)
    for _, story in found.stories:
        is_undecided |= best_known(story) != plain
    any_flagged = any(group.is_flagged for group in found.groups)
    decided_by = np.full(len(means), "without coalition" if any_flagged else "bounded mean", "<U24")
    decided_by[decisions != best_known(means, is_excluded)] = "regret"
    decided_by[best_known(means, is_excluded) != plain] = "guard"
    z = float(special.ndtri(1.0 - FAILURE_PROBABILITY / 2.0))
    errors = np.where(is_known, z * np.sqrt(cells.variances), np.nan)
    low, high = np.fmin(guard.low, means), np.fmax(guard.high, means)
    half = np.maximum(high - means, means - low)
    mass = cells.masses.sum(axis=1)
    probabilities = mass / mass.sum()
    return Estimates(
        mean_rewards=means,
        sampling_errors=errors,
        bias_bounds=np.maximum(half - errors, 0.0),
        context_probabilities=probabilities,
        frequent_contexts=frequent_contexts(
            probabilities, n_actions=tallies.n_actions, is_sticky=design.is_sticky
        ),
        user_weights=found.weights,
        decided_by=decided_by,
        evidence={
            "removed": float(1.0 - found.weights.mean()),
            "coalitions": sum(group.is_flagged for group in found.groups),
            "undecided": np.flatnonzero(is_undecided).tolist(),
            "bounded": found.bounded,
            "cut": found.model.reading.clipped,
            "lies": [group.to_json(means) for group in found.groups],
        },
        low=low,
        high=high,
        is_excluded=is_excluded,
        decisions=decisions,
        model=found.model,
    )


def smallest_regret(
    means: FloatArray, stories: list[tuple[float, FloatArray]], is_excluded: BoolArray
) -> IntArray:
    """Return the action of each context with the smallest worst-case regret over the stories.

    Parameters
    ----------
    means
        Shape (n_contexts, n_actions); means if all accounts that count are honest.
    stories
        For each suspected group, its evidence as a fraction of what is required to flag it, and the
        means if it lied. Regrets are multiplied by the square root of this fraction.
    is_excluded
        Shape (n_contexts, n_actions); actions that may not be chosen.

    >>> means = np.array([[0.48, 0.52]])
    >>> smallest_regret(means, [(0.3, np.array([[0.6, 0.4]]))], np.zeros((1, 2), bool)).tolist()
    [0]
    """
    known = np.where(is_excluded, np.nan, means)
    worst = _regrets(known)
    for evidence, story in stories:
        regrets = _regrets(np.where(is_excluded, np.nan, story))
        worst = np.fmax(worst, np.sqrt(min(evidence, 1.0)) * regrets)
    return best_known(-worst, is_excluded)


def _regrets(means: FloatArray) -> FloatArray:
    best = np.where(np.isnan(means), -np.inf, means).max(axis=1, keepdims=True)
    return np.asarray(best - means)


def find_coalitions(
    tallies: UserTallies, *, alpha: float, seed: int = 0, reviewed: Reviewed | None = None
) -> Findings:
    """Find coalitions one after the other, and compute bounded means without flagged ones."""
    rng = generator(seed, "bounded")
    reviewed = reviewed or Reviewed.nobody(tallies.n_users)
    reading = read_rewards(tallies, rng)
    is_whole = int(tallies.cell_users().sum()) <= SAMPLE_ENTRIES
    chosen = sampled_codes(tallies, rng, SAMPLE_ENTRIES if is_whole else SEARCH_ENTRIES)
    searched, weights = np.ones(tallies.n_users), np.where(reviewed.is_fake, 0.0, 1.0)
    blocks = tallies.blocks.transformed(read, reading)
    shape = (tallies.n_cells, reading.n_categories)
    sample = weighed(rows_of(blocks, chosen), LEAST_CORRELATION)
    law = Law.of_counts(category_counts(sample, weights[chosen], shape))
    rho = intraclass_correlation(sample, law, MARGIN * alpha)
    sample = weighed(sample, rho)
    bounded = blocks.transformed(weighed, rho, most_plays(sample))
    blocks = blocks.transformed(weighed, rho)
    caps = find_caps(bounded, tallies.n_cells).reshape(tallies.n_contexts, tallies.n_actions)

    def means_of(weights: FloatArray) -> CellMeans:
        return cell_means(bounded, weights, caps, rho)

    groups: list[Group] = []
    coalitions: list[tuple[Law, Coalition]] = []
    while True:
        cells = means_of(weights)
        means, parts = shrunken(cells.means, cells)
        expected = min(alpha + MORE, LARGEST_SHARE) - float(1.0 - searched.mean())
        if alpha == 0.0 or len(groups) == MOST_ROUNDS or expected <= 0.0:
            break
        law = Law.of_counts(blocks.add_blocks(category_counts, shape, rows=weights))
        accounts = Accounts.of(sample, law)
        search = Search(
            accounts, law, searched[chosen], tallies.n_actions, expected=expected, rng=rng
        )
        judged: list[tuple[Group, Coalition]] = []
        for coalition in search.candidates(reviewed.is_fake[chosen], SUSPECTED * CLEAR):
            members = members_of(blocks, coalition, law, searched, expected)
            verdict = reviewed.verdict(members)
            if verdict == "honest":
                continue
            members = np.where(reviewed.is_honest, 0.0, members)
            without = means_of(weights * (1.0 - members)).means
            without = np.where(np.isnan(without), cells.means, without)
            story, _ = shrunken(without, cells, parts)
            best = best_known(means)
            is_decisive = bool((_leads(story, best) < HALVED * _leads(means, best)).any())
            each = QUIET if is_decisive else LOUD
            bar = max(CLEAR, each * float(coalition.members.sum()))
            strength = coalition.gain / bar
            is_flagged = bool(strength >= 1.0) or verdict == "fake"
            group = Group(members, is_flagged, coalition.gain, strength, means - story)
            judged.append((group, coalition))
        # The group with the most evidence comes first, even if no decision depends on it: other
        # groups may be its mirror image.
        judged.sort(key=lambda one: -one[0].evidence)
        if not any(group.is_flagged or group.evidence >= CLEAR for group, _ in judged):
            groups += [group for group, _ in judged]
            coalitions += [(law, fit) for _, fit in judged]
            break
        group, fit = next(one for one in judged if one[0].is_flagged or one[0].evidence >= CLEAR)
        groups.append(group)
        coalitions.append((law, fit))
        searched = searched * (1.0 - group.members)
        if group.is_flagged:
            weights = weights * (1.0 - group.members)
    stories = [(group.strength, means - group.shift) for group in groups if not group.is_flagged]
    plays = float(tallies.cell_sums("plays").sum())
    counted = float(means_of(np.ones(tallies.n_users)).masses.sum()) / max(plays, 1.0)
    model = Model(reading, rho, coalitions)
    return Findings(weights, groups, cells, means, stories, model, 1.0 - counted)


def _leads(means: FloatArray, actions: IntArray) -> FloatArray:
    """Return the lead of the given action of each context over the best other action."""
    rows = np.arange(len(means))
    others = np.where(np.isnan(means), -np.inf, means)
    others[rows, actions] = -np.inf
    leads = means[rows, actions] - others.max(axis=1)
    return np.where(np.isfinite(leads), leads, np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Reviewed:
    """Accounts whose status is known; ``is_fake`` and ``is_honest`` have shape (n_users,)."""

    is_fake: BoolArray
    is_honest: BoolArray

    @classmethod
    def of(cls, known: KnownAccounts, users: Labels) -> Reviewed:
        """Return the known status of a log's accounts, regardless of dates."""
        is_fake, honest_until = known.of(users)
        return cls(is_fake, honest_until > -np.inf)

    @classmethod
    def nobody(cls, n_users: int) -> Reviewed:
        """Return an instance in which no account was reviewed."""
        return cls(np.zeros(n_users, np.bool_), np.zeros(n_users, np.bool_))

    def verdict(self, members: FloatArray) -> Literal["honest", "fake", "open"]:
        """Decide by a sign test whether most reviewed members of a group are honest or fake.

        A single review is not enough: a colluder may pass for honest, and a fake account may share
        its taste with honest ones. Accounts with a probability of membership above 1/2 are tested.
        """
        is_member = members > 0.5
        n_honest, n_fake = (int((is_member & x).sum()) for x in (self.is_honest, self.is_fake))
        n = n_honest + n_fake
        if special.bdtr(n_fake, n, 0.5) <= SETTLED:
            return "honest"
        return "fake" if special.bdtr(n_honest, n, 0.5) <= SETTLED else "open"
