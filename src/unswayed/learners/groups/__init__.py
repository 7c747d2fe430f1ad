"""Groups of taste: a few policies instead of one, where held-out plays show that it pays."""

from unswayed.learners.groups.finding import Groups, check_groups, find_groups, group_decisions

__all__ = ["Groups", "check_groups", "find_groups", "group_decisions"]
