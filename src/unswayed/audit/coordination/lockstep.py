"""A score for every account: agreement with others, propagated through the ratings they share.

1. *Pairs.* Two accounts that share k ratings, where λ are expected of two accounts with their
   activity and of items with this popularity, have evidence −log P(Poisson(λ) ≥ k). If times are
   known, the number of the k that fall close together adds to it. Ratings that very many accounts
   share show little and cost much, and are left out of pairs.
2. *Own suspicion.* log(1 + Σ over partners of the evidence beyond a threshold).
3. *Propagation.* A rating is as suspicious as the accounts that gave it, and an account as its
   ratings; no account counts for itself.
4. *Calibration.* Honest accounts overlap too, by shared taste, so the null is read off the log: the
   middle and the spread of the lower part of the accounts, which fewer than a third of all cannot
   move far.
5. *Generosity.* Whoever always gives five stars agrees with everybody who does. So flagged accounts
   must stand out as well if λ is that of accounts with their own numbers of each star.
6. *Agreement.* Flagged accounts must rate shared items more alike than honest raters do: a minority
   with a taste of its own shares items, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse, special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.audit.coordination.kernels import Rated, pair_evidence, strong_pairs
from unswayed.audit.coordination.profiles import WINDOW
from unswayed.audit.coordination.ratings import Ratings

THRESHOLDS = (0.75, 1.0, 1.25)
"""Ours, in units of log(number of accounts): beyond these evidence of a pair counts. Low ones see
large and lazy groups, high ones see small ones; the scores of all are averaged."""

PAIRS_PER_ENTRY, LEAST_PAIRS = 60, 20_000_000
"""Ours: maximum number of pairs; the most common ratings are left out beyond it."""

JUDGED_BY = 1
"""Ours: index of the threshold used for flagging."""

ROUNDS = 2
"""Ours: number of propagation rounds."""

PRIOR = 1.0
"""Ours: prior weight of the mean suspicion, in ratings and in accounts."""

LOWER_QUANTILES = (0.1, 0.35)
"""Ours: the null is a normal law through these quantiles of the scores."""

LEAST_SCALE, LEAST_OWN_SCALE = 0.15, 0.7
"""Ours: the null has at least these standard deviations: of the suspicion that comes from others,
and of an account's own. Where hardly anybody shares anything the spread of the log says nothing."""

FLAGGED, FAR = 5.0, 6.5
"""Ours: deviations of what comes from others from which an account is flagged if its own evidence
is at least ``OWN`` times log(number of accounts); and from which it lies far out."""

FLAGGED_ALONE, FAR_ALONE = 4.5, 5.5
"""Ours: the same for an account's own suspicion, whatever comes from others. All of these were
chosen on the clean markets of ``benchmarks/audit.py --part development``, and so is what follows:
nobody is flagged unless some lie far out."""

OWN, OWN_FAR = 1.0, 3.0

LEAST_FAR = 5
"""Ours: minimum number of outlying accounts before any is flagged."""

ALIKE = 0.3
"""Ours: flagged accounts rate what they share alike, by this share of the way from how often honest
raters of an item agree to always. A minority with a taste of its own shares items and not ratings.
Real people who share items reach .26, paid groups .39 and more (``benchmarks/audit.py``)."""

WITHOUT_STARS = 1.5
"""Ours: where all ratings are equal, agreement says nothing, and accounts have to lie farther out
by this factor."""

LEAST_COMPARED = 5
"""Ours: minimum number of comparisons before an account is acquitted."""

CLOSE_RANGE = (0.001, 0.5)
"""Ours: bounds on that probability."""

MOST_PAIRS = 2_000_000
"""Ours: maximum number of strong pairs kept for grouping."""

OWN_SAY = 0.5
"""Ours: what an account's own deviation adds to those of what comes from others."""

TIE_BREAK = 1e-3
"""Ours: weight of the weakest evidence, which breaks ties."""


class _Closeness(NamedTuple):
    times: FloatArray
    window: float
    probability: float


@dataclass(frozen=True, slots=True, eq=False)
class Lockstep:
    """What was found.

    Attributes
    ----------
    scores
        Shape (n_users,); larger is more suspicious.
    deviations
        Shape (n_users,); how far an account lies from the middle of the log, in its own unit.
    is_flagged
        Shape (n_users,).
    pairs, expected
        Strong pairs of flagged accounts, a row each: accounts, shared ratings, and those close in
        time; and how many shared ones are explained.
    window
        What counts as close in time; None if times are not known.
    """

    scores: FloatArray
    deviations: FloatArray
    is_flagged: BoolArray
    pairs: IntArray
    expected: FloatArray
    window: float | None


def find_lockstep(ratings: Ratings, is_fake: BoolArray | None = None) -> Lockstep:
    """Score every account by agreement with others; near-linear in the number of ratings.

    ``is_fake``, shape (n_users,), are accounts known to be fakes: what they rate is suspicious.
    """
    closeness = _closeness(ratings)
    is_kept = _kept_keys(ratings)
    starts, order = ratings.by_key

    def judged(stars: FloatArray, overlap: FloatArray) -> tuple[Rated, _Judged]:
        rated = Rated(
            ratings.indptr,
            ratings.keys,
            closeness.times,
            ratings.users,
            starts,
            order,
            is_kept,
            stars,
            overlap,
            closeness.window,
            closeness.probability,
        )
        return rated, _judged(ratings, rated, is_fake)

    stars, overlap = _chances(ratings, is_kept)
    shares = ratings.said_by[is_kept] / max(len(ratings.keys), 1)
    rated, found = judged(stars.sum(axis=1, keepdims=True), np.array([(shares**2).sum()]))
    is_flagged, deviations = found.is_flagged, found.deviations
    if is_flagged.any() and ratings.n_classes > 1:
        # Generous accounts agree with generous ones: only what is left beyond that is flagged.
        rated, conditional = judged(stars, overlap)
        is_flagged = is_flagged & conditional.is_flagged
        deviations = np.minimum(deviations, conditional.deviations)
    pairs, expected = strong_pairs(rated, _units(ratings)[1], is_flagged, MOST_PAIRS)
    if ratings.n_classes > 1:
        is_flagged = _alike(ratings, is_flagged, pairs)
    is_left = is_flagged[pairs[:, 0]] & is_flagged[pairs[:, 1]]
    return Lockstep(
        scores=found.scores,
        deviations=deviations,
        is_flagged=is_flagged,
        pairs=pairs[is_left],
        expected=expected[is_left],
        window=None if len(closeness.times) == 0 else closeness.window,
    )


class _Judged(NamedTuple):
    scores: FloatArray
    deviations: FloatArray
    is_flagged: BoolArray


def _units(ratings: Ratings) -> FloatArray:
    """Return the thresholds of a pair's evidence, in nats."""
    units: FloatArray = np.array([0.0, *THRESHOLDS]) * np.log(max(ratings.n_users, 2))
    return units


def _judged(ratings: Ratings, rated: Rated, is_fake: BoolArray | None) -> _Judged:
    evidence = pair_evidence(rated, _units(ratings))
    if is_fake is not None and is_fake.any():
        evidence[is_fake] = np.maximum(evidence[is_fake], evidence.max(axis=0))
    weakest, *beyond = np.log1p(evidence).T
    by_threshold = [_deviations(_spread(own, ratings), LEAST_SCALE) for own in beyond]
    from_others = by_threshold[JUDGED_BY]
    own = _own_deviations(beyond[JUDGED_BY])
    ties = weakest + np.log1p(ratings.activity) / 10.0
    far = 1.0 if ratings.n_classes > 1 else WITHOUT_STARS
    return _Judged(
        np.mean(by_threshold, axis=0) + OWN_SAY * own + TIE_BREAK * ties,
        np.maximum(from_others, own) / far,
        _flagged(from_others / far, own / far, evidence[:, 1] / np.log(max(ratings.n_users, 2))),
    )


def _kept_keys(ratings: Ratings) -> BoolArray:
    """Return the ratings that few enough accounts share for all pairs of them to be looked at."""
    said_by = ratings.said_by
    order = np.argsort(said_by, kind="stable")
    most = max(PAIRS_PER_ENTRY * len(ratings.keys), LEAST_PAIRS)
    is_kept = np.zeros(len(said_by), dtype=np.bool_)
    is_kept[order[np.cumsum(said_by[order].astype(np.float64) ** 2) <= most]] = True
    return is_kept & (said_by > 1)


def _chances(ratings: Ratings, is_kept: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return how often each account gave each class, and how often two of a class share an item."""
    n_classes = ratings.n_classes
    pairs = ratings.users * n_classes + ratings.classes
    stars = np.bincount(pairs, minlength=ratings.n_users * n_classes).astype(np.float64)
    of_key = np.empty(len(ratings.said_by), dtype=np.int64)
    of_key[ratings.keys] = ratings.classes
    total = np.bincount(of_key, ratings.said_by, n_classes)
    squares = np.bincount(of_key[is_kept], ratings.said_by[is_kept] ** 2.0, n_classes)
    return stars.reshape(-1, n_classes), squares / np.maximum(total, 1.0) ** 2


def _spread(own: FloatArray, ratings: Ratings) -> FloatArray:
    """Return the suspicion that comes to each account from others, through shared ratings."""
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


def _flagged(from_others: FloatArray, own: FloatArray, evidence: FloatArray) -> BoolArray:
    """Return who is flagged: nobody, unless several accounts lie far out."""
    is_far = ((from_others > FAR) & (evidence > OWN_FAR)) | (own > FAR_ALONE)
    if int(is_far.sum()) < LEAST_FAR:
        return np.zeros(len(own), dtype=np.bool_)
    return ((from_others > FLAGGED) & (evidence > OWN)) | (own > FLAGGED_ALONE)


def _alike(ratings: Ratings, is_flagged: BoolArray, pairs: IntArray) -> BoolArray:
    """Mark flagged accounts that agree with each other more than honest raters do.

    Sharing items is what any minority with a taste of its own does; agreeing about them is not. An
    account is let go if it does not agree, and with its group if that does not.
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
    """Return the component of each node; links have a row each."""
    ones = np.ones(len(links))
    matrix = sparse.coo_array((ones, (links[:, 0], links[:, 1])), shape=(n_nodes, n_nodes))
    component = sparse.csgraph.connected_components(matrix, directed=False)[1]
    return np.asarray(component, dtype=np.int64)


def _agreement(ratings: Ratings, is_inside: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return for each account how many others inside rated its items: alike, and at all."""
    users, keys, items = ratings.users, ratings.keys, ratings.items
    inside = is_inside[users].astype(np.float64)
    alike = np.bincount(keys, inside, len(ratings.said_by))[keys] - 1.0
    rated = np.bincount(items, inside, ratings.n_items)[items] - 1.0
    return (
        np.asarray(np.bincount(users, inside * alike, ratings.n_users), np.float64),
        np.asarray(np.bincount(users, inside * rated, ratings.n_users), np.float64),
    )


def _deviations(values: FloatArray, least_scale: float) -> FloatArray:
    """Return distances from the middle of the bulk, in its standard deviations."""
    quantiles = np.quantile(values, LOWER_QUANTILES)
    normal = special.ndtri(np.array(LOWER_QUANTILES))
    scale = float(quantiles[1] - quantiles[0]) / float(normal[1] - normal[0])
    middle = float(quantiles[1]) - scale * float(normal[1])
    result: FloatArray = (values - middle) / max(scale, least_scale)
    return result


def _own_deviations(values: FloatArray) -> FloatArray:
    """Return distances of accounts' own suspicion from the median, by the lower half's spread."""
    low, middle = np.quantile(values, (LOWER_QUANTILES[0], 0.5))
    scale = float(middle - low) / -float(special.ndtri(LOWER_QUANTILES[0]))
    result: FloatArray = (values - middle) / max(scale, LEAST_OWN_SCALE)
    return result


def _closeness(ratings: Ratings) -> _Closeness:
    """Return times, what is close, and how often raters of an item who disagree are.

    Who disagrees is no partner in lockstep, so lockstep does not move the probability much.
    """
    times = ratings.times
    if times is None or np.isfinite(times).sum() < 2:
        return _Closeness(np.empty(0), 0.0, 0.5)
    low, high = np.nanquantile(times, (0.01, 0.99))
    window = WINDOW * float(high - low)
    if not window > 0.0:
        return _Closeness(np.empty(0), 0.0, 0.5)
    order = np.lexsort((ratings.users * 2_654_435_761 % 1_000_003, ratings.items))
    first, second = order[:-1], order[1:]
    differs = (ratings.items[first] == ratings.items[second]) & (
        ratings.classes[first] != ratings.classes[second]
    )
    apart = np.abs(times[first] - times[second])[differs]
    apart = apart[np.isfinite(apart)]
    probability = (float((apart <= window).sum()) + 1.0) / (len(apart) + 20.0)
    return _Closeness(times, window, float(np.clip(probability, *CLOSE_RANGE)))
