"""When a pipeline should stop: shares and shifts beyond what its owner allows.

An alarm that anybody can ring is a weapon. So shares count by their lower end, and shifts only once
a coalition of some size is found: what a handful of accounts does raises no alarm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from unswayed.audit.results import Audit
from unswayed.errors import InputError, option

LEAST_ACCOUNTS, LEAST_SHARE = 20, 0.005
"""Ours: fewer accounts than these, and a smaller share of all, never raise an alarm."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Whether a limit was passed, why, and how many accounts it takes at least to get there."""

    is_raised: bool
    reasons: tuple[str, ...]
    accounts_needed: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "raised": self.is_raised,
            "reasons": list(self.reasons),
            "accounts_needed": self.accounts_needed,
        }


def check_limits(share: float | None, shift: float | None) -> None:
    """Refuse limits that mean nothing."""
    if share is not None and not 0.0 <= share < 1.0:
        raise InputError(
            f"{option('--fail-share')} is {share}: it is a share of the accounts, from 0 to 1."
        )
    if shift is not None and not 0.0 <= shift < math.inf:
        raise InputError(
            f"{option('--fail-shift')} is {shift}: it is a shift of a mean reward, at least 0."
        )


def alarm_of(audit: Audit, *, share: float | None, shift: float | None) -> Alarm:
    """Return whether an audit passes a limit.

    Parameters
    ----------
    audit
        What was found.
    share
        Largest share of colluders, by the lower end of its interval; None for no limit.
    shift
        Largest shift of an item's mean, up or down; None for no limit.
    """
    least = max(LEAST_ACCOUNTS, math.ceil(LEAST_SHARE * audit.n_users))
    needed = least if share is None else max(least, math.floor(share * audit.n_users) + 1)
    if shift is not None:
        needed = least
    reasons = []
    found = audit.share.low * audit.n_users
    if audit.is_attacked and found >= least:
        if share is not None and audit.share.low > share:
            reasons.append(
                f"at least {audit.share.low:.2%} of the accounts collude, and {share:.2%} are "
                "allowed"
            )
        if shift is not None:
            moved = [item for item in audit.items if abs(item.shift) > shift]
            if moved:
                reasons.append(
                    f"{len(moved):,} item{'s are' if len(moved) > 1 else ' is'} moved by more than "
                    f"{shift:g}, {moved[0].action!r} by {moved[0].shift:+.4g}"
                )
    return Alarm(bool(reasons), tuple(reasons), needed)
