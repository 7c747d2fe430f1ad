"""Theorem 4.1: learners against the coalition that hides the better action."""
