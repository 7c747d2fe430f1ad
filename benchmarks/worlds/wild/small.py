"""Small worlds: logs with and without a few accounts, and A/B tests with colluders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.stats import binom

from unswayed.arrays import FloatArray, IntArray
from unswayed.limits import one_sided_adversary, smallest_coalition, two_sided_adversaries
from unswayed.randomness import generator
from worlds.wild.building import lies, make_plot
from worlds.wild.people import make_crowd
from worlds.wild.specs import Family, WildSpec
from worlds.wild.traffic import make_visitors, play
from worlds.world import Part, World

FEW_ATTACKS = ("half push", "loud push", "push each", "swap", "sink", "within", "nuke", "wholesale")
"""Names of the ``ATTACKS`` that few accounts try."""

FEW_BASES: dict[Family, float] = {
    "clicks": 0.03,
    "coin": 0.5,
    "stars": 3.3,
    "baskets": 0.06,
    "dwell": 30.0,
    "counts": 1.0,
}
"""Typical mean of each kind of rewards in logs with few accounts."""

AB_USERS, AB_PLAYS = 3_000, 20


def few_accounts(
    n_accounts: int,
    seed: int,
    *,
    part: Part = "development",
    attack: str = "half push",
    traffic: float = 0.1,
    family: Family = "clicks",
    logging: Literal["uniform", "sticky", "epsilon-greedy"] = "uniform",
    alpha: float = 0.1,
    strength: float | None = None,
    n_users: int = 6_000,
    n_events: int = 120_000,
) -> tuple[World, World]:
    """Return a log of honest users, and the same log with a few more accounts.

    Both have the same honest events; the share of colluders that learners assume is ``alpha``.

    Parameters
    ----------
    n_accounts
        How many colluders come last in the second log.
    traffic
        Their share of the events of the second log; all have equally many.
    attack
        A name of ``ATTACKS``; they lie half of the time where it says so, else always.
    strength
        How often they lie, if stated; in other plays they respond as honest users do.
    """
    spec = WildSpec(
        name=f"few accounts {family} {logging}",
        part=part,
        seed=seed,
        family=family,
        base=FEW_BASES[family],
        span=0.8,
        interaction=0.5,
        traits=(),
        trait_share=0.0,
        taste_size=0.0,
        level_sd=0.0,
        n_users=n_users,
        n_contexts=24,
        n_actions=10,
        n_events=n_events,
        zipf=0.5,
        home=0.0,
        logging=logging,
        epsilon=0.3,
        activity="log-normal",
        attack=None,
        bad_share=0.0,
        up=strength or (0.5 if attack == "half push" else 1.0),
        down=(strength or 1.0) if attack in ("swap", "sink", "within", "nuke") else 0.0,
        bot_factor=1.0,
        bot_traffic=traffic,
        alpha=alpha,
    )
    rng = generator(seed, "few accounts", part, family, logging)
    crowd = make_crowd(spec, rng)
    visitors = make_visitors(spec, rng, crowd.activity)
    users, contexts = visitors.visit(rng)
    honest_users, visits = visitors.honest_visits()
    true_means = crowd.true_means(visits, honest_users)
    platform = generator(seed, "platform", part, family, logging)
    actions, rewards, propensities = play(
        spec, platform, users, contexts, true_means, lambda u, s, a: crowd.draw(rng, u, s, a)
    )
    nu = visits.sum(axis=0) / visits.sum()
    without = World(
        users=users,
        contexts=contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities,
        true_means=true_means,
        context_probabilities=nu,
        is_bad=np.zeros(n_users, dtype=np.bool_),
        alpha=alpha,
    )
    lying = replace(spec, attack=attack)
    own = generator(seed, "their lies", part, family, logging, attack, n_accounts)
    plot = make_plot(lying, generator(seed, "their aim", part, family, attack), true_means)
    n_lies = round(traffic / (1 - traffic) * len(users))
    new_users = np.arange(n_lies) % n_accounts
    new_contexts = own.choice(spec.n_contexts, n_lies, p=nu)

    def respond(users: IntArray, contexts: IntArray, actions: IntArray) -> FloatArray:
        honest = crowd.draw(own, users, contexts, actions)
        return lies(lying, own, crowd, plot, users, contexts, actions, honest)

    # Beliefs are drawn before choices, so the same random stream gives the same platform.
    again = generator(seed, "platform", part, family, logging)
    new_actions, new_rewards, new_propensities = play(
        spec, again, new_users, new_contexts, true_means, respond
    )
    together = None
    if propensities is not None and new_propensities is not None:
        together = np.concatenate([propensities, new_propensities])
    return without, replace(
        without,
        users=np.concatenate([users, n_users + new_users]),
        contexts=np.concatenate([contexts, new_contexts]),
        actions=np.concatenate([actions, new_actions]),
        rewards=np.concatenate([rewards, new_rewards]),
        propensities=together,
        is_bad=np.arange(n_users + n_accounts) >= n_users,
        targets=plot.raised[0],
    )


Counts = Callable[[np.random.Generator, int, float, float, float], tuple[IntArray, IntArray]]
"""(rng, n, worse, better, alpha) -> numbers of clicks of n colluders on the worse and on the better
arm."""


def _at_rates(worse: float, better: float) -> Counts:
    def counts(rng: np.random.Generator, n: int, *_: float) -> tuple[IntArray, IntArray]:
        return rng.binomial(AB_PLAYS, worse, n), rng.binomial(AB_PLAYS, better, n)

    return counts


def _half(
    rng: np.random.Generator, n: int, worse: float, better: float, _: float
) -> tuple[IntArray, IntArray]:
    """Half of the colluders lie in every play, the others are honest."""
    is_liar = rng.random(n) < 0.5
    low = np.where(is_liar, AB_PLAYS, rng.binomial(AB_PLAYS, worse, n))
    return low, np.where(is_liar, 0, rng.binomial(AB_PLAYS, better, n))


def _push(
    rng: np.random.Generator, n: int, _: float, better: float, __: float
) -> tuple[IntArray, IntArray]:
    return np.full(n, AB_PLAYS), rng.binomial(AB_PLAYS, better, n)


def _sink(
    rng: np.random.Generator, n: int, worse: float, _: float, __: float
) -> tuple[IntArray, IntArray]:
    return rng.binomial(AB_PLAYS, worse, n), np.zeros(n, dtype=np.int64)


def _swap(
    rng: np.random.Generator, n: int, worse: float, better: float, _: float
) -> tuple[IntArray, IntArray]:
    """Each arm gets the clicks that honest users give the other."""
    return rng.binomial(AB_PLAYS, better, n), rng.binomial(AB_PLAYS, worse, n)


def _mixture(
    rng: np.random.Generator, n: int, worse: float, better: float, _: float
) -> tuple[IntArray, IntArray]:
    """Each colluder has a rate between the honest one and the end of the scale."""
    high, low = rng.uniform(worse, 1.0, n), rng.uniform(0.0, better, n)
    return rng.binomial(AB_PLAYS, high), rng.binomial(AB_PLAYS, low)


def _edge(share_of_alpha: float) -> Counts:
    """All report the honest quantile at a multiple of alpha, just inside the trimmed part."""

    def counts(
        _: np.random.Generator, n: int, worse: float, better: float, alpha: float
    ) -> tuple[IntArray, IntArray]:
        beyond = min(share_of_alpha * alpha, 0.5)
        high = int(binom.ppf(1 - beyond, AB_PLAYS, worse))
        low = int(binom.ppf(beyond, AB_PLAYS, better))
        return np.full(n, high), np.full(n, low)

    return counts


def _hidden(
    rng: np.random.Generator, n: int, worse: float, better: float, alpha: float
) -> tuple[IntArray, IntArray]:
    """Make the two arms look as similar as this share of colluders can."""
    pair = two_sided_adversaries(better - worse, AB_PLAYS, alpha, base=worse)
    return pair.ordinary.counts.draw(n, rng), pair.better.counts.draw(n, rng)


def _exchange(
    rng: np.random.Generator, n: int, worse: float, better: float, alpha: float
) -> tuple[IntArray, IntArray]:
    """Make each arm look as similar to the other as this share of colluders can."""
    gap = better - worse
    sinking = one_sided_adversary(gap, AB_PLAYS, alpha, base=worse)
    raising = one_sided_adversary(gap, AB_PLAYS, alpha, base=1 - better)
    return AB_PLAYS - raising.counts.draw(n, rng), sinking.counts.draw(n, rng)


AB_ATTACKS: dict[str, Counts] = {
    "all or nothing": _at_rates(1.0, 0.0),
    "rates 90/10": _at_rates(0.9, 0.1),
    "rates 80/20": _at_rates(0.8, 0.2),
    "rates 70/30": _at_rates(0.7, 0.3),
    "half of them": _half,
    "push only": _push,
    "sink only": _sink,
    "swap": _swap,
    "mixture": _mixture,
    "trim edge": _edge(1.0),
    "within the trim edge": _edge(1.5),
    "hidden": _hidden,
    "exchange": _exchange,
}
"""Attacks on A/B tests by name."""


def ab_test(gap: float, alpha: float, attack: str | None, seed: int) -> World:
    """Return a log of one context and two arms, 3,000 users with 20 sticky plays each.

    Honest users click at rates .5 - gap/2 and .5 + gap/2; a share ``alpha`` of the users of each
    arm, which learners know, uses one of the ``AB_ATTACKS``, or None.
    """
    rng = generator(seed, "A/B test", attack or "peace", f"{gap:.6f}", f"{alpha:.6f}")
    rates = rng.permutation([0.5 - gap / 2, 0.5 + gap / 2])
    arms = rng.permutation(np.arange(AB_USERS) % 2)
    ones = rng.binomial(AB_PLAYS, rates[arms])
    is_bad = np.zeros(AB_USERS, dtype=np.bool_)
    if attack is not None:
        for arm in (0, 1):
            members = np.flatnonzero(arms == arm)
            is_bad[members[: round(alpha * len(members))]] = True
        for_worse, for_better = AB_ATTACKS[attack](
            rng, int(is_bad.sum()), float(rates.min()), float(rates.max()), alpha
        )
        is_best = arms[is_bad] == rates.argmax()
        ones[is_bad] = np.where(is_best, for_better, for_worse)
    order = rng.permuted(np.tile(np.arange(AB_PLAYS), (AB_USERS, 1)), axis=1)
    n_events = AB_USERS * AB_PLAYS
    return World(
        users=np.repeat(np.arange(AB_USERS), AB_PLAYS),
        contexts=np.zeros(n_events, dtype=np.int64),
        actions=np.repeat(arms, AB_PLAYS),
        rewards=(order < ones[:, None]).astype(np.float64).ravel(),
        alpha=alpha,
        true_means=rates[None, :],
        context_probabilities=np.ones(1),
        is_bad=is_bad,
        targets=np.array([rates.argmin()]),
    )


def hidden_gap(alpha: float) -> float:
    """Return the largest gap of an A/B test that a share ``alpha`` hides from any method."""
    low, high = 0.0, 0.9
    for _ in range(40):
        middle = (low + high) / 2
        needed = smallest_coalition(middle, AB_PLAYS, base=0.5 - middle / 2)
        low, high = (middle, high) if needed <= alpha else (low, middle)
    return low
