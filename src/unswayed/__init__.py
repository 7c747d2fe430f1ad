"""Decisions that a coalition of fake users cannot sway."""

from importlib.metadata import version

from unswayed.errors import InputError
from unswayed.events import Events, Labels
from unswayed.learners import RobustMCB
from unswayed.policy import Decision, Policy

__version__ = version("unswayed")

__all__ = ["Decision", "Events", "InputError", "Labels", "Policy", "RobustMCB", "__version__"]
