"""The flip fraction: the smallest share of accounts that could change each decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from unswayed.errors import InputError, option
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.flips.attack import attack_decision
from unswayed.learners.flips.bounds import (
    UNDECIDED,
    Certifier,
    FlipBounds,
    certify_one_account,
    decisions,
)
from unswayed.learners.methods import method_named
from unswayed.learners.paper.flips import certify_paper
from unswayed.tallies import Tallies, UserTallies

Certify = Literal["none", "bounds", "attack"]

CERTIFY_CHOICES: tuple[Certify, ...] = ("none", "bounds", "attack")

#: Called with the number of decisions attacked so far, and of all to attack.
OnAttack = Callable[[int, int], None]

CERTIFIERS: dict[str, Certifier] = {"paper": certify_paper}
"""Bounds by the method's name. A method without an entry gets ``certify_one_account``."""


def check_certify(certify: str) -> Certify:
    """Return the choice, or say which there are."""
    for choice in CERTIFY_CHOICES:
        if certify == choice:
            return choice
    raise InputError(
        f"{option('--certify')} is {certify!r}: choose one of {', '.join(CERTIFY_CHOICES)}."
    )


def flip_bounds(
    method: str,
    tallies: UserTallies,
    design: Design,
    estimates: Estimates,
    *,
    alpha: float,
    warmup: Tallies | None = None,
    certify: Certify = "bounds",
    on_attack: OnAttack = lambda _done, _total: None,
) -> FlipBounds | None:
    """Return how many accounts each decision withstands.

    Parameters
    ----------
    method
        Name of the method that learned.
    tallies, design, alpha, warmup
        What it was given.
    estimates
        What it returned.
    certify
        "bounds" computes what can be had without learning again, in about the time of sorting the
        data once. "attack" also attacks every decision that is left without an upper bound, and
        learns some 15 times for each; it needs all tallies in one place. "none" returns None.
    on_attack
        Called before each attacked decision with how many are done and how many there are.

    Notes
    -----
    Guarantee: no share below ``lower`` changes the decision, on the condition that the certificate
    names; a coalition of the share ``upper`` does change it.
    """
    if check_certify(certify) == "none":
        return None
    bounds = CERTIFIERS.get(method, certify_one_account)(
        tallies, design, estimates, alpha=alpha, warmup=warmup
    )
    if certify == "bounds":
        return bounds
    if not isinstance(tallies, Tallies):
        raise InputError(
            "attacks need all tallies in one place; use "
            f"{option('--certify', 'bounds')} for so large a log."
        )
    learn = partial(
        method_named(method),
        design=design,
        alpha=alpha,
        warmup=warmup,
    )
    before = decisions(estimates)
    upper = bounds.upper.copy()
    attacked_contexts = np.flatnonzero(np.isnan(upper)).tolist()
    for done, context in enumerate(attacked_contexts):
        on_attack(done, len(attacked_contexts))
        found = None
        if context in bounds.untried:
            attacked, accounts = bounds.untried[context]()
            after = decisions(learn(attacked))[context]
            if after not in (before[context], UNDECIDED):
                found = len(accounts)
        found = attack_decision(learn, tallies, design, estimates, context, best=found)
        if found is not None:
            upper[context] = found / bounds.n_accounts
    return replace(bounds, upper=upper)
