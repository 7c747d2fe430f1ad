"""The log of interactions: labels, columns, readers, and the rows that cannot be used."""

from typing import TYPE_CHECKING

from unswayed.lazy import lazy_names

if TYPE_CHECKING:
    from unswayed.events.columns import Columns
    from unswayed.events.events import Events
    from unswayed.events.labels import UNKNOWN, Label, Labels, check_list, parsed_label
    from unswayed.events.reading import Provenance, Reading, read_contexts, read_events

__all__ = [
    "UNKNOWN",
    "Columns",
    "Events",
    "Label",
    "Labels",
    "Provenance",
    "Reading",
    "check_list",
    "parsed_label",
    "read_contexts",
    "read_events",
]

__getattr__ = lazy_names(__name__)
