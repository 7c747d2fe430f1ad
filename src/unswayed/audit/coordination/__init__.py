"""Accounts that act together where users chose: lockstep, shared targets, and shared habits."""

from unswayed.audit.coordination.finding import Coordination, Group, find_coordination
from unswayed.audit.coordination.ratings import Ratings, ratings_of

__all__ = ["Coordination", "Group", "Ratings", "find_coordination", "ratings_of"]
