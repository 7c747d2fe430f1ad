"""Coalitions: what fake users answer, each attack with what it knows and no more."""
