"""Individual tastes: residuals from the common means, and personal decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError, check_adversarial_fraction, option
from unswayed.events import Labels
from unswayed.policy import PersonalDecisions, Policy
from unswayed.tallies import Tallies, entry_users, row_sums

LEVEL = 0.01
"""Ours: a user of common taste is taken for a different one with at most this probability."""


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """One entry for each (user, cell) that was played and whose common mean is known.

    Attributes
    ----------
    users, cells, plays
        Shape (n_entries,); ascending by user.
    values
        Shape (n_entries,); the user's mean minus the common one.
    noise
        The standard deviation of one reward around its user's mean.
    p_values
        Shape (n_users,); of "this user's taste is the common one", 1 where nothing was played.
    """

    users: IntArray
    cells: IntArray
    plays: FloatArray
    values: FloatArray
    noise: float
    p_values: FloatArray

    @property
    def is_different(self) -> BoolArray:
        """Whether each user's taste differs from the common one; shape (n_users,)."""
        differs: BoolArray = self.p_values < LEVEL
        return differs


def residuals_of(tallies: Tallies, mean_rewards: FloatArray, *, alpha: float) -> Residuals:
    """Compare every user with the common means.

    A user's entry depends on that user's rewards, the common means and the noise: the first is the
    user's own, the second is what a robust method learned, and the third is a trimmed mean. So a
    coalition distorts its own tastes and nobody else's.

    Parameters
    ----------
    mean_rewards
        Shape (n_contexts, n_actions); what the good users have in common. NaN where nothing is.
    alpha
        The share of users whose variances are trimmed at either end.

    Notes
    -----
    Two tests share the level: the sum of squares (many small differences) and the largest of them
    (a few large ones), both as if rewards were normal.
    """
    users, cells = entry_users(tallies.indptr).astype(np.int64), tallies.cells.astype(np.int64)
    plays = tallies.plays
    own = tallies.sums / tallies.counts
    spread = np.maximum(tallies.squares / tallies.counts - own**2, 0.0) * plays
    noise = _noise(tallies, spread, plays, alpha)
    values = own - mean_rewards.reshape(-1)[cells]
    known = np.isfinite(values)
    users, cells, plays, values = users[known], cells[known], plays[known], values[known]
    scores = plays * (values / noise) ** 2
    n_cells = np.bincount(users, minlength=tallies.n_users)
    total = np.bincount(users, scores, minlength=tallies.n_users)
    largest = np.zeros(tallies.n_users)
    np.maximum.at(largest, users, scores)
    of_sum = special.chdtrc(np.maximum(n_cells, 1), total)
    of_largest = n_cells * special.chdtrc(1, largest)
    p_values = np.minimum(1.0, 2.0 * np.minimum(of_sum, of_largest))
    p_values[n_cells == 0] = 1.0
    return Residuals(users, cells, plays, values, noise, p_values)


def _noise(tallies: Tallies, spread: FloatArray, plays: FloatArray, alpha: float) -> float:
    """Return the deviation of a reward around its user's mean, trimmed over users."""
    freedom = row_sums(tallies.indptr, np.maximum(plays - 1.0, 0.0))
    squares = row_sums(tallies.indptr, np.where(plays > 1.0, spread, 0.0))
    has = freedom > 0
    if not has.any():
        raise InputError(
            "no user played an action in a context twice, so tastes cannot be separated from "
            f"noise; learn without {option('--personal')}."
        )
    variances = squares[has] / freedom[has]
    low, high = np.quantile(variances, [alpha, 1.0 - alpha])
    kept = (variances >= low) & (variances <= high)
    variance = float((variances[kept] * freedom[has][kept]).sum() / freedom[has][kept].sum())
    if not variance > 0.0:
        raise InputError(
            "rewards of a user never vary, so tastes cannot be separated from noise; learn without "
            f"{option('--personal')}."
        )
    return float(np.sqrt(variance))


PRUDENCE = 0.5
"""Ours: a user's own action must lead by this many standard errors. Those who pass the test were
chosen for large residuals, which are too large on average; docs/epochs.md has the numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Personal:
    """Decisions of users whose taste differs, and how many those are."""

    decisions: PersonalDecisions
    n_different: int
    noise: float


def personal_decisions(
    tallies: Tallies, policy: Policy, user_labels: Labels, *, alpha: float
) -> Personal:
    """Return the decisions in which users differ from a common policy.

    First the common policy, then what is left of each user (Ghosh et al. 2021): a user whose
    residuals chance explains keeps the common policy and pays nothing. The residuals of the others
    are shrunk, all by their size or, where few stick out, each by a threshold (as in MOLAR, Huang
    et al. 2023); Stein's estimate of the risk says which. A user's action changes where another one
    has the larger sum of common mean and shrunken residual, by more than chance.

    Parameters
    ----------
    tallies
        All plays, explorers' and others': a user is compared with their own rewards only.
    policy
        The common policy, robustly learned.
    """
    alpha = check_adversarial_fraction(alpha)
    residuals = residuals_of(tallies, policy.capped_means, alpha=alpha)
    users, contexts, actions = [], [], []
    differing = np.flatnonzero(residuals.is_different)
    bounds = np.searchsorted(residuals.users, np.stack([differing, differing + 1]))
    for user, start, end in zip(differing, *bounds, strict=True):
        entries = slice(int(start), int(end))
        changed, chosen = _own_actions(residuals, entries, policy)
        users.append(np.full(len(changed), user))
        contexts.append(changed)
        actions.append(chosen)
    codes = np.concatenate(users) if users else np.empty(0, np.int64)
    owners = np.unique(codes)
    decisions = PersonalDecisions(
        Labels(user_labels.values[owners]),
        np.searchsorted(owners, codes),
        np.concatenate(contexts) if contexts else np.empty(0, np.int64),
        np.concatenate(actions) if actions else np.empty(0, np.int64),
    )
    return Personal(decisions, len(differing), residuals.noise)


def _own_actions(residuals: Residuals, entries: slice, policy: Policy) -> tuple[IntArray, IntArray]:
    """Contexts in which a user's best action differs from the policy, and that action."""
    n_actions = policy.mean_rewards.shape[1]
    cells = residuals.cells[entries]
    errors = residuals.noise / np.sqrt(residuals.plays[entries])
    met = np.unique(cells // n_actions)
    table = np.where(np.isnan(policy.capped_means[met]), -np.inf, policy.capped_means[met])
    rows = np.searchsorted(met, cells // n_actions)
    table[rows, cells % n_actions] += shrunken(residuals.values[entries], errors)
    variances = np.zeros(table.shape)
    variances[rows, cells % n_actions] = errors**2
    best, common = table.argmax(axis=1), policy.actions[met]
    every = np.arange(len(met))
    lead = table[every, best] - table[every, common]
    chance = np.sqrt(variances[every, best] + variances[every, common])
    differs = (best != common) & (lead > PRUDENCE * chance)
    return met[differs], best[differs]


def shrunken(values: FloatArray, errors: FloatArray) -> FloatArray:
    """Shrink residuals linearly or by soft thresholding, whichever has the smaller SURE.

    Parameters
    ----------
    values, errors
        Shape (n_cells,); residuals and their standard errors.

    Examples
    --------
    >>> shrunken(np.array([0.0, 0.1, -0.1]), np.full(3, 0.5)).tolist()
    [0.0, 0.0, -0.0]
    >>> shrunken(np.array([2.0, 0.0, 0.0, 0.0]), np.full(4, 0.1)).round(1).tolist()
    [1.8, 0.0, 0.0, 0.0]
    """
    variance = max(0.0, float(np.average(values**2 - errors**2, weights=errors**-2.0)))
    kept = variance / (variance + errors**2)
    linear = kept * values
    # Risk of a linear estimate, by Stein: the squared change plus twice the kept noise.
    linear_risk = float(((values - linear) ** 2 + (2.0 * kept - 1.0) * errors**2).sum())
    threshold = errors * np.sqrt(2.0 * np.log(max(len(values), 2)))
    soft = np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)
    soft_risk = float(((values - soft) ** 2 + np.where(soft != 0, 1.0, -1.0) * errors**2).sum())
    return soft if soft_risk < linear_risk else linear
