"""Discount coalitions: a mixture of populations, believed only where the data can tell."""

from unswayed.learners.discount.method import learn_discounted

__all__ = ["learn_discounted"]
