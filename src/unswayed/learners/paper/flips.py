"""How many accounts the paper's decisions withstand: exact where trimmed means decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.estimators.spectral_filter import LARGEST_BUDGET
from unswayed.estimators.trimmed_flips import NO_RIVAL, TrimmedFlips, trimmed_flips
from unswayed.estimators.trimming import trim_count
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.flips.bounds import (
    Certificate,
    FlipBounds,
    certify_one_account,
    decisions,
    with_entries,
)
from unswayed.learners.paper.method import FAILURE_PROBABILITY
from unswayed.learners.paper.reward_units import (
    RewardUnits,
    measure_units,
    measured_from,
    user_means,
)
from unswayed.tallies import Tallies, UserTallies, entry_users


@dataclass(frozen=True, slots=True, eq=False)
class FrequentFlips:
    """Flips of the frequent contexts; rows are those contexts.

    Attributes
    ----------
    contexts
        Codes of the contexts.
    leaders
        Their chosen actions.
    visitors
        How many accounts were seen at the chosen action. If all of them stay away, nothing is known
        of it any more.
    trimmed
        What it takes to make another trimmed mean the largest.
    units
        Where rewards were measured from.
    withstood
        No fewer replaced accounts change the decision, wherever such accounts would have rewards
        measured from.
    is_loud
        Whether an extreme reward of the attack is kept by the trimmed means.
    """

    contexts: IntArray
    leaders: IntArray
    visitors: IntArray
    trimmed: TrimmedFlips
    units: RewardUnits
    withstood: IntArray
    is_loud: BoolArray

    @property
    def by_absence(self) -> BoolArray:
        """Return where staying away is the cheaper attack."""
        has_rival = self.trimmed.rivals != NO_RIVAL
        is_cheaper: BoolArray = np.logical_and(has_rival, self.visitors < self.trimmed.enough)
        return is_cheaper


def certify_paper(
    tallies: UserTallies,
    design: Design,
    estimates: Estimates,
    *,
    alpha: float,
    warmup: Tallies | None = None,
) -> FlipBounds:
    """Bound the accounts that must be replaced or removed before a decision changes.

    Parameters
    ----------
    tallies, design, alpha, warmup
        What ``learn_paper`` was given.
    estimates
        What it returned.

    Notes
    -----
    From tallies in blocks the same bounds, but no attacks to try: those need all rows in one place.

    Frequent contexts: exact, from order statistics (``trimmed_flips``). Replaced accounts may visit
    what they like, as often as they like, and report any rewards, but their action in a sticky
    context stays the one that the platform assigned. Scales σ_s and probabilities ν̂_s multiply all
    means of a context alike, so they cannot change its best action. What could: the context might
    leave S₊, its estimated probability might become zero, or rewards might be measured from
    elsewhere. Up to a number of accounts the data rule out all of this. Where that number is too
    small the certificate is "context step": the lower bound ends there, and ``held`` says what
    would hold if none of it happened.

    Rare contexts: the spectral filter decides anew, from all rows, which rows to weigh down. One
    row can move a round across its threshold, and then the weights of all the others. No bound
    better than one account is known to us; the certificate says so.

    Deviation from the paper: it has no such bounds.
    """
    bounds = certify_one_account(tallies, design, estimates, alpha=alpha)
    if not estimates.frequent_contexts.any():  # as on every log of uniform plays
        return bounds
    flips = frequent_flips(tallies, design, estimates, alpha=alpha)
    lower, upper, held = bounds.lower.copy(), bounds.upper.copy(), bounds.lower.copy()
    certificates = bounds.certificates.copy()
    fewest = np.minimum(flips.trimmed.fewest, flips.visitors)
    enough = np.minimum(flips.trimmed.enough, flips.visitors)
    in_place = _certain_replacements(tallies, design, warmup)[flips.contexts]
    unmoved = np.minimum(flips.withstood - 1, in_place)
    untried: dict[int, Callable[[], tuple[Tallies, IntArray]]] = {}
    for row, context in enumerate(flips.contexts.tolist()):
        held[context] = fewest[row] / bounds.n_accounts
        is_exact = unmoved[row] >= fewest[row] - 1
        certificates[context] = Certificate.EXACT if is_exact else Certificate.CONTEXT_STEP
        lower[context] = max(1, min(fewest[row], unmoved[row] + 1)) / bounds.n_accounts
        if flips.trimmed.rivals[row] == NO_RIVAL:
            continue
        # One loud reward that is kept decides, wherever rewards are measured from.
        is_sure = flips.is_loud[row] or tallies.n_contexts == 1
        if min(in_place[row], np.inf if is_sure else flips.units.n_certain) >= enough[row]:
            upper[context] = enough[row] / bounds.n_accounts
        elif isinstance(tallies, Tallies):
            untried[context] = partial(attack_frequent, tallies, design, flips, row)
    return FlipBounds(bounds.n_accounts, lower, upper, certificates, held, untried)


def frequent_flips(
    tallies: UserTallies,
    design: Design,
    estimates: Estimates,
    *,
    alpha: float,
) -> FrequentFlips:
    """Return what it takes to change the decisions of the learned frequent contexts."""
    is_known = ~np.isnan(estimates.mean_rewards)
    chosen = np.flatnonzero(estimates.frequent_contexts & is_known.any(axis=1))
    shape = (len(chosen), tallies.n_actions)
    row_of_context = np.full(tallies.n_contexts, NO_RIVAL)
    row_of_context[chosen] = np.arange(len(chosen))

    # One number for each user of the frequent contexts: as many as their trimmed means needed.
    units = measure_units(tallies, alpha=alpha)
    entries = measured_from(tallies, units).blocks.map_blocks(_frequent_values, row_of_context)
    values, groups = (np.concatenate(column) for column in zip(*entries, strict=True))
    stored = np.bincount(groups, minlength=shape[0] * shape[1]).reshape(shape)

    # The same trimming as in the recovery procedure.
    n_zeros = np.maximum(design.group_sizes[chosen] - stored, 0)
    n_points = stored + n_zeros
    n_bad = trim_count(
        n_points.astype(np.int64),
        alpha=alpha,
        failure_probability=FAILURE_PROBABILITY / tallies.n_cells,
    )
    n_cut = np.minimum(n_bad, np.maximum((n_points - 1) // 2, 0))
    leaders = decisions(estimates)[chosen]
    flips_with = partial(
        trimmed_flips,
        values,
        groups,
        n_zeros=n_zeros,
        n_cut=n_cut,
        leaders=leaders,
        is_known=is_known[chosen],
    )
    trimmed = flips_with()
    rows = np.arange(len(chosen))
    is_loud = (trimmed.from_leader > n_cut[rows, leaders]) | (
        trimmed.from_rival > n_cut[rows, trimmed.rivals]
    )
    withstood = _withstood(tallies, units, row_of_context, trimmed.fewest, flips_with)
    visitors = stored[rows, leaders]
    return FrequentFlips(chosen, leaders, visitors, trimmed, units, withstood, is_loud)


def _withstood(
    tallies: UserTallies,
    units: RewardUnits,
    row_of_context: IntArray,
    fewest: IntArray,
    flips_with: Callable[..., TrimmedFlips],
) -> IntArray:
    """Return how many replaced accounts the decisions withstand wherever these move the origin.

    Replacing j accounts moves the median user's mean by at most j ranks. A trimmed mean is monotone
    and moves with a common shift, and a user's value moves with the origin by their share of visits
    to the context. So two trimmed means of a context come at most as much closer to each other as
    the origin moves, times the largest such share.
    """
    if tallies.n_contexts == 1:  # all shares are one: means move alike
        return fewest
    if units.is_binary:
        return np.minimum(fewest, units.n_certain + 1)
    means = np.sort(np.concatenate(tallies.blocks.map_blocks(user_means)))
    largest = np.zeros(len(fewest))
    for shares in tallies.blocks.map_blocks(_largest_shares, row_of_context, len(fewest)):
        np.maximum(largest, shares, out=largest)

    def margins(replaced: IntArray) -> FloatArray:
        low = means[np.maximum((len(means) - 1) // 2 - replaced, 0)]
        high = means[np.minimum(len(means) // 2 + replaced, len(means) - 1)]
        reach: FloatArray = np.maximum(units.origin - low, high - units.origin) * largest
        return reach

    # The more accounts, the farther the origin may move: bisection for the most that are withstood.
    holds, fails = np.zeros_like(fewest), fewest.copy()
    while (is_open := fails - holds > 1).any():
        middle = (holds + fails) // 2
        is_held = flips_with(margins=margins(middle)).fewest > middle
        holds = np.where(is_open & is_held, middle, holds)
        fails = np.where(is_open & ~is_held, middle, fails)
    return np.asarray(holds + 1)


def _largest_shares(tallies: Tallies, row_of_context: IntArray, n_rows: int) -> FloatArray:
    """Largest share of a single user's visits, for each context with a row."""
    rows = row_of_context[tallies.cells // tallies.n_actions]
    is_inside = rows != NO_RIVAL
    users = entry_users(tallies.indptr)[is_inside]
    shares = np.zeros(n_rows)
    np.maximum.at(shares, rows[is_inside], tallies.counts[is_inside] / tallies.interactions[users])
    return shares


def attack_frequent(
    tallies: Tallies, design: Design, flips: FrequentFlips, row: int
) -> tuple[Tallies, IntArray]:
    """Carry out the attack behind an upper bound; return the attacked tallies and the accounts.

    Parameters
    ----------
    tallies, design
        What was learned from.
    flips
        The bounds of ``frequent_flips``.
    row
        Which of its rows to attack; it must have a rival.

    Notes
    -----
    On a log the accounts that never met the context belong to groups of unknown membership. The
    attack takes any of them for the zeros of a group, as the design does.
    """
    context, leader = int(flips.contexts[row]), int(flips.leaders[row])
    rival = int(flips.trimmed.rivals[row])
    users, interactions = entry_users(tallies.indptr), tallies.interactions
    is_here = tallies.cells // tallies.n_actions == context
    members = {
        action: np.flatnonzero(is_here & (tallies.cells % tallies.n_actions == action))
        for action in (leader, rival)
    }
    if flips.by_absence[row]:
        chosen = users[members[leader]]
        nothing = np.empty(0, np.int64)
        return with_entries(
            tallies,
            ~(is_here & np.isin(users, chosen)),
            users=nothing,
            cells=nothing,
            counts=nothing.astype(np.float64),
            sums=nothing.astype(np.float64),
        ), chosen

    absent = np.setdiff1d(np.flatnonzero(interactions > 0), users[is_here])
    accounts, cells = [], []
    for action, number, side in (
        (leader, int(flips.trimmed.from_leader[row]), -1.0),
        (rival, int(flips.trimmed.from_rival[row]), 1.0),
    ):
        entries = members[action]
        n_absent = max(int(design.group_sizes[context, action]) - len(entries), 0)
        sums = tallies.sums[entries] - flips.units.origin * tallies.counts[entries]
        values = np.append(sums / interactions[users[entries]], np.zeros(len(absent[:n_absent])))
        group = np.append(users[entries], absent[:n_absent])
        absent = absent[n_absent:]
        taken = group[np.argsort(side * values, kind="stable")[:number]]
        accounts.append(taken)
        cells.append(np.full(len(taken), context * tallies.n_actions + action))
    # Louder than all others of the context together, so that one kept reward decides.
    loud = 4.0 * (1.0 + float(np.abs(tallies.sums[is_here]).sum())) * tallies.n_users
    rewards = np.repeat([-loud, loud], [len(accounts[0]), len(accounts[1])])
    chosen = np.concatenate(accounts)
    return with_entries(
        tallies,
        ~np.isin(users, chosen),
        users=chosen,
        cells=np.concatenate(cells),
        counts=np.ones(len(chosen)),
        sums=rewards,
    ), chosen


def _frequent_values(tallies: Tallies, row_of_context: IntArray) -> tuple[FloatArray, IntArray]:
    """Return Σ r / n_i of every entry in a context that has a row, and its group."""
    rows = row_of_context[tallies.cells // tallies.n_actions]
    is_inside = rows != NO_RIVAL
    users = entry_users(tallies.indptr)[is_inside]
    groups = rows[is_inside] * tallies.n_actions + tallies.cells[is_inside] % tallies.n_actions
    return tallies.sums[is_inside] / tallies.interactions[users], groups.astype(np.int64)


def _certain_replacements(tallies: UserTallies, design: Design, warmup: Tallies | None) -> IntArray:
    """Return up to how many replaced accounts Algorithm 1 surely keeps each context in place.

    A filter removes at most ``LARGEST_BUDGET`` of the weight, so a context that more accounts
    visited keeps a positive probability. On a log that is sticky throughout with more contexts than
    actions, S₊ itself is estimated, and nothing is sure: the answer is −1.
    """
    if design.is_sticky.all() and tallies.n_contexts > tallies.n_actions:
        return np.full(tallies.n_contexts, -1)
    visits = tallies if warmup is None else warmup
    visitors = visits.blocks.add_blocks(_visitors)
    n_active = int((visits.interactions > 0).sum())
    # After k replacements at least visitors − k of the accounts still come.
    certain: IntArray = np.ceil(visitors - LARGEST_BUDGET * n_active).astype(np.int64) - 1
    return certain


def _visitors(tallies: Tallies) -> IntArray:
    """Return how many accounts visited each context; shape (n_contexts,)."""
    # Entries are sorted by user, then cell: those of one user and context stand together.
    contexts = tallies.cells // tallies.n_actions
    is_first = np.diff(contexts, prepend=-1) != 0
    is_first[tallies.indptr[:-1][np.diff(tallies.indptr) > 0]] = True
    return np.bincount(contexts[is_first], minlength=tallies.n_contexts)
