"""A coalition: a second population whose tilts are free in every cell, found by EM.

Colluders have the tilts d1 and no tastes of their own beyond the honest ones; honest accounts have
d0. Membership follows from the likelihoods and a prior by activity. Starts come from the accounts'
residuals alone and do not know which action wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.engine import Blocked
from unswayed.learners.bounded.honest import (
    N_DIRECTIONS,
    PRICE,
    Accounts,
    Honest,
    Law,
    class_levels,
    class_shares,
    factor_analysis,
    fit_plain,
    fit_tastes,
    leading_directions,
    likelihoods,
    refit,
    sparse_directions,
)
from unswayed.learners.bounded.rewards import Responses
from unswayed.tallies import entry_users

N_ACTIONS = 4
"""Starts from coalitions about a single action."""

SHORT_STEPS, LONG_STEPS, N_FINALISTS = 3, 8, 2
"""Steps of EM from every start, steps from the best, and how many of them."""

FEWEST_ACCOUNTS = 20
"""Accounts among whom a coalition is searched, at least."""

MOST_NATS = 5.0
"""Nats that a single account can add to the evidence."""

ACTIVITY_ACCOUNTS = 30.0
"""The prior of an activity class is shrunk towards that of all by this many accounts."""

TILT_PAIRS = (
    (1.0, 0.0),
    (2.0, 0.0),
    (1.0, -0.7),
    (2.0, -0.7),
    (-1.0, 0.0),
    (-2.0, 0.0),
    (-1.0, 0.35),
    (-2.0, 0.35),
)
"""Tilts of colluders and of others on one action, from which EM may start."""

TURNS = 4
"""Steps of the long runs in which roles are exchanged where most accounts of a cell are members."""

ALIKE = 0.9
"""Correlation of memberships from which two candidates are the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Coalition:
    """A candidate.

    Attributes
    ----------
    members
        Shape (n_users,); probability of membership.
    tilts, honest_tilts
        Shape (n_cells,); of colluders and of the others.
    aim
        Shape (n_cells,); tilts of colluders relative to the others and to their own level.
    gain
        Nats gained over the better model of honest accounts, prices paid.
    honest
        Loadings, covariance and levels of honest accounts.
    prior
        Shape (n_activity,); prior probability by log2 of activity.
    action_tilts, level
        Shape (n_actions,) and a number; tilts of colluders on each action, and on all.
    n_free
        Free numbers among the tilts.
    """

    members: FloatArray
    tilts: FloatArray
    honest_tilts: FloatArray
    aim: FloatArray
    gain: float
    honest: Honest
    prior: FloatArray
    action_tilts: FloatArray
    level: float
    n_free: int


class Search:
    """Looks for coalitions among accounts."""

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
        self.rng, self.expected = rng, expected
        self.plays, self.scores = accounts.sums(weights, self.n_cells)
        self.in_class = np.bincount(accounts.activity, weights)
        self.directions = leading_directions(accounts, law, weights, rng)
        self.plain = fit_plain(accounts, law, weights)
        self.best = fit_tastes(accounts, law, weights, self.plain, self.directions, n_actions)

    def candidates(self, known: BoolArray, least: float) -> list[Coalition]:
        """Return the coalitions that gain more than ``least`` nats, the best first.

        ``known`` are accounts that are known to collude, and that others may collude with.
        """
        if (self.weights > 0.5).sum() < FEWEST_ACCOUNTS:
            return []
        # Levels may have absorbed a coalition that praises one action and sinks another.
        unusual = 0.9 * (1.0 - self.plain.classes[0])
        starts = [*self._direction_starts(), *self._action_starts(), unusual]
        if known.any():
            starts.append(0.9 * known)
        distinct: list[Coalition] = []
        models = [self.plain] if self.best is self.plain else [self.plain, self.best]
        for honest in models:
            fits = [self._em(self._start(members, honest), SHORT_STEPS) for members in starts]
            fits.sort(key=lambda fit: -fit.gain)
            n_before = len(distinct)
            for fit in fits:
                if len(distinct) < n_before + N_FINALISTS and not any(
                    _alike(fit, other) for other in distinct
                ):
                    distinct.append(fit)
        finals: list[Coalition] = []
        for fit in distinct:
            self._finish(fit, finals)
        finals.sort(key=lambda fit: -fit.gain)
        if finals:
            self._finish(self._mirrored(finals[0]), finals)
        if len(finals) > 1:
            self._finish(self._crossed(*finals[:2]), finals)
        return sorted((fit for fit in finals if fit.gain > least), key=lambda fit: -fit.gain)

    def _finish(self, fit: Coalition, finals: list[Coalition]) -> None:
        """Continue a short run, and add the result to ``finals`` unless it is there already."""
        last = self._em(self._refitted(fit), LONG_STEPS, turn=True)
        if not any(_alike(last, other) for other in finals):
            finals.append(self._aimed(last))

    def _crossed(self, one: Coalition, other: Coalition) -> Coalition:
        """Return a candidate with the tilts, in each cell, of the one that stands out more there.

        A start may explain one cell by the colluders and another one by honest extremes.
        """
        gaps = [np.abs(fit.tilts - fit.honest_tilts) for fit in (one, other)]
        is_one = gaps[0] >= gaps[1]
        tilts = np.where(is_one, one.tilts, other.tilts)
        others = np.where(is_one, one.honest_tilts, other.honest_tilts)
        return self._e_step(replace(one, tilts=tilts, honest_tilts=others))

    def _mirrored(self, fit: Coalition) -> Coalition:
        """Return a candidate with exchanged roles.

        Where liars sink an action, those who like it are a group, too, and may be found first.
        """
        prior = self._prior(1.0 - fit.members)
        return self._e_step(
            replace(fit, tilts=fit.honest_tilts, honest_tilts=fit.tilts, prior=prior)
        )

    def _refitted(self, fit: Coalition) -> Coalition:
        """Fit honest accounts anew without the members: tastes may have absorbed the coalition."""
        rest = self.weights * (1.0 - fit.members)
        honest = refit(self.accounts, self.law, rest, self.plain, self.best)
        return replace(fit, honest=honest)

    def _aimed(self, fit: Coalition) -> Coalition:
        """Count only the evidence that the group differs in more than its level.

        A group with the same tilt in all cells, relative to the others or to everybody, is no
        coalition: buyers, scrapers and generous raters are such groups.
        """
        level = float(np.average(fit.tilts - fit.honest_tilts - fit.aim))
        plays, scores = self.accounts.sums(self.weights * (1.0 - fit.members), self.n_cells)
        everywhere = np.zeros(self.n_cells, np.int64)
        others = self.law.solve(scores, plays, np.zeros(1), everywhere, 8)
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
        """Return a candidate with given members; honest tastes leave out what sets them apart."""
        covariance = honest.covariance
        if covariance.shape[0] > 1:
            q = self.weights * members
            rest = self.weights - q
            apart = q @ honest.tastes / q.sum() - rest @ honest.tastes / rest.sum()
            apart /= np.linalg.norm(apart) + 1e-12
            covariance = np.eye(len(apart)) - 0.7 * np.outer(apart, apart)
        zero = np.zeros(self.n_cells)
        return Coalition(
            members,
            zero,
            zero,
            zero,
            -np.inf,
            replace(
                honest,
                covariance=covariance,
                # Without the members: levels may have absorbed the coalition.
                shares=class_shares(self.weights * (1.0 - members) * honest.classes),
            ),
            self._prior(members),
            np.zeros(self.n_actions),
            0.0,
            0,
        )

    def _prior(self, members: FloatArray) -> FloatArray:
        q = self.weights * members
        share = q.sum() / self.weights.sum()
        prior = (
            np.bincount(self.accounts.activity, q, len(self.in_class)) + ACTIVITY_ACCOUNTS * share
        ) / (self.in_class + ACTIVITY_ACCOUNTS)
        share = float(prior @ self.in_class / self.weights.sum())
        clipped = np.clip(prior * min(1.0, self.expected / max(share, 1e-9)), 1e-6, 0.9)
        return np.asarray(clipped, np.float64)

    def _em(self, fit: Coalition, steps: int, *, turn: bool = False) -> Coalition:
        for step in range(steps):
            fit = self._m_step(fit)
            if turn and step < TURNS:
                fit = self._turned(fit)
            fit = self._e_step(fit)
        return fit

    def _turned(self, fit: Coalition) -> Coalition:
        """Exchange the roles in cells in which most accounts would be members."""
        one = np.ones(len(self.accounts.cells))
        users = entry_users(self.accounts.indptr)
        theirs = np.bincount(self.accounts.cells, (self.weights * fit.members)[users], self.n_cells)
        n = np.bincount(self.accounts.cells, self.weights[users] * one, self.n_cells)
        is_turned = theirs > 0.5 * n
        if not is_turned.any():
            return fit
        tilts = np.where(is_turned, fit.honest_tilts, fit.tilts)
        others = np.where(is_turned, fit.tilts, fit.honest_tilts)
        return replace(fit, tilts=tilts, honest_tilts=others)

    def _m_step(self, fit: Coalition) -> Coalition:
        """Fit tilts by moments, which do not stall where tastes explain a part of a shift."""
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
        honest_plays = np.maximum(self.plays - plays, 0.0) + 2.0
        others = law.solve(self.scores - scores, honest_plays, fit.honest_tilts, steps=2)
        weight = plays * law.variances
        gap = tilts - others
        own_level = float(weight @ gap / max(float(weight.sum()), 1e-9))
        return replace(
            fit,
            tilts=tilts,
            honest_tilts=others,
            aim=gap - own_level,
            prior=self._prior(fit.members),
            action_tilts=of_action,
            level=float(level[0]),
            n_free=1 + int((z > 1.0).sum() + (z_action > 1.0).sum()),
        )

    def _e_step(self, fit: Coalition) -> Coalition:
        honest, w = fit.honest, self.weights
        found = likelihoods(
            self.accounts,
            self.law,
            w,
            honest.loadings,
            honest.covariance,
            fit.honest_tilts,
            honest.levels,
            fit.tilts,
        )
        joint = found.honest + np.log(honest.shares)[:, None]
        as_honest = special.logsumexp(joint, axis=0)
        prior = fit.prior[self.accounts.activity]
        odds = found.colluding - as_honest + np.log(prior / (1.0 - prior))
        mixed = as_honest + np.log1p(-prior) + np.logaddexp(0.0, odds)
        # No account adds more than a few nats: a coalition takes more than one or two.
        total = float(w @ np.minimum(mixed - self.best.log_likelihoods, MOST_NATS))
        members = special.expit(odds)
        if w @ members > self.expected * w.sum():
            members = special.expit(odds + _offset(odds, w, self.expected * float(w.sum())))
        parts = w * (1.0 - members) * np.exp(joint - as_honest)
        return replace(
            fit,
            members=members,
            gain=total - (honest.price - self.best.price) - PRICE * fit.n_free,
            honest=replace(
                honest,
                covariance=found.covariance(parts[0]),
                shares=class_shares(parts),
                levels=class_levels(
                    self.accounts, self.law, parts, fit.honest_tilts, honest.levels
                ),
            ),
        )

    def _direction_starts(self) -> list[FloatArray]:
        """Return members along the most skewed directions of the accounts' tastes."""
        is_in = self.weights > 0.5
        _, tastes = factor_analysis(
            self.accounts, self.law, self.weights, self.directions, np.arange(self.n_cells)
        )
        tastes -= tastes[is_in].mean(axis=0)
        n_members = max(3, int(self.expected * is_in.sum()))
        values, vectors = np.linalg.eigh(tastes[is_in].T @ tastes[is_in] / is_in.sum())
        white = tastes @ (vectors / np.sqrt(np.maximum(values, 1e-6)))
        inside = np.clip(white[is_in], -4.0, 4.0)
        n = white.shape[1]
        directions = list(np.eye(n))
        for _ in range(2 * N_DIRECTIONS):
            d = self.rng.standard_normal(n)
            for _ in range(20):  # fixed point of the third moment
                d = d / (np.linalg.norm(d) + 1e-12)
                d = (inside * ((inside @ d) ** 2)[:, None]).mean(axis=0)
            directions.append(d / (np.linalg.norm(d) + 1e-12))
        places = [sign * (white @ d) for d in directions for sign in (1.0, -1.0)]
        places.sort(key=lambda y: -float((np.clip(y[is_in], -4.0, 4.0) ** 3).mean()))
        kept: list[FloatArray] = []
        for y in places:
            if not any(correlation(y[is_in], other[is_in]) > ALIKE for other in kept):
                kept.append(y)
            if len(kept) == N_DIRECTIONS:
                break
        for y in sparse_directions(self.accounts, self.law, self.weights, self.rng).T:
            skew = float((np.clip(y[is_in] / (y[is_in].std() + 1e-12), -4.0, 4.0) ** 3).mean())
            kept.append(y if skew > 0.0 else -y)
        found = []
        for y in kept:
            y = np.where(is_in, y, -np.inf)
            found.append(0.9 * (y >= np.partition(y, -n_members)[-n_members]))
        return found

    def _action_starts(self) -> list[FloatArray]:
        """Return members of coalitions about a single action, in closed form."""
        tilts = sorted({t for pair in TILT_PAIRS for t in pair})
        pairs = np.array([[tilts.index(t) for t in pair] for pair in TILT_PAIRS])
        psi = np.stack([self.law.at(np.full(self.n_cells, t))[0] for t in tilts])
        ratios, gains, priors = _action_gains(
            self.accounts,
            self.weights,
            len(self.in_class),
            self.n_actions,
            psi,
            np.array(tilts),
            pairs,
            self.expected,
        )
        order = np.argsort(-gains.ravel(), kind="stable")
        found: dict[tuple[int, bool], FloatArray] = {}
        for place in order:
            c, a = divmod(int(place), self.n_actions)
            key = (a, TILT_PAIRS[c][0] > 0)
            if key in found:
                continue
            prior = priors[c, a][self.accounts.activity]
            ratio = ratios[pairs[c, 0], :, a] - ratios[pairs[c, 1], :, a]
            found[key] = special.expit(ratio + np.log(prior / (1.0 - prior)))
            if len(found) == N_ACTIONS:
                break
        return list(found.values())


def members_of(
    blocks: Blocked[Responses],
    coalition: Coalition,
    law: Law,
    weights: FloatArray,
    room: float,
) -> FloatArray:
    """Return the probability of membership of all accounts; shape (n_users,)."""
    odds = blocks.map_rows(log_odds, coalition, law, rows=weights)
    mass = room * float(weights.sum())
    if weights @ special.expit(odds) > mass:
        odds = odds + _offset(odds, weights, mass)
    return np.asarray(special.expit(odds))


def log_odds(rows: Responses, weights: FloatArray, coalition: Coalition, law: Law) -> FloatArray:
    """Return the log-odds of membership of a block's accounts."""
    accounts, honest = Accounts.of(rows, law), coalition.honest
    found = likelihoods(
        accounts,
        law,
        weights,
        honest.loadings,
        honest.covariance,
        coalition.honest_tilts,
        honest.levels,
        coalition.tilts,
    )
    as_honest = special.logsumexp(found.honest + np.log(honest.shares)[:, None], axis=0)
    last = len(coalition.prior) - 1
    prior = coalition.prior[np.minimum(accounts.activity, last)]
    return np.asarray(found.colluding - as_honest + np.log(prior / (1.0 - prior)))


def _kept(z: FloatArray) -> FloatArray:
    """Return the positive-part shrinkage factor of a squared z-value."""
    return np.maximum(0.0, 1.0 - 1.0 / np.maximum(z, 1e-9))


def _alike(one: Coalition, other: Coalition) -> bool:
    return correlation(one.members, other.members) > ALIKE


def correlation(one: FloatArray, other: FloatArray) -> float:
    """Return the correlation of two arrays; 0 if one of them does not vary."""
    one, other = one - one.mean(), other - other.mean()
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 1e-12 else 0.0


def _offset(odds: FloatArray, weights: FloatArray, mass: float) -> float:
    """Return the shift of log-odds at which memberships have a given mass."""
    low, high = -60.0, 0.0
    for _ in range(30):
        middle = (low + high) / 2.0
        if weights @ special.expit(odds + middle) > mass:
            high = middle
        else:
            low = middle
    return low


@compiled
def _action_gains(
    accounts: Accounts,
    weights: FloatArray,
    n_activity: int,
    n_actions: int,
    psi: FloatArray,
    tilts: FloatArray,
    pairs: IntArray,
    most: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-ratios by tilt, account and action; gains and priors of two populations."""
    indptr, cells, plays, scores, activity = accounts
    n_users, n_tilts, n_pairs = len(indptr) - 1, len(tilts), len(pairs)
    ratios = np.zeros((n_tilts, n_users, n_actions))
    gains = np.zeros((n_pairs, n_actions))
    priors = np.zeros((n_pairs, n_actions, n_activity))
    total, in_class = weights.sum(), np.zeros(n_activity)
    for i in range(n_users):
        in_class[activity[i]] += weights[i]
        for p in range(indptr[i], indptr[i + 1]):
            j = cells[p]
            for t in range(n_tilts):
                ratios[t, i, j % n_actions] += scores[p] * tilts[t] - plays[p] * psi[t, j]
    for c in range(n_pairs):
        for a in range(n_actions):
            prior = np.full(n_activity, most / 3.0)
            for _ in range(3):
                found, mass, value = np.zeros(n_activity), 0.0, 0.0
                for i in range(n_users):
                    other = ratios[pairs[c, 1], i, a]
                    pi = prior[activity[i]]
                    r = np.exp(min(ratios[pairs[c, 0], i, a] - other, 50.0)) * pi
                    z = weights[i] * r / (r + 1.0 - pi)
                    found[activity[i]] += z
                    mass += z
                    value += weights[i] * (other + np.log(r + 1.0 - pi))
                gains[c, a] = value
                priors[c, a] = prior
                for k in range(n_activity):
                    one = (found[k] + ACTIVITY_ACCOUNTS * mass / total) / (
                        in_class[k] + ACTIVITY_ACCOUNTS
                    )
                    prior[k] = min(max(one * min(1.0, most * total / max(mass, 1e-9)), 1e-6), 0.9)
    return ratios, gains, priors
