"""Loud lies: accounts that say of one item what no honest taste says."""

from unswayed.learners.discount.loud.rounds import FoundLie, SampledPlays, discount_loud_lies

__all__ = ["FoundLie", "SampledPlays", "discount_loud_lies"]
