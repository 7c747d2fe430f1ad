"""An audit of what a campaign has recorded, the way `unswayed audit` makes one of a log."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from unswayed.audit.auditing import audit_log
from unswayed.errors import InputError
from unswayed.events import Columns
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import Connection
from unswayed.service.export import export_batches
from unswayed.service.learner import write_learnable
from unswayed.storage import temporary_folder

NOTHING_YET = "there is nothing to audit yet: no explored decision has a closed reward window."


def audit_campaign(connection: Connection, name: str) -> dict[str, Any]:
    """Return the audit as plain values, or ``{"refused": why}`` if there is too little to audit."""
    settings = campaign_of(connection, name).settings
    with temporary_folder() as folder:
        path = folder / "events.parquet"
        write_learnable(export_batches(connection, name), path)
        if not pq.read_metadata(path).num_rows:
            return {"refused": NOTHING_YET}
        try:
            audited = audit_log(
                path,
                adversarial_fraction=settings.alpha,
                regime="server",
                method=settings.method,
                columns=Columns(),
            )
        except InputError as error:
            return {"refused": str(error)}
    return audited.audit.to_json()
