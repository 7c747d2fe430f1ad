"""From tallies to policies."""

from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import DEFAULT_METHOD, METHODS
from unswayed.learners.robust_mcb import RobustMCB

__all__ = ["DEFAULT_METHOD", "METHODS", "Estimates", "RobustMCB"]
