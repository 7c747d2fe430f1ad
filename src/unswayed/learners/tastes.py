"""Users whose tastes differ: decisions of their own, and groups that share a taste."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import sparse, special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError, check_adversarial_fraction, option
from unswayed.estimators import mean_intervals
from unswayed.events import UNKNOWN, Labels
from unswayed.learners.design import DesignName, design_of_log
from unswayed.learners.methods import method_named
from unswayed.policy import GroupDecisions, PersonalDecisions, Policy
from unswayed.randomness import generator
from unswayed.tallies import Tallies, entry_users, row_sums
from unswayed.visible import counted

LEVEL = 0.01
"""Ours: probability of a false positive: a user of common taste who is tested as different, or any
group found where all good users share one taste."""


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
    """Return residuals of every user from the common means.

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
"""Ours: a user's own action must lead by this many standard errors, because residuals of users who
pass the test are too large on average (selection); docs/epochs.md has the numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Personal:
    """Personal decisions, the number of users whose taste differs, and the noise level."""

    decisions: PersonalDecisions
    n_different: int
    noise: float


def personal_decisions(
    tallies: Tallies, policy: Policy, user_labels: Labels, *, alpha: float
) -> Personal:
    """Return decisions of users whose tastes differ from the common policy.

    The common policy is learned first, then each user's residuals (Ghosh et al. 2021). A user whose
    residuals are not significant keeps the common policy. Those of the others are shrunk, linearly
    or, where few are large, by soft thresholding (as in MOLAR, Huang et al. 2023), whichever has
    the smaller risk by Stein's estimate. A user's action changes where another one has a clearly
    larger sum of common mean and shrunken residual.

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


REACH = 3.0
"""Ours: residuals are clipped at this many standard deviations of one reward, so that an account
moves a centre by a bounded amount."""

STEPS = 25
"""Ours: maximum number of Lloyd iterations; few are needed."""

STARTS = 4
"""Ours: random starts of the clustering, of which the best is used."""

POWER_STEPS = 6
"""Ours: power iterations for the main directions of the residuals."""

PRIOR_PLAYS = 4.0
"""Ours: centres are averaged with 0, the common taste, as if from this many plays of a cell."""


@dataclass(frozen=True, slots=True, eq=False)
class Plays:
    """Users' residuals as sparse (n_users, n_cells) arrays, in units of the noise.

    Attributes
    ----------
    counts, sums
        Plays of each cell, and plays times residual.
    """

    counts: sparse.csr_array
    sums: sparse.csr_array

    def of_users(self, users: IntArray) -> Plays:
        """Return the plays of some users."""
        return Plays(self.counts[users], self.sums[users])

    def in_cells(self, is_inside: FloatArray) -> Plays:
        """Return the plays of some cells; others become 0."""
        keep = sparse.diags_array(is_inside.astype(np.float64))
        return Plays((self.counts @ keep).tocsr(), (self.sums @ keep).tocsr())


def plays_of(residuals: Residuals, n_users: int, n_cells: int) -> Plays:
    """Return residuals as plays; those beyond ``REACH`` are clipped."""
    values = np.clip(residuals.values / residuals.noise, -REACH, REACH)
    places = (residuals.users, residuals.cells)
    return Plays(
        sparse.csr_array((residuals.plays, places), shape=(n_users, n_cells)),
        sparse.csr_array((residuals.plays * values, places), shape=(n_users, n_cells)),
    )


def log_likelihoods(plays: Plays, centres: FloatArray) -> FloatArray:
    """Return log-likelihood ratios of each centre against the common taste.

    Parameters
    ----------
    centres
        Shape (n_clusters, n_cells), in units of the noise.

    Returns
    -------
    Shape (n_users, n_clusters); normal log-likelihood ratios, Σ (Σr)·c − n·c²/2.
    """
    result: FloatArray = plays.sums @ centres.T - plays.counts @ (centres.T**2) / 2.0
    return result


def cluster(plays: Plays, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """Return centres of clusters; shape (n_clusters, n_cells).

    Lloyd's rounds under the normal likelihood, from users who differ along the main directions of
    their residuals; the start with the largest likelihood wins.
    """
    scores = _scores(plays, n_clusters, rng)
    best, largest = np.zeros((n_clusters, plays.counts.shape[1])), -np.inf
    for _ in range(STARTS):
        labels = _nearest(scores, scores[_spread_out(scores, n_clusters, rng)])
        centres = _centres(plays, labels, n_clusters)
        for _ in range(STEPS):
            likelihoods = log_likelihoods(plays, centres)
            moved = likelihoods.argmax(axis=1)
            if (moved == labels).all():
                break
            labels = moved
            centres = _centres(plays, labels, n_clusters)
        total = float(log_likelihoods(plays, centres).max(axis=1).sum())
        if total > largest:
            best, largest = centres, total
    return best


def _centres(plays: Plays, labels: IntArray, n_clusters: int) -> FloatArray:
    """Return the mean residual of each cluster's users, shrunk towards the common taste."""
    member = sparse.csr_array(
        (np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels))
    )
    sums, counts = (member @ plays.sums).toarray(), (member @ plays.counts).toarray()
    centres: FloatArray = sums / (counts + PRIOR_PLAYS)
    return centres


def _scores(plays: Plays, n_directions: int, rng: np.random.Generator) -> FloatArray:
    """Return scores on the main directions of the residuals, by power iteration."""
    n_cells = plays.sums.shape[1]
    weights = 1.0 / np.sqrt(np.maximum(plays.counts.sum(axis=1), 1.0))
    scaled = sparse.diags_array(weights) @ plays.sums
    basis = np.linalg.qr(rng.standard_normal((n_cells, min(n_directions, n_cells))))[0]
    for _ in range(POWER_STEPS):
        basis = np.linalg.qr(scaled.T @ (scaled @ basis))[0]
    scores: FloatArray = scaled @ basis
    return scores


def _spread_out(scores: FloatArray, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Return users far from each other, as k-means++ draws them."""
    chosen = [int(rng.integers(len(scores)))]
    for _ in range(n_clusters - 1):
        distances = np.min([((scores - scores[user]) ** 2).sum(axis=1) for user in chosen], axis=0)
        total = float(distances.sum())
        draw = rng.choice(len(scores), p=distances / total) if total > 0 else 0
        chosen.append(int(draw))
    return np.array(chosen)


def _nearest(scores: FloatArray, centres: FloatArray) -> IntArray:
    nearest: IntArray = ((scores[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    return nearest


GroupCount = int | Literal["auto"]

MOST_GROUPS = 4
"""Ours: largest number of groups that "auto" tries."""

MOST_FOLDS = 10
"""Ours: maximum number of folds of the contexts."""

NO_GROUP = -1

CERTAINTY = 1.0
"""Ours: a user's own plays must favour a group by this log-likelihood over every other cluster, a
posterior of 73 % against one. Others, and new users, keep the common policy."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups that held-out plays support.

    Attributes
    ----------
    members
        Shape (n_users,); the group of each user, or ``NO_GROUP`` for the common policy.
    gains
        For each group a lower bound on what its good users gain per play where its decisions
        differ, colluders allowed for.
    n_tried
        How many candidates were tested.
    """

    members: IntArray
    gains: tuple[float, ...]
    n_tried: int

    @property
    def sizes(self) -> IntArray:
        """How many users each group has; shape (n_groups,)."""
        return np.bincount(self.members[self.members != NO_GROUP], minlength=len(self.gains))

    def statement(self) -> str:
        """Return it as one sentence."""
        error = f"error rate {LEVEL:.0%} if user means are near normal, colluders allowed for"
        if not self.gains:
            return (
                f"the data do not support groups of taste: none of {self.n_tried} candidates gains "
                f"on held-out plays ({error}), and everybody gets the common policy."
            )
        n_rest = int((self.members == NO_GROUP).sum())
        listed = ", ".join(
            f"{counted(size, 'user')} gain{'s' * (size == 1)} at least {gain:.2g} a play"
            for size, gain in zip(self.sizes.tolist(), self.gains, strict=True)
        )
        return (
            f"{counted(len(self.gains), 'group')} of taste ({error}): {listed} where decisions "
            f"differ; {counted(n_rest, 'user')} with the common policy."
        )


def check_groups(value: object) -> GroupCount:
    """Return a number of groups or "auto", or say what it must be.

    >>> check_groups("3"), check_groups("auto")
    (3, 'auto')
    """
    if value == "auto":
        return "auto"
    if isinstance(value, int | str) and not isinstance(value, bool):
        text = str(value).strip()
        if text.isdecimal() and 2 <= int(text) <= 20:
            return int(text)
    raise InputError(
        f"{option('--groups')} is {value!r}: give a number of groups from 2 to 20, or auto."
    )


def find_groups(
    tallies: Tallies,
    policy: Policy,
    *,
    alpha: float,
    n_groups: GroupCount = "auto",
) -> Groups:
    """Return the groups of users whose own policy is better for them than the common one.

    Candidates are clusters of residuals, more than groups are looked for. Each is tested on plays
    it was not made from: its centre comes from half of the users; which of the others it would take
    in is decided without a tenth of the contexts, and what those gain is measured in that tenth,
    for each tenth in turn (each context, if there are fewer than ten). It becomes a group if a
    lower bound on the mean gain is positive even if all colluders are in it, and if it is larger
    than a coalition can be. Then all users are assigned by all their plays.

    Parameters
    ----------
    tallies
        All plays, of any design.
    policy
        The common policy; its means are what residuals are measured from.
    n_groups
        How many groups to look for; "auto" tries 2 to ``MOST_GROUPS``.

    Notes
    -----
    Guarantee: where all good users have the common taste, a group is found with probability at most
    ``LEVEL``, as far as ``mean_intervals`` keeps its own. A user's group is chosen by that user's
    plays, among centres in which every account has a bounded say. A coalition within the stated
    share is no group; a larger one gets a group of its own and takes in all who respond as it does.
    """
    alpha = check_adversarial_fraction(alpha)
    wanted = check_groups(n_groups)
    n_contexts, n_actions = policy.mean_rewards.shape
    # One cluster more than groups leaves a coalition room for one of its own, as the longer list
    # of list-decodable learning does.
    sizes = range(2, MOST_GROUPS + 2) if wanted == "auto" else range(wanted, wanted + 2)
    best = Groups(np.full(tallies.n_users, NO_GROUP), (), 0)
    residuals = residuals_of(tallies, policy.capped_means, alpha=alpha)
    plays = plays_of(residuals, tallies.n_users, n_contexts * n_actions)
    held_out = _HeldOut(residuals, plays, policy)
    n_tried, largest = 0, 0.0
    for size in sizes:
        level = LEVEL / (len(sizes) * size)
        centres = cluster(plays.of_users(held_out.makers), size, generator(0, "groups", size))
        gains = held_out.gains(centres, alpha, level)
        n_tried += size
        found = _assigned(plays, centres, gains, most=int(alpha * tallies.n_users))
        worth = float((found.sizes * np.array(found.gains)).sum())
        if worth > largest:
            best, largest = found, worth
    return replace(best, n_tried=n_tried)


class _HeldOut:
    """Users and contexts on which candidates are tested."""

    def __init__(self, residuals: Residuals, plays: Plays, policy: Policy) -> None:
        self._plays, self._policy, self._noise = plays, policy, residuals.noise
        n_users = plays.counts.shape[0]
        # Users are in the order of a hash, so every second one is a fair half.
        self.makers = np.arange(0, n_users, 2)
        self._judges = np.arange(1, n_users, 2)
        own = residuals.values + policy.capped_means.reshape(-1)[residuals.cells]
        self._counts = plays.counts[self._judges]
        self._rewards = sparse.csr_array(
            (residuals.plays * own, (residuals.users, residuals.cells)), shape=plays.counts.shape
        )[self._judges]

    def gains(self, centres: FloatArray, alpha: float, level: float) -> FloatArray:
        """Return a lower bound on the gain of each candidate; shape (n_clusters,)."""
        n_judges = len(self._judges)
        contexts = np.arange(len(self._policy.mean_rewards))
        totals, weights = np.zeros((2, n_judges, len(centres)))
        n_folds = min(len(contexts), MOST_FOLDS)
        for fold in range(n_folds):
            is_asked = np.repeat(contexts % n_folds != fold, self._policy.mean_rewards.shape[1])
            asked = self._plays.of_users(self._judges).in_cells(is_asked)
            labels = log_likelihoods(asked, centres).argmax(axis=1)
            for k in range(len(centres)):
                users = np.flatnonzero(labels == k)
                total, weight = self._gain(users, centres[k], contexts[contexts % n_folds == fold])
                totals[users, k] += total
                weights[users, k] += weight
        # Half of the users hold about half of the colluders, by Bernstein.
        logarithm, expected = np.log(1.0 / level) * (alpha > 0), alpha * n_judges
        n_bad = expected + np.sqrt(expected * logarithm) + logarithm / 3.0
        rows, groups = np.nonzero(weights > 0)
        points = totals[rows, groups] / weights[rows, groups]
        present = np.bincount(groups, minlength=len(centres))
        low, _ = mean_intervals(
            points,
            groups,
            len(centres),
            n_bad=np.minimum(int(n_bad), present).astype(np.int64),
            failure_probability=level,
        )
        return np.where(np.isfinite(low), low, -np.inf)

    def _gain(
        self, users: IntArray, centre: FloatArray, contexts: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return weighted gains of users where a centre and the policy differ, and the weights."""
        own, common = own_actions(self._policy, self._noise * centre), self._policy.actions
        asked = contexts[own[contexts] != common[contexts]]
        n_actions = self._policy.mean_rewards.shape[1]
        if not len(asked) or not len(users):
            return np.zeros(len(users)), np.zeros(len(users))
        sums, counts = (
            [
                table[users][:, asked * n_actions + actions[asked]].toarray()
                for actions in (own, common)
            ]
            for table in (self._rewards, self._counts)
        )
        weights = np.divide(
            counts[0] * counts[1],
            counts[0] + counts[1],
            where=counts[0] * counts[1] > 0,
            out=np.zeros(counts[0].shape),
        )
        means = [n / np.maximum(c, 1e-12) for n, c in zip(sums, counts, strict=True)]
        return (weights * (means[0] - means[1])).sum(axis=1), weights.sum(axis=1)


def own_actions(policy: Policy, centre: FloatArray) -> IntArray:
    """Return the best actions when a centre is added to the common means; shape (n_contexts,)."""
    table = policy.capped_means + centre.reshape(policy.capped_means.shape)
    known = np.where(np.isnan(table), -np.inf, table)
    return np.where(policy.is_learned, known.argmax(axis=1), policy.actions)


def certain(plays: Plays, centres: FloatArray) -> IntArray:
    """Return the cluster that each user's plays favour over the others, or ``NO_GROUP``."""
    likelihoods = log_likelihoods(plays, centres)
    best = likelihoods.argmax(axis=1)
    every = np.arange(len(best))
    lead = likelihoods[every, best].copy()
    likelihoods[every, best] = -np.inf
    lead -= likelihoods.max(axis=1)
    return np.where(lead >= CERTAINTY, best, NO_GROUP)


def _assigned(plays: Plays, centres: FloatArray, gains: FloatArray, *, most: int) -> Groups:
    """Assign all users to candidates with a positive gain that are larger than a coalition."""
    labels = certain(plays, centres)
    sizes = np.bincount(labels[labels != NO_GROUP], minlength=len(centres))
    kept = np.flatnonzero((gains > 0.0) & (sizes > most))
    places = np.full(len(centres) + 1, NO_GROUP)
    places[kept] = np.arange(len(kept))
    return Groups(places[labels], tuple(gains[kept].tolist()), len(centres))


LARGEST_FRACTION = 0.45
"""Ours: the largest share of colluders that is assumed within a group."""


def group_decisions(
    groups: Groups, tallies: Tallies, policy: Policy, user_labels: Labels, *, design: DesignName
) -> GroupDecisions:
    """Learn each group by the policy's method; return decisions that differ from the policy's.

    All colluders may be in one group, so a group of n of L users is learned for αL/n of them.
    """
    n_bad = policy.alpha * tallies.n_users
    tables = []
    for number, size in enumerate(groups.sizes.tolist()):
        own = tallies.of_users(np.flatnonzero(groups.members == number))
        own = own.labelled(own.user_labels, policy.context_labels, policy.action_labels)
        alpha = min(n_bad / size, LARGEST_FRACTION)
        learn = method_named(policy.method)
        estimates = learn(own, design_of_log(own, design), alpha=alpha)
        learned = estimates.policy(own, alpha=alpha, method=policy.method)
        differs = learned.is_learned & (learned.actions != policy.actions)
        tables.append(np.where(differs, learned.actions, UNKNOWN))
    members = np.flatnonzero(groups.members != NO_GROUP)
    return GroupDecisions(
        Labels(user_labels.values[members]),
        groups.members[members].astype(np.int64),
        np.array(tables, np.int64).reshape(len(tables), len(policy.context_labels)),
    )
