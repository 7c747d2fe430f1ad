"""Decisions that a coalition of fake users cannot sway."""
