"""From tallies to policies."""

from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import DEFAULT_METHOD, METHODS

__all__ = ["DEFAULT_METHOD", "METHODS", "Estimates"]
