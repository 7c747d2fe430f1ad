"""The logging design: which contexts had a fixed action per user."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.learners.reward_range import RewardBound
from unswayed.tallies import Tallies, UserTallies

DesignName = Literal["auto", "sticky", "uniform"]

#: Ours. A (user, context) pair met twice or more is evidence: uniform play of A actions repeats the
#: first action with probability 1/A ≤ 1/2, so 40 pairs without a change have p-value below 1e-12.
STICKY_EVIDENCE_PAIRS = 40


#: Ours. Actions count as assigned unevenly if even draws would split a log so with a smaller
#: probability (chi-squared test over all contexts).
UNEVEN = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Which contexts gave each user one fixed action, and how many users each action got there.

    In contexts that are not sticky each play is uniform over the actions, and ``group_sizes``, the
    numbers of users in I_{s,a}, are not read. Users who never met the context count as well: they
    contribute 0 to (s, a), not "missing".
    """

    is_sticky: BoolArray  # shape (n_contexts,): where a user always gets the same action a_{i,s}
    group_sizes: IntArray  # shape (n_contexts, n_actions)
    rewards: RewardBound = field(default_factory=RewardBound)  # what is known of rewards


def uniform_design(tallies: UserTallies) -> Design:
    """Return the design in which every play is uniform over the actions."""
    return Design(
        np.zeros(tallies.n_contexts, dtype=np.bool_),
        np.zeros((tallies.n_contexts, tallies.n_actions), dtype=np.int64),
    )


def sticky_design(tallies: UserTallies) -> Design:
    """Return the design in which every user keeps one action per context, read off the log.

    The action of a user who never met a context is not in the log. Such users are spread evenly
    over the actions, as a uniform assignment does up to rounding.
    """
    visitors = tallies.cell_users()
    n_active = int((tallies.interactions > 0).sum())
    missing = np.maximum(n_active - visitors.sum(axis=1), 0)
    share = np.rint(missing / tallies.n_actions).astype(np.int64)
    return Design(np.ones(tallies.n_contexts, dtype=np.bool_), visitors + share[:, None])


def design_of_log(tallies: UserTallies, design: DesignName) -> Design:
    """Return the named design for a log, or for "auto" the one that the log shows.

    A log is read as sticky when users who met a context more than once never changed the action
    there. The actions were chosen by the platform, so a coalition cannot fake this.
    """
    if design == "uniform" or (design == "auto" and not _looks_sticky(tallies)):
        return uniform_design(tallies)
    return sticky_design(tallies)


def _looks_sticky(tallies: UserTallies) -> bool:
    found = tallies.blocks.map_blocks(_sticky_evidence)
    has_changed = any(changed for changed, _ in found)
    return not has_changed and sum(pairs for _, pairs in found) >= STICKY_EVIDENCE_PAIRS


def _sticky_evidence(tallies: Tallies) -> tuple[bool, int]:
    """Return whether any user changed action within a context, and how many could have."""
    if _has_changed(tallies.indptr, tallies.cells, tallies.n_actions):
        return True, 0
    return False, int((tallies.plays > 1).sum())


@compiled
def _has_changed(indptr: IntArray, cells: npt.NDArray[np.int32], n_actions: int) -> bool:
    """Return whether a user has two entries in one context; they would be neighbours."""
    for user in range(len(indptr) - 1):
        for entry in range(indptr[user] + 1, indptr[user + 1]):
            if cells[entry] // n_actions == cells[entry - 1] // n_actions:
                return True
    return False


def design_by_context(tallies: Tallies) -> Design:
    """Return the design in which a context is sticky if no user changed the action there.

    As Algorithm 2 plays: frequent contexts are sticky, the others uniform.
    """
    pairs, contexts = tallies.pairs()
    changed = contexts[np.bincount(pairs) > 1]
    is_sticky = np.bincount(changed, minlength=tallies.n_contexts) == 0
    return replace(sticky_design(tallies), is_sticky=is_sticky)


def uneven_shares(draws: IntArray, failure_probability: float) -> FloatArray | None:
    """Return upper bounds on the probabilities of actions, or None if they were drawn evenly.

    ``draws`` says how often each action was drawn in each context; ``failure_probability`` is
    allowed for each bound (Clopper and Pearson). Nobody chooses the action they get, so a coalition
    has the same probabilities as all others.
    """
    n_actions = draws.shape[1]
    total = draws.sum(axis=1, keepdims=True)
    is_tested = total[:, 0] > 0
    expected = total[is_tested] / n_actions
    surprise = float(((draws[is_tested] - expected) ** 2 / expected).sum())
    dof = int(is_tested.sum()) * (n_actions - 1)
    if dof == 0 or special.chdtrc(dof, surprise) >= UNEVEN:
        return None
    others = np.maximum(total - draws, 1e-9)
    return np.asarray(special.betaincinv(draws + 1.0, others, 1.0 - failure_probability))
