"""Learners: methods that turn tallies into policies, and online learners."""
