"""The limits for one gap, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from unswayed.limits.checks import (
    MAX_INTERACTIONS,
    N_USERS,
    check_count,
    check_gap,
    check_interactions,
    check_minority,
)
from unswayed.limits.hiding import (
    ROUNDING,
    hiding_distance,
    hiding_hellinger,
    largest_interactions,
    smallest_coalition,
    success_bound,
)
from unswayed.names import known_keywords
from unswayed.visible import percent

TABLE_STEPS = (1, 2, 5)
"""Ours: the table lists plays 1, 2, 5, 10, 20, 50, ... beside those that matter."""

TABLE_REACH = 10
"""Ours: the table ends at this multiple of the plays in question."""


@dataclass(frozen=True, slots=True)
class LimitsRow:
    """The limits after some plays of the better action by each user."""

    interactions: int
    smallest_coalition: float  # that makes both worlds look alike
    smallest_one_sided: float  # that makes the better world look like a clean ordinary one
    distance: float  # what the coalition asked about leaves visible in one user, at best for it
    is_hidden: bool
    success_bound: float | None  # most that any method can succeed with; None without n_users


@dataclass(frozen=True, slots=True)
class Hideability:
    """What a coalition can hide, and what it cannot: the question, the answer in numbers and words.

    To someone who knows that the ordinary world is clean, ``one_sided_distance`` stays visible in
    one user, and the coalition can hide the gap ``hidden_until_one_sided``.
    """

    gap: float
    interactions: int
    adversarial_fraction: float
    base: float
    n_users: int | None
    asked: LimitsRow  # for the plays asked about
    one_sided_distance: float
    hidden_until: int  # plays per user up to which both worlds can be made to look alike
    visible_from: int
    hidden_until_one_sided: int
    rows: tuple[LimitsRow, ...]  # as plays grow
    words: tuple[str, ...]


@known_keywords(adversarial_fraction="alpha")
def can_hide(
    gap: float, interactions: int, alpha: float, *, base: float = 0.5, n_users: int | None = None
) -> Hideability:
    """Return whether a coalition can hide a gap, how small one could, and for how many plays.

    The better action pays 1 with probability base + gap, and each user plays it ``interactions``
    times. With ``n_users`` the success of the best method is bounded, too.

    Guarantee: exact (see `hiding_distance`). Neither world is assumed to be clean: the
    coalition may be in the better world and in the ordinary one.

    >>> result = can_hide(0.1, 10, 0.2)
    >>> result.asked.is_hidden, result.hidden_until
    (False, 9)
    >>> print(result.words[0])
    No: with 10 plays per user a coalition of 20% cannot fully hide a gap of 0.1.
    """
    check_gap(gap, base)
    plays = int(check_interactions(interactions, at_least=1))
    fraction = float(check_minority(alpha))
    users = None if n_users is None else check_count(n_users, N_USERS)
    hidden_until = int(largest_interactions(gap, fraction, base=base))

    def row(n: int) -> LimitsRow:
        smallest = float(smallest_coalition(gap, n, base=base))
        is_hidden = n <= hidden_until
        # A coalition that is exactly large enough leaves a rounding error, not a trace.
        distance = 0.0 if is_hidden else float(hiding_distance(gap, n, fraction, base=base))
        bound = None
        if users is not None:
            squared = 0.0 if is_hidden else float(hiding_hellinger(gap, n, fraction, base=base))
            bound = float(success_bound(users, distance, squared))
        return LimitsRow(
            interactions=n,
            smallest_coalition=smallest,
            smallest_one_sided=float(smallest_coalition(gap, n, base=base, is_one_sided=True)),
            distance=distance,
            is_hidden=is_hidden,
            success_bound=bound,
        )

    asked = row(plays)
    listed = _listed_plays(plays, hidden_until)
    clean = float(hiding_distance(gap, plays, fraction, base=base, is_one_sided=True))
    return Hideability(
        gap=float(gap),
        interactions=plays,
        adversarial_fraction=fraction,
        base=float(base),
        n_users=users,
        asked=asked,
        one_sided_distance=clean if clean > ROUNDING else 0.0,
        hidden_until=hidden_until,
        visible_from=hidden_until + 1,
        hidden_until_one_sided=int(
            largest_interactions(gap, fraction, base=base, is_one_sided=True)
        ),
        rows=tuple(asked if n == plays else row(n) for n in listed),
        words=_words(gap, fraction, asked, hidden_until, users),
    )


def _listed_plays(plays: int, hidden_until: int) -> list[int]:
    reach = min(MAX_INTERACTIONS, TABLE_REACH * max(plays, hidden_until))
    listed = {plays, hidden_until + 1} | ({hidden_until} if hidden_until else set())
    usual = {step * 10**digits for step in TABLE_STEPS for digits in range(len(str(reach)))}
    return sorted(listed | {n for n in usual if n <= reach})


def _words(
    gap: float, fraction: float, asked: LimitsRow, hidden_until: int, n_users: int | None
) -> tuple[str, ...]:
    plays, share = counted(asked.interactions), percent(fraction)
    if asked.is_hidden:
        verdict = (
            f"Yes: with {plays} per user a coalition of {share} can hide a gap of {gap:g} "
            "completely. Whatever the method and the number of users, it does no better than "
            "tossing a coin."
        )
    else:
        verdict = (
            f"No: with {plays} per user a coalition of {share} cannot fully hide a gap of {gap:g}."
        )
    smallest = (
        f"The smallest coalition that could hide it after {plays} per user is "
        f"{percent(asked.smallest_coalition)} of the users."
    )
    until = (
        f"A coalition of {share} can hide this gap for up to {counted(hidden_until)} per user; "
        f"from {counted(hidden_until + 1)} on it cannot."
        if hidden_until
        else f"A coalition of {share} cannot hide this gap even for one play per user."
    )
    words: tuple[str, ...] = (verdict, smallest, until)
    if n_users is not None and asked.success_bound is not None and not asked.is_hidden:
        words += (
            f"With {n_users:,} users the best method distinguishes the better action from an "
            f"ordinary one with a probability of at most {asked.success_bound:.3g}."
            if asked.success_bound < 1
            else f"{n_users:,} users are enough for this bound to rule nothing out.",
        )
    return words


def counted(plays: int) -> str:
    """Return a number of plays in words."""
    return "1 play" if plays == 1 else f"{plays:,} plays"
