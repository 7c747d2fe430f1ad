"""Doubly robust estimates of a policy's value with weighted users and intervals clustered by user.

Event i of user u(i) has context s_i, logged action a_i, reward r_i and propensity p_i. With a
policy π, importance weights w_i = π(a_i|s_i)/p_i, user weights ω_u and a reward model m(s, a), the
value is

    Σ ω [Σ_a π(a|s) m(s, a) + w (r − m(s, a_i))] / Σ ω,

and an uplift is the difference between the values of two policies. Users are independent, but the
plays of one user are not, so variances are computed from the users' influence functions.

*Undetected lies.* The second interval bounds how far undetected colluders, at most a share x of the
accounts, can have moved the estimate. The estimate is the mean prediction of the model plus the
mean of c_i (r_i − m_i) over the events, with known factors c_i. A user contributes the sum of
residuals S_u = Σ c_i (r_i − m_i). Given the cells that an honest user visited, S_u is a sum of
independent terms with mean n_u·m, where m is the quantity to be bounded. Its variance is estimated
from rewards in the same cells; differences in taste can only increase it. Let z_u(m) = (S_u −
n_u·m)/sd(S_u).

At least 1 − x of the users are honest. So if m is the true value, then for every t, whatever the
colluders report,

    Σ_u sd_u·(z_u(m) − t)₊  ≥  (1 − x)·Σ_u sd_u·E(z − t)₊  −  noise,

where the expectation is over honest rewards. The inequality fails if m is too large, since too few
users then have a large z_u(m). The interval contains every m that satisfies it and its mirror
image. Honest users have different means, because of their tastes and the cells that they visited.
These differences sum to zero on the scale of S_u, and (z − t)₊ is convex, so they only increase the
left side. The factor sd_u is needed for that: users who rarely saw the policy's actions have a
small standard deviation. The threshold t is the one with the smallest bound for normal z. For low t
the bound does not depend on the honest variance and equals that of trimming the share x.
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
"""Ours: approximate number of events whose rewards are resampled, number of resamples, and number
of resamples if many shares are tried."""

DOUBT = 3.0
"""Ours: factor by which the learner's odds of membership may be wrong. Chosen on the part
``development`` of ``benchmarks/evaluate.py``: with 1, coverage was only .75 to .94."""

THRESHOLDS = np.linspace(-3.0, 2.5, 45)
"""Grid from which the threshold t is chosen."""

MIDDLE = np.linspace(0.25, 0.75, 11)
"""Quantiles that give a scale; more extreme ones are not robust to a few accounts."""

Z = float(special.ndtri((1.0 + CONFIDENCE) / 2.0))


class Terms(NamedTuple):
    """Terms of a value or of an uplift, one per event."""

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
    """Return the mean reward of each cell, or of its context or the log if there are no plays.

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
    """Weighted empirical distribution of the rewards in each cell.

    A reward's weight is the probability that its account is honest. ``rewards`` are sorted within
    cells; ``ends`` are cumulative weights and ``sums`` cumulative weighted rewards. The cumulative
    weights of a cell start at ``starts``, and its weights sum to ``masses``; both have shape
    (n_cells,).
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
        """Draw rewards between two quantiles, centred at their mean; shape of ``uniforms``."""
        parts = low + (high - low) * uniforms
        places = np.searchsorted(self.ends, self.starts[cells] + parts * self.masses[cells])
        found = self.rewards[np.minimum(places, len(self.rewards) - 1)]
        return np.asarray(found - self.means(low, high)[cells], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Honest:
    """A model of honest rewards, and the probability that each account is honest.

    Rewards of a sample of the users are resampled from honest rewards in the same cells. Lies that
    bias a mean are among the largest or among the smallest rewards of a cell, so rewards are also
    resampled without the share x at either end.
    """

    users: npt.NDArray[np.integer]  # shape (n_events,)
    variances: FloatArray  # shape (n_events,), variance of an honest reward in the cell
    honesty: FloatArray  # shape (n_users,), the learner's probabilities that accounts are honest
    range: tuple[float, float]  # smallest and largest reward
    law: _Law
    sampled: IntArray  # indices of the resampled events, sorted by cell
    cells: IntArray  # shape (n_sampled,), their cells
    uniforms: FloatArray  # shape (DRAWS, n_sampled)
    share: float = 0.0  # share of colluders, including detected ones
    # Shape (3, n_draws, n_sampled): residuals resampled from all rewards, without the largest, and
    # without the smallest.
    draws: FloatArray = field(default_factory=lambda: np.empty((3, 0, 0)))

    @classmethod
    def of(cls, events: Events, honesty: FloatArray) -> Honest:
        """Fit the honest rewards of a log, without undetected lies."""
        rng = generator(0, "evaluate")
        users, rewards = events.users, events.rewards
        cells = events.contexts.astype(np.int64) * events.n_actions + events.actions
        law = _Law.of(cells, rewards, honesty[users])
        residuals = rewards - law.means(0.0, 1.0)[cells]
        squares = np.bincount(cells, honesty[users] * residuals**2).astype(np.float64)
        variances = (squares / np.maximum(law.masses, 1e-300))[cells]
        is_drawn = rng.random(len(honesty)) < MOST_EVENTS / len(users)
        sampled = np.flatnonzero(is_drawn[users])
        # Any order gives the same result; this one is fast, because reads are local.
        sampled = sampled[np.lexsort((rewards[sampled], users[sampled], cells[sampled]))]
        uniforms = rng.random((DRAWS, len(sampled)))
        span = float(rewards.min()), float(rewards.max())
        return cls(users, variances, honesty, span, law, sampled, cells[sampled], uniforms)

    def hiding(self, share: float, *, draws: int = DRAWS) -> Honest:
        """Return a copy that allows for colluders up to this share of the accounts."""
        # Share of undetected colluders among the accounts that were not detected.
        unseen = min(max(0.0, 1.0 - (1.0 - share) / float(self.honesty.mean())), 0.9)
        parts = (0.0, 1.0), (0.0, 1.0 - unseen), (unseen, 1.0)
        uniforms = self.uniforms[:draws]
        drawn = np.stack([self.law.draw(self.cells, uniforms, *part) for part in parts])
        return replace(self, share=share, draws=drawn)

    @property
    def weights(self) -> FloatArray:
        """Upper bounds on the probability that each account is honest; shape (n_users,)."""
        return np.asarray(self.honesty * DOUBT / (1.0 - self.honesty + self.honesty * DOUBT))

    def rows(self, selected: BoolArray) -> Honest:
        """Return a copy for a subset of the events."""
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
        if n < 2:  # without variance there is no shift
            return (0.0, 0.0) if n == 0 else (-np.inf, np.inf)
        unit = np.sqrt(variances[is_seen])

        def by_account(codes: npt.NDArray[np.integer], values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(codes, values, n_users)[is_seen] / unit, np.float64)

        drawn, own = users[self.sampled], factors[self.sampled]
        is_drawn = (np.bincount(drawn, minlength=n_users) > 0)[is_seen]
        seen = factors * residuals
        squares = by_account(users, seen**2) / unit
        z, visits = by_account(users, seen), by_account(users, np.ones(len(users)))
        # The shift m is per event. Accounts without variance are left out, so visits are scaled to
        # sum to all events.
        visits *= len(users) / float(visits @ unit)
        sizes = unit / unit.mean()
        weights = self.weights[is_seen]
        kept = float(weights.mean())
        share = max(self.share, 1.0 - kept)

        def redrawn(draws: FloatArray) -> tuple[FloatArray, float]:
            """Return z of honest accounts, and the scale factor that they were multiplied by."""
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
    """Return a lower bound on the scale of honest residuals, which lies may have inflated.

    ``seen`` and ``drawn`` are squared residuals of accounts, relative to their expectation. Even if
    a share x of colluders has the largest residuals, the quantile p of honest accounts is at least
    the quantile (1 − x)·p of all.
    """
    usual = float(np.quantile(drawn, MIDDLE).mean())
    least = float(np.quantile(seen, (1.0 - share) * MIDDLE).mean())
    return float(np.sqrt(min(1.0, max(least / usual, 1e-6)))) if usual > 0.0 else 1.0


def _threshold(share: float, n: int, scale: float) -> float:
    """Return the threshold with the smallest bound for normal z and a share of hidden colluders."""
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
    """Return the largest m that satisfies the inequality in the module's docstring.

    ``sizes`` are the weights of accounts times their standard deviations. ``honest`` contains z of
    honest accounts without and with undetected lies among the rewards, and their sizes.
    """
    n = (1.0 - share) * len(z)
    centre = float(sizes @ z) / max(float(sizes @ visits), 1e-300)
    near, far = (honest[2] * np.maximum(one - t, 0.0) for one in honest[:2])
    seen = sizes * np.maximum(z - centre * visits - t, 0.0)
    # Differences in taste increase the variance of observed residuals.
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
