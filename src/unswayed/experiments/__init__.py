"""Sweeps and analyses, one folder an experiment."""
