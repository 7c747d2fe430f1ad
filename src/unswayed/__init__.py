"""Decisions that a coalition of fake users cannot sway."""

from importlib.metadata import version

__version__ = version("unswayed")
