"""Review logs in which users chose the items, with paid reviewers or similar honest users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import stats

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.randomness import generator
from worlds.world import Part

DAYS = 1_000.0
STARS_NOISE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSpec:
    """All settings of a review log except its seed.

    Attributes
    ----------
    n_users, n_items
        Honest accounts, and items.
    mean_activity, activity_sd, popularity
        Activity is log-normal; popularity falls like a power of the rank.
    n_communities, loyalty
        Taste groups, each with items of its own, and the share of choices inside of it.
    quality
        Typical number of stars.
    spam_share
        Share of spammers among all accounts; 0 is a clean market.
    group_size, n_targets, effort
        Spammers in a group, the items that it is paid for, and the share of these that a member
        rates.
    camouflage
        Ratings of other items as a share of those of targets.
    repertoire
        Share of targets that a group takes from those of another one.
    is_sinking, burst_days
        Whether targets get one star instead of five; days within which a target is rated, None for
        no bursts.
    generosity, niche_quality
        Standard deviation of what accounts add to all their stars, and what communities add to
        those of their items: niches whose fans love all of it.
    is_varied
        Whether paid reviewers vary their stars like honest ones: half of the targets get the most,
        three in ten one less, two in ten two less.
    """

    name: str
    n_users: int = 3_000
    n_items: int = 6_000
    mean_activity: float = 10.0
    activity_sd: float = 0.9
    popularity: float = 0.8
    n_communities: int = 30
    loyalty: float = 0.5
    quality: float = 3.9
    spam_share: float = 0.2
    group_size: int = 20
    n_targets: int = 15
    effort: float = 0.5
    camouflage: float = 0.3
    repertoire: float = 0.3
    is_sinking: bool = False
    burst_days: float | None = None
    is_varied: bool = False
    generosity: float = 0.5
    niche_quality: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ReviewLog:
    """A log with one row per review, and a mask of the paid reviewers."""

    users: IntArray
    items: IntArray
    stars: FloatArray
    days: FloatArray
    n_users: int
    n_items: int
    is_spammer: BoolArray


def build_reviews(spec: ReviewSpec, seed: int) -> ReviewLog:
    """Draw a log."""
    rng = generator(seed, "reviews", spec.name)
    community = rng.integers(spec.n_communities, size=spec.n_items)
    weight = np.asarray((1.0 + rng.permutation(spec.n_items)) ** -spec.popularity, np.float64)
    users, items = _honest_choices(spec, rng, community, weight)
    n_spammers = round(spec.n_users * spec.spam_share / (1.0 - spec.spam_share))
    paid_users, paid_items, hidden_users, hidden_items = _paid(spec, rng, weight, n_spammers)
    born = DAYS * rng.random(spec.n_items) * 0.8
    quality = spec.quality + 0.5 * rng.standard_normal(spec.n_items)
    if spec.niche_quality > 0.0:
        quality += spec.niche_quality * rng.standard_normal(spec.n_communities)[community]
    leniency = spec.generosity * rng.standard_normal(spec.n_users + n_spammers)
    everyone = np.concatenate([users, hidden_users, paid_users])
    chosen = np.concatenate([items, hidden_items, paid_items])
    stars = quality[chosen] + leniency[everyone] + STARS_NOISE * rng.standard_normal(len(chosen))
    stars = np.clip(np.rint(stars), 1.0, 5.0)
    days = born[chosen] + (DAYS - born[chosen]) * rng.random(len(chosen)) ** 2
    n_paid = len(paid_users)
    if n_paid:
        stars[-n_paid:] = 1.0 if spec.is_sinking else 5.0
        # One paid review in ten is a star off what was ordered.
        stars[-n_paid:] -= (-1.0 if spec.is_sinking else 1.0) * (rng.random(n_paid) < 0.1)
        if spec.is_varied:
            less = rng.choice(3, p=(0.5, 0.3, 0.2), size=n_paid)
            stars[-n_paid:] = 1.0 + less if spec.is_sinking else 5.0 - less
        if spec.burst_days is not None:
            start = born + (DAYS - born) * rng.random(spec.n_items)
            days[-n_paid:] = start[paid_items] + spec.burst_days * rng.random(n_paid)
    pairs, first = np.unique(everyone * spec.n_items + chosen, return_index=True)
    del pairs
    names = rng.permutation(spec.n_users + n_spammers)
    is_spammer = np.zeros(len(names), dtype=np.bool_)
    is_spammer[names[spec.n_users :]] = True
    return ReviewLog(
        users=names[everyone[first]],
        items=chosen[first],
        stars=stars[first],
        days=days[first],
        n_users=len(names),
        n_items=spec.n_items,
        is_spammer=is_spammer,
    )


def planted(clean: ReviewLog, spec: ReviewSpec, seed: int) -> ReviewLog:
    """Add the spammers of a spec to a log of honest users; other settings are ignored."""
    rng = generator(seed, "planted", spec.name)
    here = replace(spec, n_users=clean.n_users, n_items=clean.n_items)
    weight = np.bincount(clean.items, minlength=clean.n_items).astype(np.float64) + 0.1
    n_spammers = round(clean.n_users * spec.spam_share / (1.0 - spec.spam_share))
    paid_users, paid_items, hidden_users, hidden_items = _paid(here, rng, weight, n_spammers)
    # Camouflage reviews have the ratings of other users.
    order = np.argsort(clean.items, kind="stable")
    starts = np.searchsorted(clean.items[order], np.arange(clean.n_items + 1))
    sizes = np.diff(starts)[hidden_items]
    drawn = starts[hidden_items] + (rng.random(len(hidden_items)) * sizes).astype(np.int64)
    copied = clean.stars[order[np.minimum(drawn, len(order) - 1)]]
    users = np.concatenate([clean.users, hidden_users, paid_users])
    items = np.concatenate([clean.items, hidden_items, paid_items])
    stars = np.concatenate([clean.stars, copied, np.full(len(paid_users), 5.0)])
    days = np.concatenate([clean.days, np.zeros(len(hidden_users) + len(paid_users))])
    _, first = np.unique(users * clean.n_items + items, return_index=True)
    n_users = clean.n_users + n_spammers
    is_spammer = np.arange(n_users) >= clean.n_users
    return ReviewLog(
        users[first], items[first], stars[first], days[first], n_users, clean.n_items, is_spammer
    )


Textbook = Literal["average", "random", "bandwagon", "segment"]
TEXTBOOK: tuple[Textbook, ...] = ("average", "random", "bandwagon", "segment")
N_SELECTED, N_LEADING = 10, 20


def textbook(
    clean: ReviewLog, kind: Textbook, share: float, seed: int, *, is_sinking: bool = False
) -> ReviewLog:
    """Inject profiles as the literature on shilling does (Mobasher et al. 2007), for one target.

    A profile has the length of that of a random account. Its other items are drawn uniformly and
    rated around the mean of the log (random, bandwagon) or of the item (average). A bandwagon adds
    the ten most popular items with the best rating; a segment adds ten items that fans of one
    popular item rate, and gives all others the worst rating.
    """
    rng = generator(seed, "textbook", kind)
    counts = np.bincount(clean.items, minlength=clean.n_items)
    means = np.bincount(clean.items, clean.stars, clean.n_items) / np.maximum(counts, 1)
    squares = np.bincount(clean.items, clean.stars**2, clean.n_items) / np.maximum(counts, 1)
    deviations = np.sqrt(np.maximum(squares - means**2, 0.0))
    usual, spread, values = clean.stars.mean(), clean.stars.std(), np.unique(clean.stars)
    worst, best = (values[-1], values[0]) if is_sinking else (values[0], values[-1])
    is_room = means > usual - 0.3 if is_sinking else means < usual + 0.3
    target = int(rng.choice(np.flatnonzero((counts >= 2) & is_room)))
    popular = np.argsort(-counts, kind="stable")
    selected = np.empty(0, dtype=np.int64)
    if kind == "bandwagon":
        selected = popular[:N_SELECTED]
    elif kind == "segment":
        leading = popular[rng.integers(N_LEADING)]
        fans = np.isin(clean.users, clean.users[clean.items == leading])
        liked = np.bincount(clean.items[fans], minlength=clean.n_items) / (counts + 5.0)
        selected = np.argsort(-liked, kind="stable")[:N_SELECTED]
    selected = selected[selected != target]
    lengths = np.bincount(clean.users, minlength=clean.n_users)
    first, span = float(clean.days.min()), float(np.ptp(clean.days))
    start = first + 0.9 * span * rng.random()
    parts: list[tuple[IntArray, FloatArray]] = []
    n_profiles = round(clean.n_users * share / (1.0 - share))
    for _ in range(n_profiles):
        length = int(np.clip(rng.choice(lengths) - len(selected), 3, clean.n_items // 2))
        others = rng.choice(clean.n_items, size=length, replace=False)
        others = others[~np.isin(others, [target, *selected])]
        noise = rng.standard_normal(len(others))
        rated = {
            "average": means[others] + deviations[others] * noise,
            "segment": np.full(len(others), worst),
        }.get(kind, usual + spread * noise)
        rated = values[np.abs(rated[:, None] - values).argmin(axis=1)]
        top = np.full(len(selected), values[-1])
        parts.append((np.array([target, *selected, *others]), np.array([best, *top, *rated])))
    sizes = [len(items) for items, _ in parts]
    joined = np.repeat(start + 0.02 * span * rng.random(n_profiles), sizes)
    n_users = clean.n_users + n_profiles
    return ReviewLog(
        np.concatenate([clean.users, np.repeat(np.arange(clean.n_users, n_users), sizes)]),
        np.concatenate([clean.items, *(items for items, _ in parts)]),
        np.concatenate([clean.stars, *(stars for _, stars in parts)]),
        np.concatenate([clean.days, joined + 0.01 * rng.random(len(joined))]),
        n_users,
        clean.n_items,
        np.arange(n_users) >= clean.n_users,
    )


def area_under_curve(scores: FloatArray, is_bad: BoolArray) -> float:
    """Return the probability that a bad account scores above a good one; NaN without bad ones."""
    n_bad, n_good = int(is_bad.sum()), int((~is_bad).sum())
    if not n_bad or not n_good:
        return float("nan")
    ranks = stats.rankdata(scores)
    return float((ranks[is_bad].sum() - n_bad * (n_bad + 1) / 2.0) / (n_bad * n_good))


def baselines(log: ReviewLog) -> dict[str, FloatArray]:
    """Return simple scores of accounts as baselines."""
    users, items, stars = log.users, log.items, log.stars
    counts, rated = np.bincount(items, minlength=log.n_items), np.bincount(users)
    means = np.bincount(items, stars) / np.maximum(np.bincount(items), 1)
    is_extreme = (stars == stars.max()) | (stars == stars.min())

    def mean(x: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(users, x, log.n_users) / np.maximum(rated, 1))

    first, last = np.full(log.n_users, np.inf), np.full(log.n_users, -np.inf)
    np.minimum.at(first, users, log.days)
    np.maximum.at(last, users, log.days)
    return {
        "deviation": mean(np.abs(stars - means[items])),
        "extremes": mean(is_extreme.astype(np.float64)),
        "obscurity": -mean(np.log(counts[items])),
        "activity": rated.astype(np.float64),
        **({"short life": first - last} if np.ptp(log.days) > 0.0 else {}),
    }


def _honest_choices(
    spec: ReviewSpec, rng: np.random.Generator, community: IntArray, weight: FloatArray
) -> tuple[IntArray, IntArray]:
    location = np.log(spec.mean_activity) - spec.activity_sd**2 / 2
    draws = np.exp(location + spec.activity_sd * rng.standard_normal(spec.n_users))
    activity = np.clip(np.rint(draws), 1, spec.n_items // 4).astype(np.int64)
    users = np.repeat(np.arange(spec.n_users), activity)
    home = rng.integers(spec.n_communities, size=spec.n_users)
    items = rng.choice(spec.n_items, p=weight / weight.sum(), size=len(users))
    is_loyal = rng.random(len(users)) < spec.loyalty
    for at_home in range(spec.n_communities):
        rows = np.flatnonzero(is_loyal & (home[users] == at_home))
        own = np.flatnonzero(community == at_home)
        if len(own):
            items[rows] = rng.choice(own, p=weight[own] / weight[own].sum(), size=len(rows))
    return users, items


def _paid(
    spec: ReviewSpec, rng: np.random.Generator, weight: FloatArray, n_spammers: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return users and items of paid reviews and of camouflage reviews."""
    paid: list[tuple[int, int]] = []
    hidden: list[tuple[int, int]] = []
    earlier = np.empty(0, dtype=np.int64)
    first = spec.n_users
    while first < spec.n_users + n_spammers:
        size = max(3, round(spec.group_size * np.exp(0.5 * rng.standard_normal())))
        members = np.arange(first, min(first + size, spec.n_users + n_spammers))
        first += size
        n_targets = max(2, round(spec.n_targets * np.exp(0.4 * rng.standard_normal())))
        # Targets are usually unpopular, sometimes popular.
        obscure = rng.choice(spec.n_items, size=n_targets)
        liked = rng.choice(spec.n_items, p=weight / weight.sum(), size=n_targets)
        targets = np.where(rng.random(n_targets) < 0.7, obscure, liked)
        if len(earlier):
            shared = rng.random(n_targets) < spec.repertoire
            targets = np.where(shared, rng.choice(earlier, size=n_targets), targets)
        earlier = np.union1d(earlier, targets)
        for member in members.tolist():
            is_done = rng.random(n_targets) < spec.effort * np.exp(0.3 * rng.standard_normal())
            done = targets[is_done] if is_done.any() else targets[:1]
            paid += [(member, int(item)) for item in done]
            n_hidden = rng.poisson(spec.camouflage * len(done))
            others = rng.choice(spec.n_items, p=weight / weight.sum(), size=n_hidden)
            hidden += [(member, int(item)) for item in others]
    both = [np.array(rows, dtype=np.int64).reshape(-1, 2) for rows in (paid, hidden)]
    return both[0][:, 0], both[0][:, 1], both[1][:, 0], both[1][:, 1]


_KINDS: dict[Part, tuple[ReviewSpec, ...]] = {
    "development": (
        ReviewSpec(name="plain"),
        ReviewSpec(name="sparse", n_users=3_000, n_items=20_000, mean_activity=8),
        ReviewSpec(name="dense", n_users=1_500, n_items=1_200, mean_activity=50),
        ReviewSpec(name="small groups", group_size=6, n_targets=8, effort=0.7),
        ReviewSpec(name="camouflage", camouflage=1.5, n_targets=12),
        ReviewSpec(name="few targets", n_targets=4, effort=0.9, group_size=30),
        ReviewSpec(name="few items", n_items=250, mean_activity=4, n_targets=5, effort=0.7),
        ReviewSpec(name="tight tastes", loyalty=0.9, n_communities=100),
        ReviewSpec(name="sinking", is_sinking=True),
        ReviewSpec(name="bursts", burst_days=3, effort=0.4, camouflage=1.0),
        ReviewSpec(name="active spammers", n_targets=80, effort=0.4, mean_activity=5),
    ),
    "validation": (
        ReviewSpec(name="v flat", popularity=0.4, n_items=9_000, mean_activity=12),
        ReviewSpec(name="v steep", popularity=1.1, mean_activity=6, activity_sd=1.2),
        ReviewSpec(name="v five stars", quality=4.5, n_targets=10),
        ReviewSpec(name="v large groups", group_size=120, n_targets=40, effort=0.2),
        ReviewSpec(name="v bursts", burst_days=7, group_size=10, n_targets=10, effort=0.5),
        ReviewSpec(name="v tastes", loyalty=0.8, n_communities=200, n_items=8_000),
    ),
    "holdout": (
        ReviewSpec(name="h mixed", popularity=0.9, mean_activity=7, camouflage=0.8),
        ReviewSpec(name="h wide", n_items=30_000, mean_activity=15, activity_sd=1.1),
        ReviewSpec(name="h sinking", is_sinking=True, quality=4.3, group_size=12, n_targets=8),
        ReviewSpec(name="h bursts", burst_days=2, n_targets=6, effort=0.8, camouflage=0.5),
        ReviewSpec(name="h narrow", n_items=800, mean_activity=15, n_targets=10, loyalty=0.7),
        ReviewSpec(name="h lazy", group_size=40, n_targets=25, effort=0.15, camouflage=0.2),
    ),
}


def review_specs(part: Part, spam_share: float) -> list[ReviewSpec]:
    """Return the kinds of a part at a share of spammers."""
    return [replace(spec, spam_share=spam_share) for spec in _KINDS[part]]


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
        ReviewSpec(name="generous", generosity=1.2, loyalty=0.8),
        ReviewSpec(
            name="beloved niches", generosity=0.8, niche_quality=1.0, loyalty=0.95, n_communities=60
        ),
    )
)
"""Clean markets prone to false positives."""

N_SERIES, PARTS, FANS = 60, 8, 1.0 / 75.0
N_HITS, RATED_BY = 80, 0.03


def with_series(log: ReviewLog, seed: int) -> ReviewLog:
    """Add series whose fans rate each part soon after its release, mostly with five stars."""
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
    """Add hits that many accounts rate within days."""
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
    """Add ratings of a minority with its own items, and return its members.

    Members rate about ``each`` of ``n_own`` items, with the same variance as others.
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
