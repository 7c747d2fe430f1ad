"""Trees that split where the contrasts between actions differ."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.events.events import Codes
from unswayed.learners.features.encoding import Rows, SmallCodes
from unswayed.policy.partition import MISSING, Feature, Nodes, Split, single_split

#: Ours: minimum number of events on each side of a split.
MIN_EVENTS = 40

#: Ours: maximum number of cuts per feature, best first, that are checked for enough users on both
#: sides.
_CUTS_TRIED = 6
_CUTS_TRIED_IN_ALL = 24

#: Ours: prior plays that shrink the means of a level before levels are ordered.
_SHRUNKEN_BY = 20.0


@dataclass(frozen=True, slots=True)
class Growth:
    """Limits on the size of a tree."""

    max_leaves: int
    min_users: float  # minimum weight of the users on each side of a split
    trusted_users: float  # the same for trusted attributes
    strictness: float = 1.0  # multiple of the chi-square bound that a split must exceed


@compiled
def _histograms(
    codes: SmallCodes,
    actions: Codes,
    weights: FloatArray,
    rewards: FloatArray,
    rows: IntArray,
    n_codes: int,
    n_actions: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the sums that splits are scored by.

    By feature, code and action: the weight and the weighted sum of rewards. By action: the weighted
    sum of squared rewards and the sum of squared weights.
    """
    n_features = codes.shape[1]
    sums, squares = np.zeros((n_features, n_codes, n_actions, 2)), np.zeros((2, n_actions))
    for row in rows:
        action, weight = actions[row], weights[row]
        reward = weight * rewards[row]
        squares[0, action] += reward * rewards[row]
        squares[1, action] += weight**2
        for feature in range(n_features):
            code = codes[row, feature]
            sums[feature, code, action, 0] += weight
            sums[feature, code, action, 1] += reward
    return sums, squares


class _Cuts(NamedTuple):
    """Cuts of a feature along an order of its codes, with their statistics and a common bound."""

    place: int
    order: IntArray
    statistics: FloatArray
    bound: float


class _Found(NamedTuple):
    """The best split of a node: its gain, and the codes and rows of its two sides."""

    gain: float
    feature: int
    branches: tuple[tuple[int, ...], ...]
    sides: tuple[IntArray, IntArray]


class Grower:
    """Grows trees on some events.

    Parameters
    ----------
    rows
        The events; those of weight 0 are left out.
    features
        What their codes stand for.
    user_weights
        Shape (n_users,); how much each user counts towards the users of a leaf.
    design_effect
        Factor by which repeated plays of a user inflate the variance of means.

    Only ``by_codes`` uses columns of codes beyond those of ``features``.
    """

    def __init__(
        self,
        rows: Rows,
        features: tuple[Feature, ...],
        user_weights: FloatArray,
        design_effect: float,
    ) -> None:
        self.rows, self.design_effect = rows, design_effect
        self._features = features
        self._user_weights = user_weights
        self._n_codes = int(max(max(f.n_codes for f in features), rows.codes.max(initial=0) + 1))
        n_cuts = sum(feature.n_codes - 1 for feature in features)
        self._log_looks = float(np.log(max(n_cuts, 2)))
        self._seen = [np.bincount(codes, minlength=self._n_codes) > 0 for codes in rows.codes.T]
        self._cuts_of: dict[bytes, list[_Cuts]] = {}

    def grow(self, growth: Growth, selected: BoolArray) -> Nodes:
        """Return the nodes of a tree on the selected events."""
        everything = np.flatnonzero(selected & (self.rows.weights > 0))
        nodes: list[Split | None] = [None]
        waiting = {0: self._best(everything, growth)}
        while len(waiting) < growth.max_leaves:
            found = {place: best for place, best in waiting.items() if best is not None}
            if not found:
                break
            place = max(found, key=lambda number: found[number].gain)
            best = found[place]
            del waiting[place]
            nodes[place] = Split(best.feature, best.branches, (len(nodes), len(nodes) + 1))
            for rows in best.sides:
                nodes.append(None)
                waiting[len(nodes) - 1] = self._best(rows, growth)
        return tuple(nodes)

    def by_codes(self, feature: int, growth: Growth, selected: BoolArray) -> Nodes:
        """Return a split of the selected events by the codes of a feature.

        Codes with few users or events share a branch, as do the rarest ones if there are more codes
        than leaves. Codes and advised actions that do not occur among these events join the largest
        branch, since later events may have them.
        """
        rows = np.flatnonzero(selected & (self.rows.weights > 0))
        column = self.rows.codes[rows, feature]
        here, sizes = np.unique(column, return_counts=True)
        if len(here) < 2:
            return (None,)
        has_users = [self._n_users(rows[column == code]) >= growth.min_users for code in here]
        by_size = np.argsort(-sizes, kind="stable")
        is_large = (has_users & (sizes >= 5 * MIN_EVENTS))[by_size]
        branches = [[code] for code in here[by_size][is_large].tolist()[: growth.max_leaves - 1]]
        rest = sorted(set(here.tolist()).difference(*branches))
        if rest:
            branches.append(rest)
        others = set(np.flatnonzero(self._seen[feature]).tolist())
        if feature >= len(self._features):
            others |= set(range(2, 2 + self.rows.events.n_actions))
        branches[0] += sorted(others.difference(here.tolist()))
        return single_split(feature, branches)

    def _n_users(self, rows: IntArray) -> float:
        users = self.rows.events.users[rows]
        is_there = np.bincount(users, minlength=len(self._user_weights)) > 0
        return float(self._user_weights[is_there].sum())

    def _best(self, rows: IntArray, growth: Growth) -> _Found | None:
        """Return the best split of some events, or None."""
        if len(rows) < 2 * MIN_EVENTS or growth.max_leaves < 2:
            return None
        # Trees on the same events differ only in their limits, so most of their nodes are shared.
        key = hashlib.blake2b(rows.data, digest_size=16).digest()
        if key not in self._cuts_of:
            self._cuts_of[key] = self._scored(rows)
        cuts: list[tuple[float, int, IntArray]] = []
        for place, order, statistics, bound in self._cuts_of[key]:
            gains = statistics - growth.strictness * bound
            best = np.argsort(-gains, kind="stable")[:_CUTS_TRIED]
            cuts += [(float(gains[cut]), place, order[: cut + 1]) for cut in best if gains[cut] > 0]
        cuts.sort(key=lambda cut: -cut[0])
        for gain, place, codes in cuts[:_CUTS_TRIED_IN_ALL]:
            is_left = np.zeros(self._n_codes, np.bool_)
            is_left[codes] = True
            goes_left = is_left[self.rows.codes[rows, place]]
            left, right = rows[goes_left], rows[~goes_left]
            if min(len(left), len(right)) < MIN_EVENTS:
                continue
            is_trusted = self._features[place].is_trusted
            needed = growth.trusted_users if is_trusted else growth.min_users
            if min(self._n_users(left), self._n_users(right)) < needed:
                continue
            branches = self._branches(place, is_left, rows, goes_left)
            return _Found(gain, place, branches, (left, right))
        return None

    def _scored(self, rows: IntArray) -> list[_Cuts]:
        """Return the scored cuts of some events, one entry per feature and order of its codes."""
        events = self.rows.events
        sums, squares = _histograms(
            self.rows.codes,
            events.actions,
            self.rows.weights,
            events.rewards,
            rows,
            self._n_codes,
            events.n_actions,
        )
        weight, total = sums[0, :, :, 0].sum(axis=0), sums[0, :, :, 1].sum(axis=0)
        if (weight > 0).sum() < 2:
            return []
        within = np.maximum(squares[0] - total**2 / np.maximum(weight, 1e-9), 0.0)
        common = max(within.sum() / weight.sum(), 1e-12)
        variances = (within + _SHRUNKEN_BY * common) / (weight + _SHRUNKEN_BY)
        # Unequal weights: the variance of a weighted mean is Σw²σ²/(Σw)².
        uneven = np.maximum(squares[1], 1e-9) / np.maximum(weight, 1e-9)
        variances *= uneven * self.design_effect
        cuts = []
        for place, feature in enumerate(self._features):
            of_codes = sums[place]
            live = np.flatnonzero(of_codes[:, :, 0].sum(axis=1) > 0)
            if len(live) < 2:
                continue
            for order in _orders(feature, live, of_codes, weight, total):
                sides = of_codes[order].cumsum(axis=0)[:-1]
                freedom = (weight > 0).sum() - 1.0
                if not feature.is_number:  # the order of levels depends on their rewards
                    freedom += 0.5 * np.sqrt(len(order) * len(weight))
                bound = freedom + 2.0 * np.sqrt(freedom * self._log_looks) + 2.0 * self._log_looks
                statistics = _contrasts(sides, weight, total, variances)
                cuts.append(_Cuts(place, order, statistics, bound))
        return cuts

    def _branches(
        self, place: int, is_left: BoolArray, rows: IntArray, goes_left: BoolArray
    ) -> tuple[tuple[int, ...], ...]:
        """Return the codes of both sides, including those that do not occur here.

        Bins that do not occur join the side of the nearest bin that does; levels join the larger
        side.
        """
        is_here = np.bincount(self.rows.codes[rows, place], minlength=self._n_codes) > 0
        side = np.where(is_here, is_left, goes_left.mean() > 0.5)
        if self._features[place].is_number:
            here = np.flatnonzero(is_here[2:]) + 2
            if len(here):
                codes = np.arange(2, self._n_codes)
                nearest = here[np.abs(codes[:, None] - here[None, :]).argmin(axis=1)]
                side[2:] = is_left[nearest]
        seen = self._seen[place]
        return tuple(tuple(np.flatnonzero(seen & one).tolist()) for one in (side, ~side))


def _contrasts(
    left: FloatArray, weight: FloatArray, total: FloatArray, variances: FloatArray
) -> FloatArray:
    """Return the contrast statistic of each cut; −∞ if a side is too small.

    H = Σ h_a (d_a − m)² with d_a the difference of an action's means between the two sides, h_a
    its precision and m their weighted mean is chi-square with f = A − 1 degrees of freedom if the
    sides differ in level only; P(H > f + 2√(f x) + 2x) ≤ exp(−x) (Laurent & Massart 2000).
    ``left`` has shape (n_cuts, n_actions, 2): weight and sum of rewards of one side.
    """
    w_left, r_left = left[:, :, 0], left[:, :, 1]
    w_right, r_right = weight - w_left, total - r_left
    is_met = (w_left > 1e-9) & (w_right > 1e-9)
    means = r_left / np.maximum(w_left, 1e-9), r_right / np.maximum(w_right, 1e-9)
    difference = np.where(is_met, means[0] - means[1], 0.0)
    precision = np.where(is_met, w_left * w_right / np.maximum(weight, 1e-9), 0.0) / variances
    mean = (precision * difference).sum(axis=1) / np.maximum(precision.sum(axis=1), 1e-12)
    statistic = (precision * (difference - mean[:, None]) ** 2).sum(axis=1)
    is_small = np.minimum(w_left.sum(axis=1), w_right.sum(axis=1)) < 0.5 * MIN_EVENTS
    return np.where(is_small, -np.inf, statistic)


def _orders(
    feature: Feature, live: IntArray, of_codes: FloatArray, weight: FloatArray, total: FloatArray
) -> list[IntArray]:
    """Return the orders in which a feature's codes are cut.

    Bins keep their order, with missing values at either end. Levels are ordered along the first two
    principal directions of their contrasts between actions, shrunken by the number of plays.
    """
    if feature.is_number:
        if live[0] != MISSING:
            return [live]
        return [live, np.append(live[1:], MISSING)]
    means = total / np.maximum(weight, 1e-9)
    shrunken = (of_codes[live, :, 1] + _SHRUNKEN_BY * means) / (
        of_codes[live, :, 0] + _SHRUNKEN_BY
    ) - means
    contrasts = shrunken - np.average(shrunken, axis=1, weights=weight + 1e-9)[:, None]
    scale = np.sqrt(weight / weight.sum())
    of_levels = np.sqrt(of_codes[live, :, 0].sum(axis=1))[:, None]
    directions = np.linalg.svd(contrasts * of_levels * scale, full_matrices=False)[2]
    return [
        live[np.argsort(contrasts @ (scale * direction), kind="stable")]
        for direction in directions[:2]
    ]


def design_effect(rows: Rows) -> float:
    """Return the factor by which repeated plays of a user inflate the variance of an action's mean.

    It is the variance of users' sums of residuals, relative to that of independent plays, and at
    least 1. It is the median over actions, so that a coalition that pushes one of them cannot
    determine it.
    """
    events, n_actions = rows.events, rows.events.n_actions
    weight = np.bincount(events.actions, rows.weights, n_actions)
    total = np.bincount(events.actions, rows.weights * events.rewards, n_actions)
    means = total / np.maximum(weight, 1e-9)
    residuals = rows.weights * (events.rewards - means[events.actions])
    keys = events.users.astype(np.int64) * n_actions + events.actions
    pairs, places = np.unique(keys, return_inverse=True)
    together = np.bincount(pairs % n_actions, np.bincount(places, residuals) ** 2, n_actions)
    apart = np.bincount(events.actions, residuals**2, n_actions)
    is_met = apart > 0
    return max(1.0, float(np.median(together[is_met] / apart[is_met]))) if is_met.any() else 1.0
