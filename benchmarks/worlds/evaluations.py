"""Logs for the evaluation of a policy with a known uplift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.events import Events, Labels
from unswayed.policy import Origin, Policy
from unswayed.randomness import generator


class Size(NamedTuple):
    """Size of a log."""

    users: int
    plays: int
    contexts: int
    actions: int


SIZES = {"usual": Size(2_000, 30, 10, 5), "small": Size(500, 12, 3, 3)}
QUIET = 0.35
"""Share of the rewards of the two best items in which quiet colluders lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of log.

    Attributes
    ----------
    low, high
        Mean rewards are drawn from here, evenly or, for ``is_wide``, evenly in their logarithm.
    rewards
        clicks, normal, skewed (gamma), baskets (mostly nothing, else log-normal), or stars (five
        values from 0 to 1).
    tastes
        Deviation of users' own log-odds, in two directions.
    activity_sd
        Of the logarithm of plays; 0 for the same number of plays.
    is_greedy
        Whether a favourite action was played but for a part of the events, with propensities.
    """

    name: str
    low: float = 0.3
    high: float = 0.6
    is_wide: bool = False
    rewards: str = "clicks"
    tastes: float = 0.0
    activity_sd: float = 0.0
    is_greedy: bool = False


KINDS = (
    Kind(name="binary"),
    Kind(name="binary greedy", is_greedy=True),
    Kind(name="baskets", low=0.1, high=0.3, rewards="baskets"),
    Kind(name="baskets greedy", low=0.1, high=0.3, rewards="baskets", is_greedy=True),
    Kind(name="stars", rewards="stars"),
    Kind(name="stars greedy", rewards="stars", is_greedy=True),
    Kind(name="wide clicks", low=0.02, high=0.5, is_wide=True),
    Kind(name="rare clicks", low=0.02, high=0.1),
    Kind(name="normal", rewards="normal"),
    Kind(name="skewed", rewards="skewed"),
    Kind(name="tastes", tastes=0.4),
    Kind(name="heavy", activity_sd=1.0),
)

EXPLORED = 0.4
"""Share of the events that a greedy log explores."""

ATTACKS = {
    "none": ("target", "best"),
    "push": ("target",),
    "nuke": ("target",),
    "swap": ("best", "second"),
    "quiet": ("best", "second"),
}
"""For each attack, the items that the evaluated policies favour."""


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """A log, the policy, its uplift for honest users, and a mask of the liars."""

    events: Events
    choices: IntArray
    means: FloatArray
    logging: FloatArray
    is_bad: BoolArray

    def uplift_of(self, choices: IntArray) -> float:
        """Return the uplift of a policy for honest users; choices have shape (n_contexts,)."""
        chosen = self.means[np.arange(len(choices)), choices]
        return float(chosen.mean() - (self.means * self.logging).sum(axis=1).mean())

    @property
    def uplift(self) -> float:
        """Uplift of the evaluated policy for honest users."""
        return self.uplift_of(self.choices)

    def policy(self) -> Policy:
        """Return the evaluated policy, which was not learned from a log of these users."""
        n_contexts, n_actions = self.means.shape
        table = np.eye(n_actions)[self.choices]
        labels = Labels.of(range(n_contexts)), Labels.of(range(n_actions))
        others = Labels.of([f"other {k}" for k in range(self.events.n_users)])
        origin = Origin.of(*labels, np.ones_like(table, dtype=np.int64), others)
        return Policy(
            context_labels=labels[0],
            action_labels=labels[1],
            mean_rewards=table,
            low=table,
            high=table,
            counts=np.ones_like(table, dtype=np.int64),
            context_probabilities=np.full(n_contexts, 1.0 / n_contexts),
            alpha=0.0,
            method="given",
            source={"origin": origin.to_json()},
        )


def build_log(
    kind: Kind,
    attack: str,
    plays: str,
    alpha: float,
    seed: int,
    *,
    day: int = 0,
    size: Size = SIZES["usual"],
) -> Log:
    """Draw a log; the first ``alpha`` of a random order of the users lie.

    Another day has the same users, means and lies, but other events.
    """
    rng = generator(seed, "evaluate", kind.name, attack)
    n_users, n_contexts, n_actions = size.users, size.contexts, size.actions
    shape = (n_contexts, n_actions)
    means = kind.low + (kind.high - kind.low) * rng.random(shape)
    if kind.is_wide:
        means = kind.low * (kind.high / kind.low) ** rng.random(shape)
    users = np.repeat(np.arange(n_users), _activity(kind, rng, size))
    n = len(users)
    logging = _logging(kind, rng, means)
    own = (
        kind.tastes
        * rng.standard_normal((n_users, 2))
        @ (rng.standard_normal((n_actions, 2)).T / np.sqrt(2.0))
    )
    # Honest users are weighted by their visits.
    visits = np.bincount(users, minlength=n_users)
    true = np.average(expit(logit(means)[None] + own[:, None, :]), axis=0, weights=visits)
    is_bad = np.zeros(n_users, dtype=np.bool_)
    if attack != "none":
        is_bad[rng.permutation(n_users)[: round(alpha * n_users)]] = True
    best, second = np.argsort(-true, axis=1)[:, :2].T
    target = int(rng.integers(n_actions))
    rng = generator(seed, "evaluate", kind.name, attack, "day", day)
    contexts = rng.integers(n_contexts, size=n)
    actions = (rng.random(n)[:, None] > logging.cumsum(axis=1)[contexts]).sum(axis=1)
    actions = np.minimum(actions, n_actions - 1)
    said = _said(kind, rng, expit(logit(means[contexts, actions]) + own[users, actions]))
    lies = is_bad[users]
    if attack == "quiet":
        lies &= rng.random(n) < QUIET
    top, bottom = 1.0, 0.0
    if kind.rewards in ("skewed", "baskets"):
        top = float(np.quantile(said, 0.99))
    if attack in ("push", "nuke"):
        said[lies & (actions == target)] = top if attack == "push" else bottom
    if attack in ("swap", "quiet"):
        said[lies & (actions == best[contexts])] = bottom
        said[lies & (actions == second[contexts])] = top
    choices = {"target": np.full(n_contexts, target), "best": best, "second": second}[plays]
    names = [Labels.of(range(k)) for k in (n_users, *shape)]
    events = Events(
        users,
        contexts,
        actions,
        said,
        names[0],
        names[1],
        names[2],
        logging[contexts, actions] if kind.is_greedy else None,
    )
    return Log(events, choices, true, logging, is_bad)


def _activity(kind: Kind, rng: np.random.Generator, size: Size) -> IntArray:
    if not kind.activity_sd:
        return np.full(size.users, size.plays, dtype=np.int64)
    scale = np.log(size.plays) - kind.activity_sd**2 / 2.0
    draws = np.exp(scale + kind.activity_sd * rng.standard_normal(size.users))
    activity: IntArray = np.maximum(np.rint(draws), 1.0).astype(np.int64)
    return activity


def _logging(kind: Kind, rng: np.random.Generator, means: FloatArray) -> FloatArray:
    """Return how often each action was played in each context; shape (S, A)."""
    n_actions = means.shape[1]
    if not kind.is_greedy:
        return np.full(means.shape, 1.0 / n_actions)
    guessed = means * np.exp(0.3 * rng.standard_normal(means.shape))
    is_favourite = np.arange(n_actions) == guessed.argmax(axis=1)[:, None]
    return np.asarray(EXPLORED / n_actions + (1.0 - EXPLORED) * is_favourite, np.float64)


def _said(kind: Kind, rng: np.random.Generator, expected: FloatArray) -> FloatArray:
    """Return honest rewards with these means."""
    n = len(expected)
    if kind.rewards == "normal":
        return expected + 0.3 * rng.standard_normal(n)
    if kind.rewards == "skewed":
        return np.asarray(rng.gamma(2.0, expected / 2.0))
    if kind.rewards == "baskets":
        return np.asarray((rng.random(n) < expected) * rng.lognormal(-0.125, 0.5, n))
    if kind.rewards == "stars":
        return np.asarray(rng.binomial(4, expected) / 4.0)
    return (rng.random(n) < expected).astype(np.float64)
