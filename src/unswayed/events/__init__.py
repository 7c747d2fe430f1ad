"""The log of interactions: labels and columns."""

from unswayed.events.events import Events
from unswayed.events.labels import UNKNOWN, Label, Labels

__all__ = ["UNKNOWN", "Events", "Label", "Labels"]
