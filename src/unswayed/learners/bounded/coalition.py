"""A coalition: a second population with free tilts in every cell, fitted by EM.

Colluders and honest accounts have different tilts in each cell, and the same distribution of
tastes. Probabilities of membership follow from the likelihoods and a prior by activity. Initial
memberships depend on the accounts' residuals only, not on which action is best.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray
from unswayed.engine import Blocked
from unswayed.learners.bounded.honest import (
    FEWEST,
    GRID_END,
    LONG_STEPS,
    N_DIRECTIONS,
    PRICE,
    PRIOR_SIZE,
    SHORT_STEPS,
    Accounts,
    Honest,
    Law,
    Likelihoods,
    class_levels,
    class_shares,
    fit_plain,
    fit_tastes,
    leading_directions,
    likelihoods,
    refit,
)
from unswayed.learners.bounded.rewards import Responses
from unswayed.tallies import entry_users

USUAL_TASTE = 0.3
"""Root mean square of the loadings from which the fit of tastes starts."""

N_FINALISTS = 2
"""Number of best candidates for each honest model that are fitted with ``LONG_STEPS``."""

MOST_NATS = 5.0
"""Largest contribution of a single account to the evidence, in nats."""

ALIKE = 0.9
"""Two candidates count as the same if their memberships are correlated more strongly than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Coalition:
    """A candidate coalition.

    Attributes
    ----------
    members
        Shape (n_users,); probability of membership.
    tilts, honest_tilts
        Shape (n_cells,); tilts of colluders and of honest accounts.
    gain
        Log-likelihood gain over the best model of honest accounts, minus penalties, in nats.
    honest
        The model of honest accounts.
    prior
        Shape (n_activity,); prior probability of membership, by log2 of activity.
    action_tilts, level
        Tilts of colluders for each action, shape (n_actions,), and for all actions together.
    n_free
        Number of free parameters among the tilts.
    """

    members: FloatArray
    tilts: FloatArray
    honest_tilts: FloatArray
    gain: float
    honest: Honest
    prior: FloatArray
    action_tilts: FloatArray
    level: float
    n_free: int


class Search:
    """A search for coalitions among accounts."""

    def __init__(
        self,
        accounts: Accounts,
        law: Law,
        weights: FloatArray,
        n_actions: int,
        *,
        expected: float,
        rng: np.random.Generator,
    ) -> None:
        self.accounts, self.law, self.weights = accounts, law, weights
        self.n_cells, self.n_actions = len(law.means), n_actions
        self.by_action = np.arange(self.n_cells) % n_actions
        self.expected = expected
        self.plays, self.scores = accounts.sums(weights, self.n_cells)
        self.usual = law.solve(self.scores, self.plays + 2.0, np.zeros(self.n_cells))
        self.in_class = np.bincount(accounts.activity, weights)
        directions, self.places = leading_directions(accounts, law, weights, rng)
        # Start the fit of tastes from the leading directions, scaled to a usual taste.
        tastes = USUAL_TASTE * np.sqrt(self.n_cells) * directions
        self.plain = fit_plain(accounts, law, weights)
        self.best = fit_tastes(accounts, law, weights, self.plain, tastes, n_actions)

    def candidates(self, known: BoolArray, least: float) -> list[Coalition]:
        """Return the coalitions that gain more than ``least`` nats, the best first.

        ``known`` marks accounts that are known to collude; they are one of the starts.
        """
        if (self.weights > 0.5).sum() < FEWEST:
            return []
        starts = self._starts()
        if known.any():
            starts.append(np.where(known, 0.9, 0.0))
        finals: list[Coalition] = []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # Tastes in the model may reveal a coalition or absorb it, so models with and without
            # are tried.
            for honest in [self.plain] if self.best is self.plain else [self.plain, self.best]:
                fits = list(pool.map(partial(self._short, honest), starts))
                finals += pool.map(self._long, _distinct(fits)[:N_FINALISTS])
        return [fit for fit in _distinct(finals) if fit.gain > least]

    def _short(self, honest: Honest, members: FloatArray) -> Coalition:
        fit = self._em(self._start(members, honest), SHORT_STEPS)
        return max(fit, self._by_action(fit), key=attrgetter("gain"))

    def _long(self, fit: Coalition) -> Coalition:
        last = self._em(self._refitted(fit), LONG_STEPS, turn=True)
        return max(self._aimed(last), self._aimed(self._by_action(last)), key=attrgetter("gain"))

    def _by_action(self, fit: Coalition) -> Coalition:
        """Return the coalition with one tilt per action, which needs fewer parameters."""
        tilts, others = fit.action_tilts[self.by_action], self._others(fit.members)
        return self._e_step(replace(fit, tilts=tilts, honest_tilts=others, n_free=self.n_actions))

    def _others(self, members: FloatArray) -> FloatArray:
        """Return the tilts of all accounts, with a shift per action fitted to non-members."""
        plays, scores = self.accounts.sums(self.weights * (1.0 - members), self.n_cells)
        moved = self.usual
        for _ in range(2):
            _, slope, curvature = self.law.at(moved)
            missing = np.bincount(self.by_action, scores - plays * slope, self.n_actions)
            information = np.bincount(self.by_action, plays * curvature, self.n_actions)
            moved = moved + np.clip(missing / (information + 2.0), -1.0, 1.0)[self.by_action]
        return np.clip(moved, -GRID_END / 2.0, GRID_END / 2.0)

    def _refitted(self, fit: Coalition) -> Coalition:
        """Refit honest accounts without the members, if the gain increases."""
        rest = self.weights * (1.0 - fit.members)
        honest = refit(self.accounts, self.law, rest, self.plain, self.best)
        return max(fit, self._e_step(replace(fit, honest=honest)), key=attrgetter("gain"))

    def _aimed(self, fit: Coalition) -> Coalition:
        """Subtract the evidence that a difference in level alone explains.

        A group with the same tilt in all cells, absolutely or relative to the other accounts, is
        not a coalition: buyers, scrapers and generous raters are such groups.
        """
        plays, scores = self.accounts.sums(self.weights * (1.0 - fit.members), self.n_cells)
        everywhere = np.zeros(self.n_cells, np.int64)
        others = self.law.solve(scores, plays, np.zeros(1), everywhere, 8)
        theirs = np.maximum(self.plays - plays, 1e-12) * self.law.variances
        level = float(np.average(fit.tilts - fit.honest_tilts, weights=theirs))
        flat = [
            replace(fit, tilts=fit.honest_tilts + level, n_free=1),
            replace(
                fit,
                tilts=np.full(self.n_cells, fit.level),
                honest_tilts=np.full(self.n_cells, others[0]),
                n_free=1,
            ),
        ]
        explained = max(self._e_step(one).gain for one in flat)
        return replace(fit, gain=min(fit.gain, fit.gain - explained))

    def _start(self, members: FloatArray, honest: Honest) -> Coalition:
        """Return a candidate with the given members."""
        zero = np.zeros(self.n_cells)
        # Members are left out, because their levels may contain the coalition's lies.
        shares = class_shares(self.weights * (1.0 - members) * honest.classes)
        return Coalition(
            members,
            zero,
            zero,
            -np.inf,
            replace(honest, shares=shares),
            self._prior(members),
            np.zeros(self.n_actions),
            0.0,
            0,
        )

    def _prior(self, members: FloatArray) -> FloatArray:
        q = self.weights * members
        share = q.sum() / self.weights.sum()
        prior = (
            np.bincount(self.accounts.activity, q, len(self.in_class)) + PRIOR_SIZE * share
        ) / (self.in_class + PRIOR_SIZE)
        share = float(prior @ self.in_class / self.weights.sum())
        clipped = np.clip(prior * min(1.0, self.expected / max(share, 1e-9)), 1e-6, 0.9)
        return np.asarray(clipped, np.float64)

    def _em(self, fit: Coalition, steps: int, *, turn: bool = False) -> Coalition:
        for step in range(steps):
            fit = self._m_step(fit)
            if turn and step < steps // 2:
                fit = self._turned(fit)
            fit = self._e_step(fit)
        return fit

    def _turned(self, fit: Coalition) -> Coalition:
        """Swap the tilts of members and others in cells where members would be the majority."""
        users = entry_users(self.accounts.indptr)
        theirs = np.bincount(self.accounts.cells, (self.weights * fit.members)[users], self.n_cells)
        n = np.bincount(self.accounts.cells, self.weights[users], self.n_cells)
        is_turned = theirs > 0.5 * n
        if not is_turned.any():
            return fit
        tilts = np.where(is_turned, fit.honest_tilts, fit.tilts)
        others = np.where(is_turned, fit.tilts, fit.honest_tilts)
        return replace(fit, tilts=tilts, honest_tilts=others)

    def _m_step(self, fit: Coalition) -> Coalition:
        """Fit tilts by the method of moments, which does not stall if tastes explain a shift."""
        law, by_action = self.law, self.by_action
        plays, scores = self.accounts.sums(self.weights * fit.members, self.n_cells)
        steps = 3 if fit.n_free else 8
        everywhere = np.zeros(self.n_cells, np.int64)
        level = law.solve(scores, plays, np.array([fit.level]), everywhere, steps)
        of_action = law.solve(scores, plays + 1e-6, fit.action_tilts, by_action, steps)
        z_action = (of_action - level) ** 2 * np.bincount(by_action, plays * law.variances)
        base = (level + (of_action - level) * _kept(z_action))[by_action]
        raw = law.solve(scores + 2.0 * law.at(base)[1], plays + 2.0, base, steps=steps)
        z = (raw - base) ** 2 * plays * law.variances
        tilts = base + (raw - base) * _kept(z)
        # Honest tilts deviate only where the coalition's do; elsewhere they would fit noise.
        usual = self._others(fit.members)
        honest_plays = np.maximum(self.plays - plays, 0.0) + 2.0
        others = law.solve(self.scores - scores, honest_plays, fit.honest_tilts, steps=2)
        others = usual + (others - usual) * _kept(z)
        return replace(
            fit,
            tilts=tilts,
            honest_tilts=others,
            prior=self._prior(fit.members),
            action_tilts=of_action,
            level=float(level[0]),
            n_free=1 + int((z > 1.0).sum() + (z_action > 1.0).sum()),
        )

    def _e_step(self, fit: Coalition) -> Coalition:
        honest, w = fit.honest, self.weights
        found, odds = _odds(self.accounts, self.law, w, fit)
        prior = fit.prior[self.accounts.activity]
        mixed = found.honest + np.log1p(-prior) + np.logaddexp(0.0, odds)
        # Each account's contribution is limited, since one or two accounts are not a coalition.
        total = float(w @ np.minimum(mixed - self.best.log_likelihoods, MOST_NATS))
        members = special.expit(odds)
        if w @ members > self.expected * w.sum():
            members = special.expit(odds + _offset(odds, w, self.expected * float(w.sum())))
        parts = w * (1.0 - members) * found.classes
        return replace(
            fit,
            members=members,
            gain=total - (honest.price - self.best.price) - PRICE * fit.n_free,
            honest=replace(
                honest,
                covariance=found.covariance(parts[0], honest.covariance),
                shares=class_shares(parts),
                levels=class_levels(
                    self.accounts, self.law, parts, fit.honest_tilts, honest.levels
                ),
            ),
        )

    def _starts(self) -> list[FloatArray]:
        """Return initial memberships: by skewed directions, by activity, and by level."""
        # Accounts with an unusual level may be a coalition whose lies the levels explain.
        unusual = 0.9 * (1.0 - self.plain.classes[0])
        return [
            *self._most_skewed(self.places),
            *self._most_skewed(self._places_by_action()),
            self._as_active(),
            unusual,
        ]

    def _as_active(self) -> FloatArray:
        """Return memberships of the activity class whose rewards differ most, apart from its level.

        Colluders who come once leave no correlated plays; they have only their activity in common.
        """
        active, n = self.accounts.activity, len(self.in_class)
        excess = np.full(n, -np.inf)
        for k in np.flatnonzero(self.in_class >= FEWEST):
            plays, scores = self.accounts.sums(self.weights * (active == k), self.n_cells)
            information = plays * self.law.variances
            scores -= information * scores.sum() / max(float(information.sum()), 1e-9)
            excess[k] = (scores**2 / (information + 1.0)).sum()
        return np.where((active == excess.argmax()) & (self.weights > 0.5), 0.9, 0.0)

    def _most_skewed(self, places: FloatArray) -> list[FloatArray]:
        """Return memberships at the ends of the most skewed columns of ``places``.

        ``places`` has shape (n_users, n_directions). Each end is tried with two thresholds: where
        it most outweighs the opposite end, and where it has as many accounts as may collude.
        """
        is_in = self.weights > 0.5
        n_members = max(3, int(self.expected * is_in.sum()))
        places = places - np.median(places[is_in], axis=0)
        both = [(*_heavy_end(y[is_in], n_members), y) for y in (*places.T, *-places.T)]
        both.sort(key=lambda found: -found[0])
        kept: list[FloatArray] = []
        found: list[FloatArray] = []
        for _, *ends, y in both:
            if not any(correlation(y[is_in], other[is_in]) > ALIKE for other in kept):
                kept.append(y)
                found += [np.where(is_in & (y >= least), 0.9, 0.0) for least in ends]
            if len(kept) == N_DIRECTIONS:
                break
        return found

    def _places_by_action(self) -> FloatArray:
        """Return each account's z-score for each action, minus the account's mean over actions."""
        place = entry_users(self.accounts.indptr) * self.n_actions
        place += self.accounts.cells % self.n_actions
        size = self.accounts.n_users * self.n_actions
        plays = self.accounts.plays * self.law.variances[self.accounts.cells]
        scores = np.bincount(place, self.accounts.scores, size)
        z = scores / np.sqrt(np.bincount(place, plays, size) + 1.0)
        z = z.reshape(-1, self.n_actions)
        return np.asarray(z - z.mean(axis=1, keepdims=True))


def _heavy_end(places: FloatArray, most: int) -> tuple[float, float, float]:
    """Return the excess of the upper over the lower end, and two thresholds for the upper end.

    The excess is the difference between the numbers of accounts above x and below −x, in standard
    errors, at its maximum. The thresholds are this x and the ``most``-th largest of ``places``.
    """
    ascending = np.sort(places)
    ends = ascending[::-1][2:most]
    above = len(places) - np.searchsorted(ascending, ends, side="left")
    below = np.searchsorted(ascending, -ends, side="right")
    excess = np.where(ends > 0.0, (above - below) / np.sqrt(above + below), -np.inf)
    best = int(excess.argmax())
    return float(excess[best]), float(ends[best]), float(max(ends[-1], 0.0))


def members_of(
    blocks: Blocked[Responses],
    coalition: Coalition,
    law: Law,
    weights: FloatArray,
    room: float,
) -> FloatArray:
    """Return all accounts' probabilities of membership; shape (n_users,)."""
    odds = blocks.map_rows(log_odds, coalition, law, rows=weights)
    mass = room * float(weights.sum())
    if weights @ special.expit(odds) > mass:
        odds = odds + _offset(odds, weights, mass)
    return np.asarray(special.expit(odds))


def log_odds(rows: Responses, weights: FloatArray, coalition: Coalition, law: Law) -> FloatArray:
    """Return the log-odds of membership for the accounts of a block."""
    return _odds(Accounts.of(rows, law), law, weights, coalition)[1]


def _odds(
    accounts: Accounts, law: Law, weights: FloatArray, fit: Coalition
) -> tuple[Likelihoods, FloatArray]:
    """Return the likelihoods and the log-odds of membership of accounts."""
    found = likelihoods(accounts, law, weights, fit.honest, fit.honest_tilts, fit.tilts)
    prior = fit.prior[np.minimum(accounts.activity, len(fit.prior) - 1)]
    return found, np.asarray(found.colluding - found.honest + special.logit(prior))


def _kept(z: FloatArray) -> FloatArray:
    """Return the positive-part shrinkage factor of a squared z-value."""
    return np.maximum(0.0, 1.0 - 1.0 / np.maximum(z, 1e-9))


def _distinct(fits: list[Coalition]) -> list[Coalition]:
    """Return the fits by descending gain, without near-duplicates of better ones."""
    kept: list[Coalition] = []
    for fit in sorted(fits, key=lambda fit: -fit.gain):
        if not any(correlation(fit.members, other.members) > ALIKE for other in kept):
            kept.append(fit)
    return kept


def correlation(one: FloatArray, other: FloatArray) -> float:
    """Return the correlation of two arrays; 0 if one of them does not vary."""
    one, other = one - one.mean(), other - other.mean()
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 1e-12 else 0.0


def _offset(odds: FloatArray, weights: FloatArray, mass: float) -> float:
    """Return the shift of the log-odds at which weighted memberships sum to ``mass``."""
    low, high = -60.0, 0.0
    for _ in range(30):
        middle = (low + high) / 2.0
        if weights @ special.expit(odds + middle) > mass:
            high = middle
        else:
            low = middle
    return low
