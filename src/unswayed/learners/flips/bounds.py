"""How many accounts a decision withstands: what every method's bounds look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.tallies import Tallies, UserTallies, entry_users

UNDECIDED = -1
"""The decision of a context without any estimate."""


class Certificate(StrEnum):
    """On what a lower bound rests.

    ``EXACT``: the decision was bounded exactly. ``CONTEXT_STEP``: so was it, but fewer accounts
    might move the context to another estimator, and the bound goes no further than that.
    ``ONE_ACCOUNT``: only that the same data give the same decision; no better bound is known.
    """

    EXACT = "exact"
    CONTEXT_STEP = "context step"
    ONE_ACCOUNT = "one account"


@dataclass(frozen=True, slots=True, eq=False)
class FlipBounds:
    """Bounds on the smallest share of accounts whose removal or replacement changes a decision.

    Attributes
    ----------
    n_accounts
        Accounts with interactions; shares are shares of them.
    lower
        Shape (n_contexts,); certified: no smaller share can change the decision.
    upper
        Shape (n_contexts,); attained: an attack with this share changes the decision. NaN where no
        attack was found or tried.
    certificates
        Shape (n_contexts,); a ``Certificate`` for each lower bound.
    held
        Shape (n_contexts,); a lower bound that holds as long as each context stays with its
        estimator. Equal to ``lower`` unless the certificate is ``CONTEXT_STEP``.
    untried
        By context: an attack that should change the decision but must be tried to know. It returns
        the attacked tallies and the accounts that it replaced.
    """

    n_accounts: int
    lower: FloatArray
    upper: FloatArray
    certificates: npt.NDArray[np.str_]
    held: FloatArray
    untried: dict[int, Callable[[], tuple[Tallies, IntArray]]] = field(default_factory=dict)

    @property
    def is_certified(self) -> bool:
        """Whether any lower bound exceeds one account."""
        return bool((self.certificates != Certificate.ONE_ACCOUNT).any())


class Certifier(Protocol):
    """Bounds the flips of one method's decisions without running it again."""

    def __call__(
        self,
        tallies: UserTallies,
        design: Design,
        estimates: Estimates,
        *,
        alpha: float,
        warmup: Tallies | None = None,
    ) -> FlipBounds:
        """Return bounds for what the method learned from these tallies."""
        ...


def certify_one_account(
    tallies: UserTallies,
    design: Design,  # noqa: ARG001 - the signature of every certifier
    estimates: Estimates,
    *,
    alpha: float,  # noqa: ARG001 - same
    warmup: Tallies | None = None,  # noqa: ARG001 - same
) -> FlipBounds:
    """Trivial bounds, valid for every method: changing a decision takes at least one account."""
    n_accounts = int((tallies.interactions > 0).sum())
    n_contexts = len(estimates.mean_rewards)
    lower = np.full(n_contexts, 1.0 / max(n_accounts, 1))
    return FlipBounds(
        n_accounts,
        lower=lower,
        held=lower,
        upper=np.full(n_contexts, np.nan),
        certificates=np.full(
            n_contexts, Certificate.ONE_ACCOUNT.value, dtype=f"<U{max(map(len, Certificate))}"
        ),
    )


def decisions(estimates: Estimates) -> IntArray:
    """Return the action of each context, ``UNDECIDED`` without an estimate; shape (n_contexts,)."""
    is_decided = ~np.isnan(estimates.mean_rewards).all(axis=1)
    return np.where(is_decided, estimates.actions, UNDECIDED)


def with_entries(
    tallies: Tallies,
    is_kept: BoolArray,
    *,
    users: IntArray,
    cells: IntArray,
    counts: FloatArray,
    sums: FloatArray,
) -> Tallies:
    """Replace entries of the tallies.

    Parameters
    ----------
    is_kept
        Shape (n_entries,); which of the old entries stay.
    users, cells, counts, sums
        Shape (n_new,); the new entries. No (user, cell) may be met twice. Rewards within an entry
        are taken to be equal.
    """
    owners = np.concatenate([entry_users(tallies.indptr)[is_kept], users])
    columns = np.concatenate([tallies.cells[is_kept], cells.astype(np.int32)])
    order = np.lexsort((columns, owners))
    numbers = np.bincount(owners, minlength=tallies.n_users)

    def joined(old: FloatArray, new: FloatArray) -> FloatArray:
        both: FloatArray = np.concatenate([old[is_kept], new])[order]
        return both

    return Tallies(
        tallies.n_contexts,
        tallies.n_actions,
        indptr=np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64),
        cells=columns[order],
        counts=joined(tallies.counts, counts),
        sums=joined(tallies.sums, sums),
        squares=joined(tallies.squares, sums**2 / counts),
    )
