"""Coalitions among users who share one mean: responses that go together across cells tell."""

from unswayed.learners.discount.one_mean.rounds import discount_coalitions

__all__ = ["discount_coalitions"]
