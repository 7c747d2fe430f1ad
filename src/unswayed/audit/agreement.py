"""Where the server chose the actions: who agrees in rewards, and what chance would make of it.

Who met whom says nothing there. What is left are the rewards: accounts that say of an item what
others do not (candidates for loud lies, believed or not), and accounts that lean together against
the rest along one direction of all cells. Dealing the rewards anew among the accounts that met the
same cell is an honest null for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import svds

from unswayed.arrays import FloatArray, IntArray
from unswayed.learners.discount.loud.class_counts import (
    PLAYS_PER_RUN,
    ClassArray,
    Counts,
    classes_by_action,
    classes_by_role,
    counts_by_class,
    counts_of,
    repeated_share,
)
from unswayed.learners.discount.loud.coalition import (
    Lie,
    judged_by,
    loudness,
    search_coalitions,
    usual_law,
)
from unswayed.learners.discount.loud.honest import Honest, fit_honest, summed_out
from unswayed.learners.discount.responses.categories import Categories, find_categories
from unswayed.learners.discount.responses.sampling import sampled, single_rewards
from unswayed.tallies import Tallies, UserTallies, entry_users

LEAST_ALPHA = 0.05
"""Ours: a smaller share is never searched for; an audit looks for what may be there."""

CLEAR_GAIN = 50.0
"""Ours: nats at which a candidate counts half."""

WORTH_LOOKING = 0.1
"""Ours: candidates that count less than this share of the best one are left out; to judge everybody
by ranks as well as by items costs another pass over the log."""

LARGEST_RATIO = 30.0
"""Ours: log-ratios are cut here: an account cannot be more suspicious than that."""

DIRECTIONS = 3
"""Ours: directions in which accounts may lean together; the most one-sided one counts."""

CLEARLY = 1.5
"""Ours: a direction must be so many times as one-sided as the most one-sided of dealt rewards."""

USUAL = 2.0
"""Ours: deviations up to which leaning is no evidence."""

FAR = 6.0
"""Ours: deviations at which a leaning counts no further for one-sidedness."""

DISCOUNTED = 30.0
"""Ours: what losing all weight adds to a score, as much as the largest log-ratio."""

LEAST_NULLS = 20_000
"""Ours: scores of accounts with dealt rewards that p-values are read off, at least."""


class _Candidate(NamedTuple):
    """What reads one suspicion off the plays of any account."""

    classes: ClassArray
    model: Honest
    lie: Lie
    worth: float


class _Lean(NamedTuple):
    """A direction over cells, and the middle and the unit of accounts' places along it."""

    means: FloatArray
    deviations: FloatArray
    direction: FloatArray
    middle: float
    unit: float


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Suspicion of every account.

    Attributes
    ----------
    scores
        Shape (n_users,); with what the learner took of the weight.
    evidence
        Shape (n_users,); agreement in rewards alone.
    p_values
        Shape (n_users,); share of accounts with rewards dealt anew that show as much.
    nulls
        Evidence of such accounts, sorted.
    """

    scores: FloatArray
    evidence: FloatArray
    p_values: FloatArray
    nulls: FloatArray


def find_agreement(
    tallies: UserTallies,
    weights: FloatArray,
    *,
    adversarial_fraction: float,
    rng: np.random.Generator,
) -> Agreement:
    """Score every account by agreement in rewards with those the learner found, and others.

    Parameters
    ----------
    tallies
        Users' plays.
    weights
        Shape (n_users,); what the learner left of each account.
    adversarial_fraction
        α.
    rng
        Samples and dealt rewards are drawn from it.
    """
    sample, chosen = sampled(tallies, rng)
    categories = find_categories(single_rewards(sample))
    repeated = 0.0 if categories.is_rare else repeated_share(sample)
    counts = counts_of(sample, categories, repeated)
    n_deals = max(1, -(-LEAST_NULLS // max(sample.n_users, 1)))
    deals = [_dealt(sample, rng) for _ in range(n_deals)]
    lean = _lean(sample, deals[0]) if categories.is_even and not categories.is_rare else None

    def evidence_for(kept: FloatArray) -> tuple[FloatArray, list[_Candidate]]:
        found = _candidates(counts, categories, kept, adversarial_fraction)
        evidence = tallies.blocks.map_blocks(_evidence, categories, repeated, found, lean)
        return np.concatenate(evidence), found

    # Against everybody for the null; and among those who are left, so that a coalition that was
    # found already does not hide the next one.
    evidence, found = evidence_for(np.ones(sample.n_users))
    further = evidence if weights.min() == 1.0 else evidence_for(weights[chosen])[0]
    nulls = [_evidence(deal, categories, repeated, found, lean) for deal in deals]
    dealt = np.sort(np.concatenate(nulls))
    above = len(dealt) - np.searchsorted(dealt, evidence, side="left")
    return Agreement(
        scores=DISCOUNTED * (1.0 - weights) + further,
        evidence=evidence,
        p_values=(above.astype(np.float64) + 1.0) / (len(dealt) + 1.0),
        nulls=dealt,
    )


def _candidates(
    counts: Counts, categories: Categories, weights: FloatArray, alpha: float
) -> list[_Candidate]:
    """Return the lies that gain most, believed or not, among accounts as far as they are kept."""
    found: list[_Candidate] = []
    if categories.n < 2 or counts.n_actions < 2:
        return found
    for classes in (
        classes_by_action(counts),
        classes_by_role(counts, categories.values, weights),
    ):
        data = counts_by_class(counts, classes, PLAYS_PER_RUN)
        honest = fit_honest(data, categories, weights)
        loudest = 1.2 * honest.model.grid.strongest_taste
        share = max(alpha, LEAST_ALPHA)
        for one in search_coalitions(data, categories, honest, weights, share):
            tilt = abs(loudness(one.lie.law, usual_law(data, one, weights), categories.scores))
            gain = max(one.gain, 0.0)
            worth = gain / (gain + CLEAR_GAIN) * min(1.0, tilt / loudest)
            found.append(_Candidate(classes, honest.model, one.lie, worth))
    largest = max(candidate.worth for candidate in found)
    return [candidate for candidate in found if candidate.worth >= WORTH_LOOKING * largest]


def _lean(sample: Tallies, dealt: Tallies) -> _Lean | None:
    """Return the most one-sided of the main directions, if dealt rewards have none like it."""
    found, by_chance = _most_one_sided(sample), _most_one_sided(dealt)
    if found is None or by_chance is None or found[0] < CLEARLY * by_chance[0]:
        return None
    return found[1]


def _most_one_sided(sample: Tallies) -> tuple[float, _Lean] | None:
    """Return a direction in which few accounts lean far, and the skewness of all along it."""
    cells, plays = sample.cells, sample.plays
    rewards = sample.sums / sample.counts
    mass = np.maximum(np.bincount(cells, plays, sample.n_cells), 1e-9)
    means = np.bincount(cells, plays * rewards, sample.n_cells) / mass
    squares = np.bincount(cells, plays * (rewards - means[cells]) ** 2, sample.n_cells) / mass
    usual = float(np.average(squares, weights=mass))
    if not usual > 0.0 or min(sample.n_users, sample.n_cells) <= DIRECTIONS + 1:
        return None
    deviations = np.sqrt(squares + 0.1 * usual)
    rows = sample.csr(_standardised(sample, means, deviations))
    _, _, directions = svds(rows, k=DIRECTIONS, v0=np.ones(min(rows.shape)))
    best: tuple[float, _Lean] | None = None
    for direction in directions:
        places = rows @ direction
        middle = float(np.median(places))
        unit = max(1.4826 * float(np.median(np.abs(places - middle))), 1e-9)
        skewness = float((np.clip((places - middle) / unit, -FAR, FAR) ** 3).mean())
        sign = 1.0 if skewness >= 0.0 else -1.0
        if best is None or abs(skewness) > best[0]:
            one = _Lean(means, deviations, sign * direction, sign * middle, unit)
            best = (abs(skewness), one)
    return best


def _standardised(tallies: Tallies, means: FloatArray, deviations: FloatArray) -> FloatArray:
    far = (tallies.sums / tallies.counts - means[tallies.cells]) / deviations[tallies.cells]
    result: FloatArray = np.clip(far, -4.0, 4.0) * np.sqrt(tallies.plays)
    return result


def _evidence(
    tallies: Tallies,
    categories: Categories,
    repeated: float,
    candidates: list[_Candidate],
    lean: _Lean | None,
) -> FloatArray:
    """Return log(1 + Σ of the candidates' likelihood ratios) and how far an account leans."""
    ratios = np.zeros(tallies.n_users)
    if candidates:
        counts = counts_of(tallies, categories, repeated)
        by_classes: dict[int, list[_Candidate]] = {}
        for candidate in candidates:
            by_classes.setdefault(id(candidate.model), []).append(candidate)
        for some in by_classes.values():
            data = counts_by_class(counts, some[0].classes, PLAYS_PER_RUN)
            honest = summed_out(data, some[0].model, np.ones(tallies.n_users))
            for one in some:
                if one.lie.about < data.n_classes:
                    users, found, _ = judged_by(data, honest, one.lie)
                    ratios[users] += one.worth * np.exp(np.minimum(found, LARGEST_RATIO))
    evidence = np.log1p(ratios)
    if lean is not None:
        places = tallies.csr(_standardised(tallies, lean.means, lean.deviations)) @ lean.direction
        evidence += np.maximum((places - lean.middle) / lean.unit - USUAL, 0.0)
    result: FloatArray = evidence
    return result


def _dealt(sample: Tallies, rng: np.random.Generator) -> Tallies:
    """Return the same plays with rewards dealt anew among entries of a cell with as many plays."""
    plays = np.rint(sample.plays).astype(np.int64)
    order = np.lexsort((plays, sample.cells))
    mixed = np.lexsort((rng.random(len(order)), plays, sample.cells))
    sums, squares = np.empty_like(sample.sums), np.empty_like(sample.squares)
    sums[order], squares[order] = sample.sums[mixed], sample.squares[mixed]
    return sample.with_sums(sample.counts, sums, squares)


def items_leaned_on(tallies: UserTallies, cells: IntArray) -> FloatArray:
    """Return each account's plays in some cells, and its mean reward there; shape (2, n_users)."""
    is_inside = np.zeros(tallies.n_cells, dtype=np.bool_)
    is_inside[cells] = True
    return np.concatenate(tallies.blocks.map_blocks(_plays_inside, is_inside), axis=1)


def _plays_inside(tallies: Tallies, is_inside: FloatArray) -> FloatArray:
    inside = is_inside[tallies.cells].astype(np.float64)
    users = entry_users(tallies.indptr)
    plays = np.bincount(users, inside * tallies.plays, tallies.n_users)
    sums = np.bincount(
        users, inside * tallies.plays * tallies.sums / tallies.counts, tallies.n_users
    )
    return np.stack([plays, sums / np.maximum(plays, 1.0)])
