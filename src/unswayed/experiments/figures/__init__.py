"""Figures 2 and 3, and what they leave open: losses along one setting, as data."""
