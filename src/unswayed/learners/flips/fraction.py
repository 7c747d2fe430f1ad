"""The flip fraction: the smallest share of accounts that could change each decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from unswayed.arrays import IntArray
from unswayed.errors import InputError, option
from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.flips.bounds import (
    UNDECIDED,
    Certifier,
    FlipBounds,
    certify_one_account,
    decisions,
    with_entries,
)
from unswayed.learners.methods import method_named
from unswayed.learners.paper.flips import certify_paper
from unswayed.policy import best_known
from unswayed.tallies import Tallies, UserTallies, entry_users

LARGEST_SHARE = 0.5
"""Ours: a coalition of half of the accounts changes any decision, so none larger is tried."""

GROWTH = 4
"""Ours: coalitions grow by this factor until one succeeds; then the gap is halved."""

PRECISION = 0.05
"""Ours: the search ends when the coalition is known to this relative precision."""

MOVED_SHARES = (1.0, 0.3)
"""Ours: fractions of their plays that replaced accounts move into the attacked context."""

Tactic = Callable[[int], Tallies]


@dataclass(frozen=True, slots=True)
class Duel:
    """The decision under attack: a context, its chosen action and the one to be chosen instead."""

    context: int
    leader: int
    rival: int


def attack_decision(
    learn: Callable[[Tallies], Estimates],
    tallies: Tallies,
    design: Design,
    estimates: Estimates,
    context: int,
    *,
    best: int | None = None,
) -> int | None:
    """Return how many replaced accounts changed a decision, the fewest that were found.

    Parameters
    ----------
    learn
        What learned the decision; it is run again, about 15 times. All that it was given beside the
        tallies is held: accounts keep their assigned actions, and behaved in a warm-up.
    tallies, design
        What it was given.
    estimates
        What it returned.
    context
        The context under attack.
    best
        A number of accounts already known to be enough; only smaller ones are looked for.

    Returns
    -------
    int or None
        ``best`` if no smaller coalition succeeded. None if it was not given, and no coalition of up
        to half of the accounts succeeded or no rival was learned.

    Notes
    -----
    The accounts that speak most for the chosen action against the runner-up are replaced, by
    accounts that give the runner-up the largest reward seen in the data and the chosen action the
    smallest. They either keep their histories otherwise, or move their plays into the context. The
    answer is an upper bound: the attack was carried out. A better attack may exist.
    """
    duel = _duel(estimates, context)
    if duel is None:
        return best
    for tactic, most in _tactics(tallies, design, duel):

        def succeeds(n_accounts: int, tactic: Tactic = tactic) -> bool:
            decision = decisions(learn(tactic(n_accounts)))[duel.context]
            return bool(decision not in (duel.leader, UNDECIDED))

        best = _fewest(succeeds, most, best)
    return best


def _duel(estimates: Estimates, context: int) -> Duel | None:
    others, leader = estimates.mean_rewards[[context]], int(estimates.actions[context])
    others[0, leader] = np.nan
    # An excluded action, too: what rules it out may fall to the attack.
    rival = int(best_known(others)[0])
    return None if np.isnan(others[0, rival]) else Duel(context, leader, rival)


def _fewest(succeeds: Callable[[int], bool], most: int, best: int | None) -> int | None:
    """Return the smallest success that the search meets, or ``best`` if it finds none smaller."""
    failed = 0
    if best is not None:
        # Another tactic is worth a search only if it beats the best by more than the precision.
        found = min(best - max(1, round(PRECISION * best)), most)
        if found < 1 or not succeeds(found):
            return best
    else:
        found = 1
        while not succeeds(found):
            if found >= most:
                return None
            failed, found = found, min(GROWTH * found, most)
    while found - failed > max(1.0, PRECISION * found):
        middle = (found + failed) // 2
        if succeeds(middle):
            found = middle
        else:
            failed = middle
    return found


def _tactics(tallies: Tallies, design: Design, duel: Duel) -> Iterator[tuple[Tactic, int]]:
    """Yield ways of replacing a number of accounts, and the largest number for each."""
    users = entry_users(tallies.indptr)
    interactions = tallies.interactions
    is_active = interactions > 0
    most = int(LARGEST_SHARE * is_active.sum())
    if most < 1:
        return
    base = duel.context * tallies.n_actions
    at_leader, at_rival = tallies.cells == base + duel.leader, tallies.cells == base + duel.rival
    rewards = tallies.sums / tallies.counts
    low, high = float(rewards.min()), float(rewards.max())

    # Same histories, other opinions.
    swayed = np.where(at_leader, low, high) * tallies.counts
    turn = np.where(at_leader | at_rival, np.abs(swayed - tallies.sums), 0.0)
    turns = np.bincount(users, turn, minlength=tallies.n_users) / np.maximum(interactions, 1.0)

    def reverse(n_accounts: int) -> Tallies:
        chosen = np.zeros(tallies.n_users, dtype=np.bool_)
        chosen[np.argsort(-turns, kind="stable")[:n_accounts]] = True
        is_turned = chosen[users] & (at_leader | at_rival)
        sums = np.where(is_turned, swayed, tallies.sums)
        squares = np.where(is_turned, swayed**2 / tallies.counts, tallies.squares)
        return replace(tallies, sums=sums, squares=squares)

    if n_turned := min(most, int(np.count_nonzero(turns))):
        yield reverse, n_turned

    # Other histories: plays move into the context, where the platform draws the actions.
    support = np.where(at_leader, tallies.sums, np.where(at_rival, -tallies.sums, 0.0))
    supports = np.bincount(users, support, minlength=tallies.n_users) / np.maximum(interactions, 1)
    is_able = is_active
    if design.is_sticky[duel.context]:
        # Only accounts that were seen here are known to have one of the two actions.
        is_able = np.zeros(tallies.n_users, dtype=np.bool_)
        is_able[users[at_leader | at_rival]] = True
    able = np.flatnonzero(is_able)
    able = able[np.argsort(-supports[able], kind="stable")]
    for share in MOVED_SHARES:

        def move(n_accounts: int, share: float = share) -> Tallies:
            return _moved(tallies, design, duel, able[:n_accounts], share, low=low, high=high)

        if len(able):
            yield move, min(most, len(able))


def _moved(
    tallies: Tallies,
    design: Design,
    duel: Duel,
    accounts: IntArray,
    share: float,
    *,
    low: float,
    high: float,
) -> Tallies:
    """Move a share of the accounts' plays into the context, in favour of the rival."""
    users, n_actions = entry_users(tallies.indptr), tallies.n_actions
    is_here = tallies.cells // n_actions == duel.context
    is_mover = np.zeros(tallies.n_users, dtype=np.bool_)
    is_mover[accounts] = True
    faded = replace(
        tallies,
        counts=np.where(is_mover[users], (1.0 - share) * tallies.counts, tallies.counts),
        sums=np.where(is_mover[users], (1.0 - share) * tallies.sums, tallies.sums),
        squares=np.where(is_mover[users], (1.0 - share) * tallies.squares, tallies.squares),
    )
    plays = share * tallies.interactions[accounts]
    if design.is_sticky[duel.context]:
        own = np.zeros(tallies.n_users, np.int64)
        own[users[is_here]] = tallies.cells[is_here] % n_actions
        movers, actions, counts = accounts, own[accounts], plays
    else:
        # Uniform play gives every action its share.
        movers = np.repeat(accounts, n_actions)
        actions = np.tile(np.arange(n_actions), len(accounts))
        counts = np.repeat(plays / n_actions, n_actions)
    rewards = np.where(actions == duel.rival, high, np.where(actions == duel.leader, low, 0.0))
    is_kept = ~(is_mover[users] & (is_here if share < 1.0 else True))
    return with_entries(
        faded,
        np.asarray(is_kept),
        users=movers,
        cells=duel.context * n_actions + actions,
        counts=counts,
        sums=rewards * counts,
    )


Certify = Literal["none", "bounds", "attack"]

CERTIFY_CHOICES: tuple[Certify, ...] = ("none", "bounds", "attack")

#: Called with the number of decisions attacked so far, and of all to attack.
OnAttack = Callable[[int, int], None]

CERTIFIERS: dict[str, Certifier] = {"paper": certify_paper, "paper-literal": certify_paper}
"""Certifiers by method; methods without one use ``certify_one_account``."""


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
