"""Review logs without spammers that look as if there were some: series, releases and minorities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unswayed.learners.interface import BoolArray, FloatArray, IntArray
from unswayed.randomness import generator
from unswayed.simulation.worlds.reviews import DAYS, ReviewLog, ReviewSpec

CLEAN = tuple(
    replace(spec, spam_share=0.0)
    for spec in (
        ReviewSpec(name="plain"),
        ReviewSpec(name="heavy-tailed", activity_sd=1.8, mean_activity=12),
        ReviewSpec(name="popular", popularity=1.3, mean_activity=8),
        ReviewSpec(name="loyal", loyalty=0.95, n_communities=60, mean_activity=12),
        ReviewSpec(name="sparse", n_items=20_000, mean_activity=4, activity_sd=1.4),
        ReviewSpec(name="five stars", quality=4.8),
        ReviewSpec(name="small", n_users=400, n_items=900),
    )
)
"""Markets without spammers that are hard to leave in peace."""

N_SERIES, PARTS, FANS = 60, 8, 1.0 / 75.0
N_HITS, RATED_BY = 80, 0.03


def with_series(log: ReviewLog, seed: int) -> ReviewLog:
    """Add series whose fans rate part after part, most with five stars, soon after each is out."""
    rng = generator(seed, "series")
    users, items, days = [], [], []
    for _ in range(N_SERIES):
        fans = rng.choice(log.n_users, size=rng.poisson(FANS * log.n_users) + 2, replace=False)
        parts = rng.choice(log.n_items, size=PARTS, replace=False)
        out = np.sort(0.9 * DAYS * rng.random(PARTS))
        for fan in fans.tolist():
            n = int(rng.integers(2, PARTS + 1))
            users.append(np.full(n, fan))
            items.append(parts[:n])
            days.append(out[:n] + rng.exponential(10.0, n))
    return _added(log, np.concatenate(users), np.concatenate(items), np.concatenate(days), 4.5, rng)


def with_releases(log: ReviewLog, seed: int) -> ReviewLog:
    """Add hits that a part of all accounts rates within days."""
    rng = generator(seed, "releases")
    users, items, days = [], [], []
    for _ in range(N_HITS):
        raters = rng.choice(log.n_users, size=rng.poisson(RATED_BY * log.n_users), replace=False)
        users.append(raters)
        items.append(np.full(len(raters), rng.integers(log.n_items)))
        days.append(0.9 * DAYS * rng.random() + rng.exponential(2.0, len(raters)))
    return _added(log, np.concatenate(users), np.concatenate(items), np.concatenate(days), 4.6, rng)


def with_minority(
    log: ReviewLog, share: float, n_own: int, seed: int, *, each: float = 12.0
) -> tuple[ReviewLog, BoolArray]:
    """Add ratings of a minority with items of its own, and return who belongs to it.

    Its members rate about ``each`` of ``n_own`` items, and as differently as others do.
    """
    rng = generator(seed, "minority")
    members = rng.choice(log.n_users, size=round(share * log.n_users), replace=False)
    own = rng.choice(log.n_items, size=n_own, replace=False)
    weight = (1.0 + np.arange(n_own)) ** -0.7
    users, items = [], []
    for member in members.tolist():
        n = min(int(rng.poisson(each)) + 1, n_own)
        users.append(np.full(n, member))
        items.append(rng.choice(own, size=n, p=weight / weight.sum(), replace=False))
    rows = np.concatenate(users)
    is_member = np.zeros(log.n_users, dtype=np.bool_)
    is_member[members] = True
    days = DAYS * rng.random(len(rows))
    return _added(log, rows, np.concatenate(items), days, 4.3, rng), is_member


def _added(
    log: ReviewLog,
    users: IntArray,
    items: IntArray,
    days: FloatArray,
    quality: float,
    rng: np.random.Generator,
) -> ReviewLog:
    stars = np.clip(np.rint(quality + 0.7 * rng.standard_normal(len(users))), 1.0, 5.0)
    everyone, chosen = np.concatenate([log.users, users]), np.concatenate([log.items, items])
    _, first = np.unique(everyone * log.n_items + chosen, return_index=True)
    return replace(
        log,
        users=everyone[first],
        items=chosen[first],
        stars=np.concatenate([log.stars, stars])[first],
        days=np.concatenate([log.days, days])[first],
    )
