"""Traffic of production-like logs: visits, and the actions of the platform."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from worlds.production.specs import ProductionSpec

AT_HOME = 0.9
ON_MAIN_DEVICE = 0.8
COUNTRY_ZIPF = 0.8
DEVICE_SHARES = np.array([0.5, 0.3, 0.12, 0.05, 0.03])
MOST_EVENTS = 3_000
ONE_EVENT_SHARE = 0.85
PARETO_INDEX = 1.05
FIRST_NEW, LAST_WITHDRAWN = 0.85, 0.5
LATE = 0.8
SMALLEST_SOFTMAX = 0.01
SHRINKING = (0.5, 0.3, 0.2, 0.1)
N_FEW_CONTEXTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Visitors:
    """Accounts, their contexts and numbers of visits.

    Attributes
    ----------
    is_bad
        Shape (n_users,).
    n_events
        Shape (n_users,).
    classes
        Shape (n_users,); home country and main device, a context.
    class_visits
        Shape (n_contexts, n_contexts); where users of each class come, rows sum to one.
    """

    is_bad: BoolArray
    n_events: IntArray
    classes: IntArray
    class_visits: FloatArray

    def honest_visits(self) -> tuple[IntArray, FloatArray]:
        """Return the honest users and their expected visits of each context."""
        users = np.flatnonzero(~self.is_bad)
        expected = self.n_events[users, None] * self.class_visits[self.classes[users]]
        return users, expected


@dataclass(frozen=True, slots=True, eq=False)
class Platform:
    """The policy of the platform in each period.

    Attributes
    ----------
    starts
        Shape (n_periods,); when each period begins, the first at 0.
    probabilities
        Shape (n_periods, n_contexts, n_actions); rows sum to one.
    is_available
        Shape (n_actions,); at the end.
    """

    starts: FloatArray
    probabilities: FloatArray
    is_available: BoolArray

    def play(
        self, rng: np.random.Generator, times: FloatArray, contexts: IntArray
    ) -> tuple[IntArray, FloatArray]:
        """Return the action of each event and its probability."""
        periods = np.searchsorted(self.starts, times, side="right") - 1
        n_contexts, n_actions = self.probabilities.shape[1:]
        rows = periods * n_contexts + contexts
        table = self.probabilities.reshape(-1, n_actions)
        # Cumulative probabilities of row i are shifted by i, so that one search finds all actions.
        upto = np.cumsum(table, axis=1)
        upto[:, -1] = 1.0
        line = (upto + np.arange(len(table))[:, None]).ravel()
        places = np.searchsorted(line, rows + rng.random(len(rows)), side="right")
        actions = np.clip(places - rows * n_actions, 0, n_actions - 1)
        return actions, table[rows, actions]


def make_visitors(spec: ProductionSpec, rng: np.random.Generator) -> Visitors:
    """Draw the accounts."""
    L = spec.n_users
    is_bad = np.zeros(L, dtype=np.bool_)
    is_bad[rng.permutation(L)[: round(spec.bot_share * L)]] = True
    countries = np.arange(1, spec.n_countries + 1) ** -COUNTRY_ZIPF
    countries = rng.permutation(countries / countries.sum())
    devices = DEVICE_SHARES[: spec.n_devices] / DEVICE_SHARES[: spec.n_devices].sum()
    shares = np.outer(countries, devices).ravel()
    by_country = AT_HOME * np.eye(spec.n_countries) + (1 - AT_HOME) * countries
    by_device = ON_MAIN_DEVICE * np.eye(spec.n_devices) + (1 - ON_MAIN_DEVICE) * devices
    visits = np.kron(by_country, by_device)
    if spec.is_roaming:
        visits = np.tile(shares, (spec.n_contexts, 1))
    n_events = _activity(spec, rng, L)
    bots = np.flatnonzero(is_bad)
    median = float(np.median(n_events))
    if spec.bot_activity == "20-80":
        n_events[bots] = rng.integers(20, 81, len(bots))
    elif spec.bot_activity in ("5x", "100x"):
        n_events[bots] = round(median * int(spec.bot_activity[:-1]))
    return Visitors(is_bad, n_events, rng.choice(spec.n_contexts, L, p=shares), visits)


def _activity(spec: ProductionSpec, rng: np.random.Generator, n_users: int) -> IntArray:
    """Return the number of events of each honest user."""
    if spec.activity == "equal":
        return np.full(n_users, spec.events_per_user)
    if spec.activity == "bimodal":
        return np.where(rng.random(n_users) < ONE_EVENT_SHARE, 1, spec.events_per_user)
    # A Pareto distribution with the given median.
    least = (spec.events_per_user + 0.5) / 2 ** (1 / PARETO_INDEX)
    drawn = least * (1.0 - rng.random(n_users)) ** (-1 / PARETO_INDEX)
    return np.clip(np.round(drawn), 1, MOST_EVENTS).astype(np.int64)


def visit(
    spec: ProductionSpec, rng: np.random.Generator, visitors: Visitors
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return users, contexts and times of all events, in order of time."""
    users = np.repeat(np.arange(spec.n_users), visitors.n_events)
    classes = visitors.classes[users]
    n = len(users)
    line = (np.cumsum(visitors.class_visits, axis=1) + np.arange(spec.n_contexts)[:, None]).ravel()
    places = np.searchsorted(line, classes + rng.random(n), side="right")
    contexts = np.clip(places - classes * spec.n_contexts, 0, spec.n_contexts - 1)
    times = rng.random(n)
    bots = np.flatnonzero(visitors.is_bad[users])
    if spec.attack == "late":
        times[bots] = LATE + (1 - LATE) * times[bots]
    if spec.attack == "few":
        visits = np.bincount(contexts, minlength=spec.n_contexts)
        few = np.argsort(-visits, kind="stable")[:N_FEW_CONTEXTS]
        contexts[bots] = rng.choice(few, len(bots))
    order = np.argsort(times, kind="stable")
    return users[order], contexts[order], times[order]


def make_platform(spec: ProductionSpec, rng: np.random.Generator, means: FloatArray) -> Platform:
    """Draw the policy of the platform, given the true mean rewards; (n_contexts, n_actions)."""
    S, A = means.shape
    movers = rng.permutation(A)
    new, withdrawn = movers[: spec.n_new], movers[A - spec.n_withdrawn :]
    policy_starts = {"changing": (0, 1 / 3, 2 / 3), "shrinking": (0, 0.25, 0.5, 0.75)}
    starts = set(policy_starts.get(spec.logging, (0,)))
    starts |= {FIRST_NEW} if spec.n_new else set()
    starts |= {LAST_WITHDRAWN} if spec.n_withdrawn else set()
    policy = _Policy(spec, rng, means)
    table = np.empty((len(starts), S, A))
    for period, start in enumerate(sorted(starts)):
        is_played = np.ones(A, dtype=np.bool_)
        is_played[new] = start >= FIRST_NEW
        is_played[withdrawn] = start < LAST_WITHDRAWN
        table[period] = policy.probabilities(start, is_played)
    is_available = np.ones(A, dtype=np.bool_)
    is_available[withdrawn] = False
    return Platform(np.array(sorted(starts), dtype=np.float64), table, is_available)


class _Policy:
    """Probabilities of play by time and availability."""

    def __init__(self, spec: ProductionSpec, rng: np.random.Generator, means: FloatArray) -> None:
        self.spec, self.means = spec, means
        deviations = np.log(means) - np.log(means).mean(axis=1, keepdims=True)
        noise = 0.7 * deviations.std() * rng.standard_normal(means.shape)
        self.believed = deviations + noise
        self.whims = rng.random(means.shape)

    def probabilities(self, start: float, is_played: BoolArray) -> FloatArray:
        """Return the probabilities in the period that begins at ``start``."""
        spec = self.spec
        even = np.tile(is_played / is_played.sum(), (len(self.means), 1))
        if spec.logging == "uniform":
            return even
        if spec.logging == "softmax":
            table = np.zeros_like(self.means)
            table[:, is_played] = _softmax(self.believed[:, is_played])
            return table
        epsilon = spec.epsilon
        if spec.logging == "shrinking":
            epsilon = SHRINKING[int(start * len(SHRINKING))]
        greedy = np.zeros_like(even)
        greedy[np.arange(len(even)), self._greedy(start, is_played)] = 1.0
        return epsilon * even + (1 - epsilon) * greedy

    def _greedy(self, start: float, is_played: BoolArray) -> IntArray:
        """Return the greedy item of each context."""
        if self.spec.logging == "changing" and start < 2 / 3:
            # In turn: a random item, the best one by a poor estimate, and the greedy item of the
            # spec.
            scores = self.whims if start < 1 / 3 else self.believed
            best: IntArray = np.where(is_played, scores, -np.inf).argmax(axis=1)
            return best
        ranked = np.argsort(-np.where(is_played, self.means, -np.inf), axis=1, kind="stable")
        place = 0 if self.spec.greedy == "best" else int(is_played.sum()) // 2
        return np.asarray(ranked[:, place])


def _softmax(scores: FloatArray) -> FloatArray:
    """Return softmax probabilities at the temperature that makes the smallest of them .01."""
    smallest = min(SMALLEST_SOFTMAX, 0.5 / scores.shape[1])
    distances = scores - scores.max(axis=1, keepdims=True)

    def at(inverse_temperature: float) -> FloatArray:
        raised = np.exp(inverse_temperature * distances)
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).min() > smallest else (low, middle)
    return at(low)
