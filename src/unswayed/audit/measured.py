"""How many honest accounts are flagged, as measured on planted logs whose liars are known.

``COMMAND`` measures them anew; tests measure a part of these logs again and fail if the rates here
are no longer true. The log that is audited has no such rate: nobody knows who lies in it.
"""

from __future__ import annotations

COMMAND = "python benchmarks/audit.py --part validation --every 1"

FLAGGED_WHERE_SERVERS_CHOSE = 0.0018
"""Share of honest accounts that count less than half in attacked production logs."""

FLAGGED_WHERE_USERS_CHOSE = 0.0005
"""Share of honest accounts that are flagged in attacked markets."""


def measured_on(what: str) -> str:
    """Return what a rate was measured on, and with which command."""
    return f"{what} with known liars ({COMMAND})"
