"""Accounts in lockstep: the same items with the same ratings, beyond what popularity explains."""

from unswayed.audit.lockstep.ratings import Ratings, ratings_of
from unswayed.audit.lockstep.scores import Group, Lockstep, find_lockstep

__all__ = ["Group", "Lockstep", "Ratings", "find_lockstep", "ratings_of"]
