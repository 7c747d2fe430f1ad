"""Coalitions among users who differ: a second population beside a model of tastes."""

from unswayed.learners.discount.tastes.profiles import has_tastes
from unswayed.learners.discount.tastes.rounds import discount_among_tastes

__all__ = ["discount_among_tastes", "has_tastes"]
