"""Lockstep: a score for the agreement of each account with others, propagated over shared ratings.

1. *Pairs.* Two accounts share k ratings (same item, same value). Given their activity and the
   popularity of the items, λ are expected. The evidence is −log P(Poisson(λ) ≥ k). If times are
   known, the number of the k ratings that are close in time adds a binomial term. Very common
   ratings are left out, because they are expensive to compare and carry little evidence.
2. *Own suspicion.* log(1 + Σ of the evidence beyond a threshold, over all partners).
3. *Propagation.* The suspicion of a rating is the mean over the accounts that gave it, and each
   account receives the mean over its ratings. Accounts do not contribute to their own.
4. *Calibration.* Honest accounts also overlap, because of shared tastes. So the null distribution
   is estimated from the lower quantiles of the log's own scores, which a minority of less than a
   third can hardly affect.
5. *Generosity.* Accounts that always give five stars agree with each other. So flagged accounts
   must also stand out if λ is conditioned on how often each account gives each value.
6. *Agreement.* Minorities with a taste of their own also rate the same items, but not with the same
   values. So flagged accounts must agree on shared items more often than honest raters do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled

MOST_VALUES, RATING_BINS = 10, 5
"""Ours: maximum number of distinct ratings that are classes; more are cut into quantile bins."""

MOST_EVIDENCE = 600.0
"""Cap on evidence, in nats, to avoid underflow."""

WINDOW = 1.0 / 200.0
"""Ours: ratings within this share of the log's span are close in time."""

THRESHOLDS = (0.75, 1.0)
"""Ours: thresholds of a pair's evidence, in units of log(number of accounts): for strong pairs, and
for an account's own suspicion."""

PAIRS_PER_ENTRY, LEAST_PAIRS = 60, 20_000_000
"""Ours: maximum number of compared pairs per rating, and a number that is always allowed. Beyond
it, the most common ratings are left out."""

MOST_SHARED = 0.5
"""Ours: pairs ignore ratings that a larger share of the accounts gave. The null model assumes that
an account is unlikely to draw a rating twice, and overestimates λ otherwise."""

ROUNDS = 2
"""Ours: rounds of propagation (step 3)."""

PRIOR = 1.0
"""Ours: weight of the mean suspicion as a prior, in ratings and in accounts."""

LOWER_QUANTILES = (0.1, 0.35)
"""Ours: quantiles of the scores to which the normal null distribution is fitted."""

LEAST_SCALE, LEAST_OWN_SCALE = 0.15, 0.7
"""Ours: minimum standard deviations of the null distributions of received and own suspicion, for
logs in which hardly any ratings are shared."""

FLAGGED, FAR = 5.0, 6.5
"""Ours: deviations of the received suspicion beyond which an account is flagged, or is an outlier.
Its own evidence must also be at least ``OWN`` or ``OWN_FAR`` times log(number of accounts)."""

FLAGGED_ALONE, FAR_ALONE = 4.5, 5.5
"""Ours: the same for an account's own suspicion alone. These constants and the following ones were
chosen on the clean markets of ``benchmarks/audit.py --part development``."""

OWN, OWN_FAR = 1.0, 3.0

LEAST_FAR = 5
"""Ours: minimum number of outliers; with fewer, no account is flagged."""

ALIKE = 0.3
"""Ours: minimum agreement of flagged accounts on shared items, on a scale from 0, the agreement of
honest raters, to 1. Real users who share items reach .26, paid groups .39 or more
(``benchmarks/audit.py``)."""

WITHOUT_STARS = 1.5
"""Ours: factor on the thresholds above if all ratings are equal, as agreement then says nothing."""

LEAST_COMPARED = 5
"""Ours: minimum number of comparisons for which the agreement of an account is checked."""

CLOSE_RANGE = (0.001, 0.5)
"""Ours: bounds on the probability that two ratings are close in time by chance."""

MOST_PAIRS = 2_000_000
"""Ours: maximum number of strong pairs kept for grouping."""

OWN_SAY = 0.5
"""Ours: weight of an account's own suspicion in its score."""


class Ratings(NamedTuple):
    """Ratings in sparse form, one entry per account and item, sorted by account."""

    indptr: IntArray  # account u has the entries indptr[u] to indptr[u + 1]
    users: IntArray
    items: IntArray
    classes: IntArray  # codes of the ratings
    times: FloatArray  # NaN where unknown; empty if no rating has a time
    keys: IntArray  # codes of the pairs (item, class)
    starts: IntArray  # key j has the entries order[starts[j]] to order[starts[j + 1]]
    order: IntArray
    n_items: int
    n_classes: int

    @property
    def n_users(self) -> int:
        """Number of accounts."""
        return len(self.indptr) - 1

    @property
    def activity(self) -> IntArray:
        """Number of items that each account rated; shape (n_users,)."""
        return np.diff(self.indptr)

    @property
    def said_by(self) -> IntArray:
        """Number of accounts that gave each key; shape (n_keys,)."""
        return np.diff(self.starts)


def ratings_of(
    users: npt.NDArray[np.integer],
    items: npt.NDArray[np.integer],
    rewards: FloatArray,
    times: FloatArray | None,
    *,
    n_users: int,
    n_items: int,
) -> Ratings:
    """Return the first rating of each (account, item), in order of time if times are known.

    >>> found = ratings_of(
    ...     np.array([1, 0, 1]), np.array([2, 0, 2]), np.array([5.0, 1.0, 4.0]), None,
    ...     n_users=2, n_items=3,
    ... )
    >>> found.items.tolist(), found.activity.tolist()
    ([0, 2], [1, 1])
    """
    pairs = users.astype(np.int64) * n_items + items
    when = np.empty(0) if times is None else times
    order = np.lexsort((np.nan_to_num(when, nan=np.inf), pairs) if len(when) else (pairs,))
    pairs, first = np.unique(pairs[order], return_index=True)
    chosen = order[first]
    rated_by, rated = np.divmod(pairs, max(n_items, 1))
    values, classes = np.unique(rewards[chosen], return_inverse=True)
    if len(values) > MOST_VALUES:
        values = np.unique(np.quantile(rewards[chosen], np.arange(1, RATING_BINS) / RATING_BINS))
        classes = np.searchsorted(values, rewards[chosen], side="left")
    n_classes = int(classes.max(initial=0)) + 1
    keys = np.unique(rated * n_classes + classes, return_inverse=True)[1]
    return Ratings(
        indptr=np.append(0, np.cumsum(np.bincount(rated_by, minlength=n_users))).astype(np.int64),
        users=rated_by,
        items=rated,
        classes=classes.astype(np.int64),
        times=when[chosen] if len(when) else when,
        keys=keys,
        starts=np.append(0, np.cumsum(np.bincount(keys))).astype(np.int64),
        order=np.argsort(keys, kind="stable"),
        n_items=n_items,
        n_classes=n_classes,
    )


@compiled
def _poisson_tail(k: int, expected: float) -> float:
    """Return −log P(X ≥ k) for X Poisson; 0 where k is no more than expected."""
    if k <= expected or expected <= 0.0:
        return 0.0 if expected > 0.0 else MOST_EVIDENCE
    term, total, j = 1.0, 1.0, k
    while term > 1e-12 * total:
        j += 1
        term *= expected / j
        total += term
    log_p = -expected + k * math.log(expected) - math.lgamma(k + 1.0) + math.log(total)
    return min(max(-log_p, 0.0), MOST_EVIDENCE)


@compiled
def _binomial_tail(c: int, k: int, q: float) -> float:
    """Return −log P(X ≥ c) for X binomial with k trials."""
    if c <= q * k:
        return 0.0
    total = 0.0
    for j in range(c, k + 1):
        log_p = math.lgamma(k + 1.0) - math.lgamma(j + 1.0) - math.lgamma(k - j + 1.0)
        total += math.exp(log_p + j * math.log(q) + (k - j) * math.log1p(-q))
    return min(-math.log(max(total, 1e-260)), MOST_EVIDENCE)


class _Null(NamedTuple):
    """Null model of a pair: λ = Σ_c o_c·d_uc·d_vc shared keys, each close in time with chance q."""

    is_kept: BoolArray  # which keys are compared
    stars: FloatArray  # d_uc, how often an account gave each class
    overlap: FloatArray  # o_c, chance that two ratings of class c are of the same item
    window: float  # ratings within it are close in time; 0 without times
    q: float  # chance that two ratings of an item are close in time
    thresholds: FloatArray  # thresholds of a pair's evidence, in nats


@compiled
def _pairs(
    ratings: Ratings, null: _Null, is_chosen: BoolArray, most: int
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Compare all pairs of accounts that share keys.

    Returns the sum over partners of the evidence beyond each threshold, shape (n_users,
    n_thresholds), and for up to ``most`` pairs u < v of chosen accounts beyond the first threshold
    an array with columns u, v, shared keys, keys close in time, and the expected number of shared
    keys.
    """
    n_users, n, thresholds = ratings.indptr.size - 1, 0, null.thresholds
    found = np.zeros((n_users, thresholds.size))
    pairs, expectations = np.empty((most, 4), np.int64), np.empty(most)
    shared, close = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
    partners = np.empty(n_users, np.int64)
    for u in range(n_users):
        n_partners = 0
        for entry in range(ratings.indptr[u], ratings.indptr[u + 1]):
            key = ratings.keys[entry]
            if not null.is_kept[key]:
                continue
            for other in ratings.order[ratings.starts[key] : ratings.starts[key + 1]]:
                v = ratings.users[other]
                if v == u:
                    continue
                if shared[v] == 0:
                    partners[n_partners] = v
                    n_partners += 1
                shared[v] += 1
                if null.window > 0.0:
                    apart = abs(ratings.times[other] - ratings.times[entry])
                    close[v] += apart <= null.window
        of_class = null.overlap * null.stars[u]
        for v in partners[:n_partners]:
            expected = np.dot(of_class, null.stars[v])
            evidence = _poisson_tail(shared[v], expected)
            if null.window > 0.0:
                evidence += _binomial_tail(close[v], shared[v], null.q)
            for f in range(thresholds.size):
                found[u, f] += max(evidence - thresholds[f], 0.0)
            if evidence > thresholds[0] and u < v and is_chosen[u] and is_chosen[v] and n < most:
                pairs[n, 0], pairs[n, 1], pairs[n, 2], pairs[n, 3] = u, v, shared[v], close[v]
                expectations[n] = expected
                n += 1
            shared[v] = close[v] = 0
    return found, pairs[:n], expectations[:n]


@dataclass(frozen=True, slots=True, eq=False)
class Lockstep:
    """Result of a search for lockstep."""

    scores: FloatArray  # shape (n_users,)
    is_flagged: BoolArray  # shape (n_users,)
    pairs: IntArray  # pairs of flagged accounts: u, v, shared ratings, those close in time
    expected: FloatArray  # expected number of shared ratings of each pair
    window: float  # window for ratings close in time; 0 if times are unknown
    close_by_chance: float  # chance that two ratings of an item are close in time


def find_lockstep(ratings: Ratings, is_fake: BoolArray | None = None) -> Lockstep:
    """Score every account by its agreement with others, in nearly linear time.

    ``is_fake``, shape (n_users,), marks known fakes, which get the largest evidence of all.
    """
    is_kept = _kept_keys(ratings)
    shares = ratings.said_by[is_kept] / max(len(ratings.keys), 1)
    activity, chance = ratings.activity[:, None].astype(float), np.array([(shares**2).sum()])
    thresholds = np.array(THRESHOLDS) * np.log(max(ratings.n_users, 2))
    null = _Null(is_kept, activity, chance, *_closeness(ratings), thresholds)
    scores, is_flagged = _judged(ratings, null, is_fake)
    if is_flagged.any() and ratings.n_classes > 1:
        # Step 5: condition on generosity.
        null = _of_generosity(ratings, null)
        is_flagged = is_flagged & _judged(ratings, null, is_fake)[1]
    _, pairs, expected = _pairs(ratings, null, is_flagged, MOST_PAIRS)
    if ratings.n_classes > 1:
        is_flagged = _alike(ratings, is_flagged, pairs)
    is_left = is_flagged[pairs[:, 0]] & is_flagged[pairs[:, 1]]
    return Lockstep(
        scores=scores,
        is_flagged=is_flagged,
        pairs=pairs[is_left],
        expected=expected[is_left],
        window=null.window,
        close_by_chance=null.q,
    )


def _judged(
    ratings: Ratings, null: _Null, is_fake: BoolArray | None
) -> tuple[FloatArray, BoolArray]:
    """Return scores and a mask of flagged accounts: none unless several are outliers."""
    nobody = np.zeros(ratings.n_users, np.bool_)
    evidence = _pairs(ratings, null, nobody, 0)[0]
    if is_fake is not None and is_fake.any():
        evidence[is_fake] = np.maximum(evidence[is_fake], evidence.max(axis=0))
    suspicion = np.log1p(evidence[:, 1])
    from_others = _deviations(_spread(suspicion, ratings), LOWER_QUANTILES, LEAST_SCALE)
    own = _deviations(suspicion, (LOWER_QUANTILES[0], 0.5), LEAST_OWN_SCALE)
    far = 1.0 if ratings.n_classes > 1 else WITHOUT_STARS
    nats = evidence[:, 0] / np.log(max(ratings.n_users, 2))
    score, from_others, own = from_others + OWN_SAY * own, from_others / far, own / far
    is_far = ((from_others > FAR) & (nats > OWN_FAR)) | (own > FAR_ALONE)
    is_flagged = ((from_others > FLAGGED) & (nats > OWN)) | (own > FLAGGED_ALONE)
    return score, is_flagged & (int(is_far.sum()) >= LEAST_FAR)


def _kept_keys(ratings: Ratings) -> BoolArray:
    """Return a mask of the keys that are compared: all but the most common ones."""
    said_by = ratings.said_by
    order = np.argsort(said_by, kind="stable")
    most = max(PAIRS_PER_ENTRY * len(ratings.keys), LEAST_PAIRS)
    is_kept = np.zeros(len(said_by), dtype=np.bool_)
    is_kept[order[np.cumsum(said_by[order].astype(np.float64) ** 2) <= most]] = True
    n_active = int((ratings.activity > 0).sum())
    return is_kept & (said_by > 1) & (said_by <= MOST_SHARED * n_active)


def _of_generosity(ratings: Ratings, null: _Null) -> _Null:
    """Return the null model conditioned on how often each account gives each class."""
    n_classes = ratings.n_classes
    pairs = ratings.users * n_classes + ratings.classes
    stars = np.bincount(pairs, minlength=ratings.n_users * n_classes).astype(np.float64)
    classes = ratings.classes[ratings.order[ratings.starts[:-1]]]
    total = np.bincount(classes, ratings.said_by, n_classes)
    squares = np.bincount(classes, null.is_kept * ratings.said_by**2.0, n_classes)
    overlap = squares / np.maximum(total, 1.0) ** 2
    return null._replace(stars=stars.reshape(-1, n_classes), overlap=overlap)


def _spread(own: FloatArray, ratings: Ratings) -> FloatArray:
    """Return each account's suspicion due to other accounts that gave the same ratings."""
    users, keys = ratings.users, ratings.keys
    n_keys = len(ratings.said_by)
    others = ratings.said_by[keys].astype(np.float64) - 1.0
    current = own
    for _ in range(ROUNDS):
        usual = float(current.mean())
        total = np.bincount(keys, current[users], n_keys)[keys] - current[users]
        of_rating = (total + PRIOR * usual) / (others + PRIOR)
        came = np.bincount(users, of_rating, ratings.n_users) + PRIOR * usual
        came /= ratings.activity + PRIOR
        current = own + came
    return np.asarray(came, np.float64)


def _alike(ratings: Ratings, is_flagged: BoolArray, pairs: IntArray) -> BoolArray:
    """Return a mask of the flagged accounts that agree with each other on shared items.

    An account is cleared if it does not agree with its group, and a group if its members do not
    agree.
    """
    if not is_flagged.any():
        return is_flagged
    same, compared = _agreement(ratings, is_flagged)
    usual_same, usual_compared = _agreement(ratings, ~is_flagged)
    usual = float(usual_same.sum() / max(float(usual_compared.sum()), 1.0))
    least = usual + ALIKE * (1.0 - usual)
    group = np.where(is_flagged, connected(pairs[:, :2], ratings.n_users), -1) + 1
    of_group = [np.bincount(group[is_flagged], x[is_flagged])[group] for x in (same, compared)]
    is_group_alike = of_group[0] >= least * of_group[1]
    is_alike = (same >= least * compared) | (compared < LEAST_COMPARED)
    found = is_flagged & is_alike & is_group_alike
    return found if int(found.sum()) >= LEAST_FAR else np.zeros_like(is_flagged)


def connected(links: IntArray, n_nodes: int) -> IntArray:
    """Return the connected component of each node; ``links`` has shape (n_links, 2)."""
    ones = np.ones(len(links))
    matrix = sparse.coo_array((ones, (links[:, 0], links[:, 1])), shape=(n_nodes, n_nodes))
    component = sparse.csgraph.connected_components(matrix, directed=False)[1]
    return np.asarray(component, dtype=np.int64)


def _agreement(ratings: Ratings, is_inside: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return each member's numbers of equal ratings and of common items, over all other members."""
    users, keys, items = ratings.users, ratings.keys, ratings.items
    inside = is_inside[users].astype(np.float64)
    alike = np.bincount(keys, inside, len(ratings.said_by))[keys] - 1.0
    rated = np.bincount(items, inside, ratings.n_items)[items] - 1.0
    return (
        np.asarray(np.bincount(users, inside * alike, ratings.n_users), np.float64),
        np.asarray(np.bincount(users, inside * rated, ratings.n_users), np.float64),
    )


def _deviations(
    values: FloatArray, quantiles: tuple[float, float], least_scale: float
) -> FloatArray:
    """Standardise values by a normal distribution fitted to two of their quantiles."""
    (low, high), normal = np.quantile(values, quantiles), special.ndtri(np.array(quantiles))
    scale = (high - low) / (normal[1] - normal[0])
    middle = high - scale * normal[1]
    return np.asarray((values - middle) / max(scale, least_scale))


def _closeness(ratings: Ratings) -> tuple[float, float]:
    """Return the time window, and the probability that two ratings of an item are within it.

    The probability is estimated from raters who disagree, because they are not in lockstep.
    """
    times, window = ratings.times, 0.0
    if np.isfinite(times).sum() > 1:
        window = WINDOW * float(np.diff(np.nanquantile(times, (0.01, 0.99)))[0])
    if not window > 0.0:
        return 0.0, 0.5
    order = np.lexsort((ratings.users * 2_654_435_761 % 1_000_003, ratings.items))
    first, second = order[:-1], order[1:]
    differs = (ratings.items[first] == ratings.items[second]) & (
        ratings.classes[first] != ratings.classes[second]
    )
    apart = np.abs(times[first] - times[second])[differs]
    apart = apart[np.isfinite(apart)]
    probability = (float((apart <= window).sum()) + 1.0) / (len(apart) + 20.0)
    return window, float(np.clip(probability, *CLOSE_RANGE))
