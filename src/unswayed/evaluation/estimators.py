"""Doubly robust estimates of a policy's value, users weighed and intervals clustered by user.

With events i of user u(i) in context s_i, logged action a_i, reward r_i, propensity p_i, policy π,
importance weights w_i = π(a_i|s_i)/p_i, weights ω_u of users and a model m(s, a) of rewards, the
value is

    Σ ω [Σ_a π(a|s) m(s, a) + w (r − m(s, a_i))] / Σ ω,

and an uplift is the same with the differences of the sums and of w between two policies. Users are
independent and their plays are not, so variances are those of the users' influences.

*Undetected lies.* How far can undetected liars, at most a share x of the accounts, have moved the
estimate? With factors c_i, an estimate is a model's part plus Σ_i c_i (r_i − m_i) / Σ_i 1, so a
user adds the residual sum S_u = Σ c_i (r_i − m_i). Given the cells that an honest user met, S_u is
a sum of independent rewards around n_u·m, where m is to be bounded. Its spread is known from the
rewards in the same cells, and tastes of honest users can only add to it. Let z_u(m) = (S_u −
n_u·m)/sd(S_u).

For every m that may be true, honest users are at least 1 − x of all. So whatever the others report,
and for every t,

    Σ_u sd_u·(z_u(m) − t)₊  ≥  (1 − x)·Σ_u sd_u·E(z − t)₊  −  noise,

with the expectation over honest rewards: if m were larger, too few users would be left on its
upper side. The interval has all m for which that holds on either side. The inequality holds for any
lies: honest users differ in their means, by what they met or by taste, but these differences add
up to zero in units of S_u, and (z − t)₊ is convex, so they raise the left side. (Without sd_u they
would not: users who met little of what the policy plays have small spreads.) The threshold t is the
one with the smallest bound for normal z. With low thresholds nothing has to be known of honest
spread: then the bound is that of trimming the share x.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.events import Events
from unswayed.randomness import generator

CONFIDENCE = 0.95
"""Level of every interval."""

MOST_EVENTS, DRAWS, FEW_DRAWS = 200_000, 8, 2
"""Ours: honest rewards are redrawn for users with about this many events, this many times; and how
many times if many shares are tried."""

DOUBT = 3.0
"""Ours: odds of membership in a coalition that was found may be wrong by this factor. Chosen on the
part development of ``benchmarks/evaluate.py``: with 1, intervals held in only .75 to .94 of the
logs."""

THRESHOLDS = np.linspace(-3.0, 2.5, 45)
"""Thresholds t that are considered."""

MIDDLE = np.linspace(0.25, 0.75, 11)
"""Quantiles that are compared to estimate a scale; a few accounts could move more extreme ones."""

Z = float(special.ndtri((1.0 + CONFIDENCE) / 2.0))


class Terms(NamedTuple):
    """Terms of a value or of an uplift, one per event each."""

    users: npt.NDArray[np.integer]  # codes
    expected: FloatArray  # Σ_a π(a|s) m(s, a)
    factors: FloatArray  # w
    residuals: FloatArray  # r − m(s, a)

    @property
    def values(self) -> FloatArray:
        """The terms added up; shape (n_events,)."""
        return self.expected + self.factors * self.residuals

    def rows(self, selected: npt.NDArray[np.bool_ | np.integer]) -> Terms:
        """Return the terms of some events."""
        return Terms(*(column[selected] for column in self))

    def minus(self, other: Terms) -> Terms:
        """Return the terms of the uplift over another policy, with the same model."""
        expected, factors = self.expected - other.expected, self.factors - other.factors
        return self._replace(expected=expected, factors=factors)


class Estimate(NamedTuple):
    """A value, its interval and its standard error."""

    estimate: float
    low: float
    high: float
    error: float


def mean_of(
    users: npt.NDArray[np.integer], values: FloatArray, user_weights: FloatArray
) -> Estimate:
    """Return the weighted mean of values of events, with an interval; users are the units."""
    n_users = len(user_weights)
    plays = user_weights * np.bincount(users, minlength=n_users)
    sums, n = user_weights * np.bincount(users, values, n_users), int((plays > 0.0).sum())
    mean = float(sums.sum() / plays.sum()) if n else float("nan")
    if n < 2:
        return Estimate(mean, float("-inf"), float("inf"), float("inf"))
    influences = (sums - mean * plays) / plays.sum()
    error = float(np.sqrt((influences**2).sum() * n / (n - 1)))
    half = float(special.stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0)) * error
    return Estimate(mean, mean - half, mean + half, error)


def cell_means(events: Events, user_weights: FloatArray) -> FloatArray:
    """Return mean rewards of all cells; where nothing is known, the context's or log's.

    Shape (n_contexts, n_actions + 1); the last column is for actions that the log does not have.
    """
    shape, weights = (events.n_contexts, events.n_actions), user_weights[events.users]
    cells = events.contexts.astype(np.int64) * shape[1] + events.actions
    plays = np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(cells, weights * events.rewards, shape[0] * shape[1]).reshape(shape)
    everywhere = float(sums.sum() / max(float(plays.sum()), 1e-300))
    total = plays.sum(axis=1, keepdims=True)
    of_context = np.where(
        total > 1e-9, sums.sum(axis=1, keepdims=True) / np.maximum(total, 1e-300), everywhere
    )
    known = np.where(plays > 1e-9, sums / np.maximum(plays, 1e-300), of_context)
    return np.concatenate([known, of_context], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """Rewards by cell and size, each with the probability that its account is honest.

    ``ends`` adds up these probabilities, ``sums`` the rewards times them; those of a cell begin at
    ``starts`` and add up to ``masses``, both of shape (n_cells,).
    """

    rewards: FloatArray
    ends: FloatArray
    sums: FloatArray
    starts: FloatArray
    masses: FloatArray

    @classmethod
    def of(cls, cells: IntArray, rewards: FloatArray, honesty: FloatArray) -> _Law:
        order = np.lexsort((rewards, cells))
        own = honesty[order]
        masses = np.bincount(cells, honesty).astype(np.float64)
        starts = np.cumsum(masses) - masses
        return cls(rewards[order], np.cumsum(own), np.cumsum(own * rewards[order]), starts, masses)

    def means(self, low: float, high: float) -> FloatArray:
        """Return the mean reward between two quantiles of each cell; shape (n_cells,)."""
        ends, sums = np.append(0.0, self.ends), np.append(0.0, self.sums)
        first, last = (
            np.interp(self.starts + part * self.masses, ends, sums) for part in (low, high)
        )
        return np.asarray((last - first) / np.maximum((high - low) * self.masses, 1e-300))

    def draw(self, cells: IntArray, uniforms: FloatArray, low: float, high: float) -> FloatArray:
        """Return random rewards between two quantiles, less their mean; shape of ``uniforms``."""
        parts = low + (high - low) * uniforms
        places = np.searchsorted(self.ends, self.starts[cells] + parts * self.masses[cells])
        found = self.rewards[np.minimum(places, len(self.rewards) - 1)]
        return np.asarray(found - self.means(low, high)[cells], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Honest:
    """Rewards that honest accounts would have reported, and which accounts may be honest.

    Rewards of a sample of the users are redrawn from honest ones in the same cells. If the true
    mean differs from the observed one, lies are among the largest rewards of a cell, or among the
    smallest. So rewards are also redrawn without the share x at either end.
    """

    users: npt.NDArray[np.integer]  # shape (n_events,)
    variances: FloatArray  # shape (n_events,), of an honest reward
    honesty: FloatArray  # shape (n_users,), the learner's probabilities that accounts are honest
    range: tuple[float, float]  # smallest and largest reward
    law: _Law
    sampled: IntArray  # events that are redrawn, by cell
    cells: IntArray  # shape (n_sampled,), their cells
    uniforms: FloatArray  # shape (DRAWS, n_sampled)
    share: float = 0.0  # x, including the detected accounts
    # Shape (3, n_draws, n_sampled), residuals: redrawn from all rewards, without the largest, and
    # without the smallest.
    draws: FloatArray = field(default_factory=lambda: np.empty((3, 0, 0)))

    @classmethod
    def of(cls, events: Events, honesty: FloatArray) -> Honest:
        """Return the honest rewards of a log, with nothing hidden yet."""
        rng = generator(0, "evaluate")
        users, rewards = events.users, events.rewards
        cells = events.contexts.astype(np.int64) * events.n_actions + events.actions
        law = _Law.of(cells, rewards, honesty[users])
        residuals = rewards - law.means(0.0, 1.0)[cells]
        squares = np.bincount(cells, honesty[users] * residuals**2).astype(np.float64)
        variances = (squares / np.maximum(law.masses, 1e-300))[cells]
        is_drawn = rng.random(len(honesty)) < MOST_EVENTS / len(users)
        sampled = np.flatnonzero(is_drawn[users])
        # The order of the rows does not matter, but neighbours then share cache lines.
        sampled = sampled[np.lexsort((rewards[sampled], users[sampled], cells[sampled]))]
        uniforms = rng.random((DRAWS, len(sampled)))
        span = float(rewards.min()), float(rewards.max())
        return cls(users, variances, honesty, span, law, sampled, cells[sampled], uniforms)

    def hiding(self, share: float, *, draws: int = DRAWS) -> Honest:
        """Return the same with up to this share of the accounts colluding undetected."""
        # The share that remains after the detected accounts.
        unseen = min(max(0.0, 1.0 - (1.0 - share) / float(self.honesty.mean())), 0.9)
        parts = (0.0, 1.0), (0.0, 1.0 - unseen), (unseen, 1.0)
        uniforms = self.uniforms[:draws]
        drawn = np.stack([self.law.draw(self.cells, uniforms, *part) for part in parts])
        return replace(self, share=share, draws=drawn)

    @property
    def weights(self) -> FloatArray:
        """Largest plausible probability that each account is honest; shape (n_users,)."""
        return np.asarray(self.honesty * DOUBT / (1.0 - self.honesty + self.honesty * DOUBT))

    def rows(self, selected: BoolArray) -> Honest:
        """Return the same for some events."""
        is_kept = selected[self.sampled]
        return replace(
            self,
            users=self.users[selected],
            variances=self.variances[selected],
            sampled=(np.cumsum(selected) - 1)[self.sampled[is_kept]],
            draws=self.draws[:, :, is_kept],
        )

    def bounds(self, factors: FloatArray, residuals: FloatArray) -> tuple[float, float]:
        """Return the smallest and largest mean residual of honest accounts, per event.

        ``factors`` are c_i and ``residuals`` r_i − m_i.
        """
        n_users, users = len(self.honesty), self.users
        variances = np.bincount(users, factors**2 * self.variances, n_users)
        is_seen = variances > 1e-12 * max(float(variances.max(initial=0.0)), 1e-300)
        n = int(is_seen.sum())
        if n < 2:  # without variance, nothing was shifted; with one account, nothing is known
            return (0.0, 0.0) if n == 0 else (-np.inf, np.inf)
        unit = np.sqrt(variances[is_seen])

        def by_account(codes: npt.NDArray[np.integer], values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(codes, values, n_users)[is_seen] / unit, np.float64)

        drawn, own = users[self.sampled], factors[self.sampled]
        is_drawn = (np.bincount(drawn, minlength=n_users) > 0)[is_seen]
        seen = factors * residuals
        squares = by_account(users, seen**2) / unit
        z, visits = by_account(users, seen), by_account(users, np.ones(len(users)))
        # m is a mean over all accounts; those without any spread add nothing to it.
        visits *= len(users) / float(visits @ unit)
        sizes = unit / unit.mean()
        weights = self.weights[is_seen]
        kept = float(weights.mean())
        share = max(self.share, 1.0 - kept)

        def redrawn(draws: FloatArray) -> tuple[FloatArray, float]:
            """Return z of honest accounts, and the scale that is applied to them."""
            values = [own * draw for draw in draws]
            found = np.concatenate([by_account(drawn, one)[is_drawn] for one in values])
            usual = np.concatenate([(by_account(drawn, one**2) / unit)[is_drawn] for one in values])
            scale = _least_scale(squares, usual, share)
            return scale * found, scale

        plain, scale = redrawn(self.draws[0])
        drawn_sizes = np.tile(sizes[is_drawn], len(self.draws[0]))
        t = _threshold(share - (1.0 - kept), n, scale)
        ends = []
        for sign in (-1.0, 1.0):
            other, _ = redrawn(np.where(sign * own > 0.0, self.draws[2], self.draws[1]))
            honest = sign * plain, sign * other, drawn_sizes
            ends.append(sign * _largest(sign * z, visits, weights * sizes, honest, share, t))
        return ends[0], ends[1]


def _least_scale(seen: FloatArray, drawn: FloatArray, share: float) -> float:
    """Return the smallest plausible scale of honest residuals; lies may have inflated them.

    Both are squared residuals of accounts, relative to their expectation. Even if all liars have
    larger residuals than the rest, the rest is honest: its quantile p is at least the quantile (1 −
    x)·p of all.
    """
    usual = float(np.quantile(drawn, MIDDLE).mean())
    least = float(np.quantile(seen, (1.0 - share) * MIDDLE).mean())
    return float(np.sqrt(min(1.0, max(least / usual, 1e-6)))) if usual > 0.0 else 1.0


def _threshold(share: float, n: int, scale: float) -> float:
    """Return the threshold with the smallest bound for normal z, if a ``share`` lies undetected."""
    t, density = THRESHOLDS, np.exp(-(THRESHOLDS**2) / 2.0) / np.sqrt(2.0 * np.pi)
    beyond = special.ndtr(-t)
    first, second = density - t * beyond, (1.0 + t**2) * beyond - t * density  # of (z − t)₊
    u = t / scale
    least = scale * (np.exp(-(u**2) / 2.0) / np.sqrt(2.0 * np.pi) - u * special.ndtr(-u))
    noise = Z * np.sqrt((second - first**2) / n)
    return float(t[((first - (1.0 - share) * least + noise) / beyond).argmin()])


def _largest(
    z: FloatArray,
    visits: FloatArray,
    sizes: FloatArray,
    honest: tuple[FloatArray, FloatArray, FloatArray],
    share: float,
    t: float,
) -> float:
    """Return the largest m for which enough accounts lie beyond the threshold.

    ``sizes`` are the weights of accounts times their standard deviations. ``honest`` has z of
    honest accounts if rewards are as seen, if lies hide in them, and their sizes.
    """
    n = (1.0 - share) * len(z)
    centre = float(sizes @ z) / max(float(sizes @ visits), 1e-300)
    near, far = (honest[2] * np.maximum(one - t, 0.0) for one in honest[:2])
    seen = sizes * np.maximum(z - centre * visits - t, 0.0)
    # Tastes increase the variance of observed residuals.
    noise = Z * float(np.sqrt(n * max(float(near.var()), float(seen.var()))))

    def excess(m: float) -> float:
        needed = n * min(float(near.mean()), float(far.mean())) - noise
        return float(sizes @ np.maximum(z - m * visits - t, 0.0)) - needed

    # Step sizes double, so that the search ends even if m is unbounded.
    steps = (2.0 ** np.arange(61) - 1.0) / float(visits.mean())
    high = next((centre + step for step in steps if excess(centre + step) <= 0.0), None)
    if high is None:
        return np.inf
    low = next(centre - step for step in steps if excess(centre - step) >= 0.0)
    return float(optimize.brentq(excess, low, high, xtol=1e-12))
