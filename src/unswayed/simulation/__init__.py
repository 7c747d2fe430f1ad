"""Simulated worlds with a known truth and a coalition; learners must not import this package."""
