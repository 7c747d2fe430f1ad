"""Whether what was learned shows a coalition."""

from __future__ import annotations

from unswayed.learners.discount.trial.verdicts import Verdict
from unswayed.learners.estimates import Estimates
from unswayed.tallies import UserTallies

#: Ours: a coalition counts as found when more than this share of the users' weight was taken away.
ALARM_WEIGHT = 0.01


def shows_coalition(estimates: Estimates, tallies: UserTallies) -> bool:
    """Return whether users were discounted, or others than those whom a method accused collude."""
    if any(r["verdict"] == Verdict.CONTRADICTED for r in estimates.evidence.get("rounds", ())):
        return True
    is_active = tallies.interactions > 0
    return 1.0 - float(estimates.user_weights[is_active].mean()) > ALARM_WEIGHT
