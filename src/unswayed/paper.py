"""Algorithms and base cases of the paper for plain arrays, with a choice of estimators.

*Coordinated Attacks against Contextual Bandits* (Kwon, Efroni, Caramanis and Mannor, ICML 2022).
Each function takes users, contexts, actions and rewards as four arrays, or as rows of four, and
follows the printed text up to the errata that its docstring names. ``docs/paper.md`` maps every
definition, theorem and figure to a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError, check_adversarial_fraction
from unswayed.estimators import lugosi_mendelson_mean, median_of_means, quantum_entropy_mean
from unswayed.learners.design import design_by_context, uniform_design
from unswayed.learners.paper import (
    Multivariate,
    Univariate,
    estimate_context_probabilities,
    learn_paper,
    recover_frequent,
    recover_rare,
)
from unswayed.limits import HidingAdversary, instance_complexity, one_sided_adversary
from unswayed.names import find
from unswayed.randomness import generator
from unswayed.tallies import Tallies, tally

__all__ = [
    "MULTIVARIATE",
    "UNIVARIATE",
    "Contexts",
    "Learned",
    "algorithm_1",
    "algorithm_2",
    "base_case_1",
    "base_case_2",
    "hiding_adversary",
    "instance_complexity",
]


F = TypeVar("F")


UNIVARIATE: dict[str, Univariate | None] = {
    "trimmed": None,  # the compiled loop over all groups at once
    "lugosi-mendelson": lambda points, alpha: (
        lugosi_mendelson_mean(points, alpha=alpha, rng=generator(0, "paper")).estimate
    ),
    "median-of-means": lambda points, alpha: (
        median_of_means(points, alpha=alpha, rng=generator(0, "paper")).estimate
    ),
}
"""Estimators of Theorem 3.2 by name. Custom estimators take (points, alpha) and return a number."""

MULTIVARIATE: dict[str, Multivariate | None] = {
    "filter": None,  # works on sparse rows
    "quantum-entropy": lambda rows, alpha: quantum_entropy_mean(rows, alpha=alpha).estimate,
}
"""Estimators of Theorem 3.4 by name. Custom estimators take (rows, alpha) and return the mean of
the rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contexts:
    """Result of Algorithm 1."""

    nu: FloatArray  #: Shape (S,); estimated context probabilities.
    sigma: FloatArray  #: Shape (S,); the scales σ_s of Algorithm 1.
    contexts: Sequence[Any]  #: Labels of the contexts.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """Result of Algorithm 2 or of a base case."""

    nu: FloatArray  #: Shape (S,); estimated context probabilities, uniform ones in base cases.
    mu: FloatArray  #: Shape (S, A); estimated means of the good users, NaN without plays.
    policy: IntArray  #: Shape (S,); the action with the largest mean in each context.
    S_plus: IntArray  #: Contexts in which the univariate estimator was used.
    S_minus: IntArray  #: Contexts in which the multivariate estimator was used.
    contexts: Sequence[Any]  #: Labels of the contexts.
    actions: Sequence[Any]  #: Labels of the actions.


def algorithm_1(
    user: ArrayLike,
    context: ArrayLike | None = None,
    *,
    alpha: float,
    multivariate: str | Multivariate = "filter",
) -> Contexts:
    """Estimate ν, the context probabilities of the good users; colluders may visit any contexts.

    Parameters
    ----------
    user, context
        Shape (T0,) each: who came, and with which context. Or rows (user, context, …), further
        columns unread, or a table with these columns.
    alpha
        Share of users that may collude.
    multivariate
        The estimator of line 7: a name in ``MULTIVARIATE``, or a function of (rows, alpha).

    Notes
    -----
    See ``estimate_context_probabilities`` for the guarantee and deviations (errata 5, 7, 14).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> user, context = np.arange(4000) % 400, rng.choice(3, p=[0.6, 0.3, 0.1], size=4000)
    >>> context[user < 80] = 2                        # a fifth flood the rarest context
    >>> bool(np.abs(algorithm_1(user, context, alpha=0.2).nu - [0.6, 0.3, 0.1]).sum() < 0.1)
    True
    """
    columns = _columns(("user", "context"), user, context)
    nothing = np.zeros(len(columns[0]), np.int64)
    tallies, _, contexts, _ = _tallied(columns[0], columns[1], nothing, nothing)
    found = estimate_context_probabilities(
        tallies,
        alpha=check_adversarial_fraction(alpha),
        multivariate=_chosen(multivariate, MULTIVARIATE, "multivariate estimator"),
    )
    return Contexts(nu=found.context_probabilities, sigma=found.scales, contexts=contexts)


def algorithm_2(
    user: Any,
    context: ArrayLike | None = None,
    action: ArrayLike | None = None,
    reward: ArrayLike | None = None,
    *,
    alpha: float,
    univariate: str | Univariate = "trimmed",
    multivariate: str | Multivariate = "filter",
    T0: int = 0,
    n_contexts: int | None = None,
    n_actions: int | None = None,
) -> Learned:
    """Robust MCB given the plays of lines 3-10: lines 1, 11 and 12, and the recovery procedure.

    Parameters
    ----------
    user, context, action, reward
        Shape (T,) each, in the order of time. Or rows of four, or a table with these columns.
        Whole numbers are codes, anything else labels.
    alpha
        Share of users that may collude.
    univariate, multivariate
        Estimators of Theorems 3.2 and 3.4: names in ``UNIVARIATE`` and ``MULTIVARIATE``, or
        functions of (points, alpha) and (rows, alpha).
    T0
        How many of the first rows are the steps of Algorithm 1; 0 takes context probabilities from
        all rows.
    n_contexts, n_actions
        S and A, if not all of them occur.

    Notes
    -----
    See ``learn_paper`` for the guarantee and deviations; here S₊ is the min(S, A) most frequent
    contexts, as printed. A context in which no user changed the action was played by line 6; the
    others were played by line 8 and are in S₋.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> user = np.arange(20_000) % 1000
    >>> context, kept = rng.integers(2, size=20_000), rng.integers(3, size=(1000, 2))
    >>> action = kept[user, context]
    >>> reward = (action == context + 1) + rng.standard_normal(20_000)
    >>> reward[user < 200] = 50.0 * (action[user < 200] == 0)
    >>> algorithm_2(user, context, action, reward, alpha=0.2).policy
    array([1, 2])
    """
    tallies, warmup, contexts, actions = _tallied(
        user, context, action, reward, T0=T0, n_contexts=n_contexts, n_actions=n_actions
    )
    found = learn_paper(
        tallies,
        design_by_context(tallies),
        alpha=check_adversarial_fraction(alpha),
        warmup=warmup,
        is_literal=True,
        univariate=_chosen(univariate, UNIVARIATE, "univariate estimator"),
        multivariate=_chosen(multivariate, MULTIVARIATE, "multivariate estimator"),
    )
    return Learned(
        nu=found.context_probabilities,
        mu=found.mean_rewards,
        policy=found.actions,
        S_plus=np.flatnonzero(found.frequent_contexts),
        S_minus=np.flatnonzero(~found.frequent_contexts),
        contexts=contexts,
        actions=actions,
    )


def base_case_1(
    user: Any,
    context: ArrayLike | None = None,
    action: ArrayLike | None = None,
    reward: ArrayLike | None = None,
    *,
    alpha: float,
    univariate: str | Univariate = "trimmed",
    n_contexts: int | None = None,
    n_actions: int | None = None,
) -> Learned:
    """Section 3.1, few contexts and many arms: in each cell, a robust mean of users' means.

    Parameters are those of ``algorithm_2``. Users keep one action in a context.

    Notes
    -----
    Guarantee (Proposition 3.1): all errors are O(sqrt(α L/T)) with probability 9/10, for
    L = Ω(A log A/α). Deviation: the trimmed number is an upper quantile of the random number of
    colluders in a group (erratum 11).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> user = np.arange(8000) % 800
    >>> action, context = user % 4, np.zeros(8000, int)
    >>> reward = 0.5 * (action == 3) + rng.standard_normal(8000)
    >>> reward[user < 80] = 100.0
    >>> base_case_1(user, context, action, reward, alpha=0.1).policy
    array([3])
    """
    tallies, _, contexts, actions = _tallied(
        user, context, action, reward, n_contexts=n_contexts, n_actions=n_actions
    )
    mu = recover_frequent(
        tallies,
        uniform_design(tallies),
        np.ones(tallies.n_contexts),
        np.ones(tallies.n_contexts, np.bool_),
        alpha=check_adversarial_fraction(alpha),
        per_visit=True,
        univariate=_chosen(univariate, UNIVARIATE, "univariate estimator"),
    )
    return _base_case(mu, contexts, actions, is_univariate=True)


def base_case_2(
    user: Any,
    context: ArrayLike | None = None,
    action: ArrayLike | None = None,
    reward: ArrayLike | None = None,
    *,
    alpha: float,
    multivariate: str | Multivariate = "filter",
    n_contexts: int | None = None,
    n_actions: int | None = None,
) -> Learned:
    """Section 3.2, many contexts and few actions: one robust mean of users' vectors.

    Parameters are those of ``algorithm_2``. Contexts and actions are uniform, and a user's vector
    is (SA/n_i) Σ_t r_t e_(s_t, a_t).

    Notes
    -----
    Guarantee (Proposition 3.3): ‖μ̂ − μ‖₂ = O(sqrt(α L S A/T)) with probability 9/10, for
    L = Ω(SA log(SA)/α) and an estimator as in Theorem 3.4. Deviation: the default estimator is a
    filter.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> user = np.arange(60_000) % 1000
    >>> context, action = rng.integers(10, size=60_000), rng.integers(2, size=60_000)
    >>> reward = (action == context % 2) + 0.5 * rng.standard_normal(60_000)
    >>> reward[user < 100] = 5.0 * (action[user < 100] == 0)
    >>> base_case_2(user, context, action, reward, alpha=0.1).policy
    array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    """
    tallies, _, contexts, actions = _tallied(
        user, context, action, reward, n_contexts=n_contexts, n_actions=n_actions
    )
    S = tallies.n_contexts
    recovered, _ = recover_rare(
        tallies,
        np.full(S, 1.0 / S),  # with scales σ_s = 1/S, A/(n_i σ_s) is SA/n_i
        np.ones(S, np.bool_),
        alpha=check_adversarial_fraction(alpha),
        multivariate=_chosen(multivariate, MULTIVARIATE, "multivariate estimator"),
    )
    mu = np.where(tallies.cell_users() > 0, recovered, np.nan)
    return _base_case(mu, contexts, actions, is_univariate=False)


def hiding_adversary(gap: float, interactions: int, alpha: float) -> HidingAdversary:
    """Return the coalition E^(n) of Lemma 4.2, which hides the gap between two actions.

    Parameters
    ----------
    gap
        ε: good users like the better action with probability 1/2 + ε.
    interactions
        n: plays of that action by each user.
    alpha
        Share of colluders. The gap is hidden completely if (1 + 2ε)^n ≤ 1/(1 − α).

    Examples
    --------
    >>> coalition = hiding_adversary(0.05, 2, 0.2)
    >>> coalition.distance                        # what a user's rewards still show
    0.0
    >>> urns = coalition.start(n_members=3, rng=np.random.default_rng(0))
    >>> urns.draw([0, 1, 2, 0, 1, 2], np.random.default_rng(1)).shape
    (6,)
    """
    return one_sided_adversary(gap, interactions, alpha)


def _base_case(
    mu: FloatArray, contexts: Sequence[Any], actions: Sequence[Any], *, is_univariate: bool
) -> Learned:
    S = len(mu)
    every, none = np.arange(S), np.arange(0)
    return Learned(
        nu=np.full(S, 1.0 / S),
        mu=mu,
        policy=np.where(np.isnan(mu), -np.inf, mu).argmax(axis=1),
        S_plus=every if is_univariate else none,
        S_minus=none if is_univariate else every,
        contexts=contexts,
        actions=actions,
    )


def _chosen(given: str | F, choices: dict[str, F | None], kind: str) -> F | None:
    return find(given, choices, kind=kind) if isinstance(given, str) else given


def _codes(
    column: ArrayLike, name: str, n_labels: int | None = None
) -> tuple[IntArray, Sequence[Any]]:
    """Return codes and their labels; integers are codes already, except those of users."""
    values = np.asarray(column)
    if np.issubdtype(values.dtype, np.integer) and name != "user":
        least = int(values.max(initial=-1)) + 1
        if values.min(initial=0) < 0 or (n_labels is not None and n_labels < least):
            raise InputError(f"{name}: codes must lie between 0 and n_{name}s - 1.")
        return values.astype(np.int64), range(least if n_labels is None else n_labels)
    labels, numbers = np.unique(values, return_inverse=True)
    return numbers.ravel().astype(np.int64), labels.tolist()


def _columns(names: Sequence[str], given: Any, *others: Any) -> list[Any]:
    """Return the columns, which may be given as arrays, as a table or as rows."""
    columns = [given, *others]
    if all(other is None for other in others):
        if hasattr(given, "columns"):
            columns = [given[name] for name in names]
        else:
            columns = list(zip(*given, strict=True))[: len(names)]
    for name, column in zip(names, columns, strict=False):
        if column is None:
            raise InputError(f"{name} is missing: give {', '.join(names)}, or rows of them.")
    if len(columns) < len(names) or len({len(column) for column in columns}) != 1:
        raise InputError(f"give {', '.join(names)}, all of the same length.")
    if not len(columns[0]):
        raise InputError("there are no interactions to learn from; give at least one event.")
    return columns


def _tallied(
    user: Any,
    context: ArrayLike | None,
    action: ArrayLike | None,
    reward: ArrayLike | None,
    *,
    T0: int = 0,
    n_contexts: int | None = None,
    n_actions: int | None = None,
) -> tuple[Tallies, Tallies | None, Sequence[Any], Sequence[Any]]:
    """Return the tallies of all plays and of the first T0 plays, and the labels."""
    columns = _columns(("user", "context", "action", "reward"), user, context, action, reward)
    users, user_labels = _codes(columns[0], "user")
    contexts, context_labels = _codes(columns[1], "context", n_contexts)
    actions, action_labels = _codes(columns[2], "action", n_actions)
    rewards = np.asarray(columns[3], dtype=np.float64)
    if not np.isfinite(rewards).all():
        raise InputError(f"reward {int(np.argmin(np.isfinite(rewards)))} is not a finite number.")
    if not 0 <= T0 < len(rewards):
        raise InputError(f"T0 is {T0}: it must be at least 0 and below the {len(rewards)} plays.")
    tallied = partial(
        tally,
        n_users=len(user_labels),
        n_contexts=len(context_labels),
        n_actions=len(action_labels),
    )
    plays = tallied(users[T0:], contexts[T0:], actions[T0:], rewards[T0:])
    warmup = tallied(users[:T0], contexts[:T0], actions[:T0], rewards[:T0]) if T0 else None
    return plays, warmup, context_labels, action_labels
