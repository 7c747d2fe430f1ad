"""Where the server chose the actions: who agrees with a coalition, and what chance makes of it.

Who met whom says nothing there. What is left are the rewards: how much better the model of a
coalition explains an account's than that of honest users. The null are accounts with the same
plays whose rewards are drawn from those of accounts that are not flagged and met the same cell as
often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.bounded.method import Model
from unswayed.learners.bounded.rewards import SAMPLE_ENTRIES, sampled_users
from unswayed.learners.estimates import Estimates
from unswayed.tallies import Tallies, UserTallies, entry_users

LEAST_NULLS = 20_000
"""Ours: minimum number of null accounts, with permuted rewards, behind a p-value."""

FALSE_DISCOVERIES = 0.01
"""Ours: false discovery rate of ``Agreement.is_clear``."""


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Suspicion of every account.

    Attributes
    ----------
    evidence
        Shape (n_users,); the largest log-odds of membership in a coalition, at least 0.
    p_values
        Shape (n_users,); share of accounts of the null that show as much, adjusted for the number
        of accounts (Benjamini and Hochberg): of those below a level at most that share is chance.
    nulls
        Evidence of such accounts, sorted.
    by_coalition
        Shape (n_coalitions, n_users); evidence for each, in the order of the lies.
    """

    evidence: FloatArray
    p_values: FloatArray
    nulls: FloatArray
    by_coalition: FloatArray

    @property
    def is_clear(self) -> BoolArray:
        """Accounts above the false-discovery threshold; shape (n_users,)."""
        return np.asarray(self.p_values <= FALSE_DISCOVERIES)


def find_agreement(
    tallies: UserTallies, estimates: Estimates, *, rng: np.random.Generator
) -> Agreement:
    """Score every account by agreement in rewards with the coalitions that the learner found.

    Parameters
    ----------
    tallies
        Users' plays.
    estimates
        Of ``learn_bounded``: its model judges accounts.
    rng
        Samples and dealt rewards are drawn from it.
    """
    model: Model = estimates.model
    by_coalition = np.concatenate(tallies.blocks.map_blocks(_evidence, model), axis=1)
    evidence = by_coalition.max(axis=0, initial=0.0)
    sample, chosen = sampled_users(tallies, rng, SAMPLE_ENTRIES)
    is_donor = estimates.user_weights[chosen] >= 0.5
    n_deals = -(-LEAST_NULLS // max(sample.n_users, 1)) if model.coalitions else 1
    nulls = np.sort(
        np.concatenate([model.evidence(_dealt(sample, is_donor, rng)) for _ in range(n_deals)])
    )
    above = len(nulls) - np.searchsorted(nulls, evidence, side="left")
    chances = (above.astype(np.float64) + 1.0) / (len(nulls) + 1.0)
    return Agreement(
        evidence=evidence,
        p_values=stats.false_discovery_control(chances),
        nulls=nulls,
        by_coalition=by_coalition,
    )


def _evidence(tallies: Tallies, model: Model) -> FloatArray:
    found = [replace(model, coalitions=[one]).evidence(tallies) for one in model.coalitions]
    return np.array(found).reshape(len(found), tallies.n_users)


def _dealt(sample: Tallies, is_donor: BoolArray, rng: np.random.Generator) -> Tallies:
    """Permute rewards among entries of the same cell with the same number of plays.

    Entries without a donor keep their own.
    """
    plays = np.rint(sample.plays).astype(np.int64)
    most = int(plays.max(initial=0)) + 1
    kinds = np.unique(sample.cells * most + plays, return_inverse=True)[1]
    gives = np.flatnonzero(is_donor[entry_users(sample.indptr)])
    gives = gives[np.argsort(kinds[gives], kind="stable")]
    starts = np.searchsorted(kinds[gives], np.arange(int(kinds.max(initial=-1)) + 2))
    sizes = np.diff(starts)[kinds]
    drawn = starts[kinds] + (rng.random(len(kinds)) * sizes).astype(np.int64)
    own = np.arange(len(kinds))
    source = np.where(sizes > 0, gives[np.minimum(drawn, max(len(gives) - 1, 0))], own)
    return sample.with_sums(sample.counts[source], sample.sums[source], sample.squares[source])


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
