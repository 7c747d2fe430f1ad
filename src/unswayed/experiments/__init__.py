"""Experiments: sweeps, claims and figures."""
