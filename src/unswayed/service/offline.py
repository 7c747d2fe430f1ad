"""Work beside the service, in processes of its own: learning, exports, reports and audits.

``python -m unswayed.service.offline TASK`` reads what to do as JSON from standard input.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from unswayed.service.database import opened

#: Ours: all of it yields to requests.
_NICENESS = 10


def main() -> None:
    """Do the task that the command line names; each imports what it needs."""
    _yield_to_requests()
    task, told = sys.argv[1], json.load(sys.stdin)
    if task == "warm":
        from unswayed.service.warming import warm_up

        warm_up(told["method"])
        return
    database = opened(told["store"])
    if task == "learn":
        from unswayed.service.learner import work_on

        work_on(database, told["campaign"], told["job"])
        return
    with database.connected() as connection:
        if task == "export":
            from unswayed.service.export import export_to

            export_to(connection, told["campaign"], sys.stdout.buffer, **told["between"])
        elif task == "audit":
            from unswayed.service.auditing import audit_campaign

            json.dump(audit_campaign(connection, told["campaign"]), sys.stdout, allow_nan=False)
        else:
            from unswayed.service.reporting import report

            json.dump(report(connection, told["campaign"]), sys.stdout, allow_nan=False)


def _yield_to_requests() -> None:
    """Let requests go first, and leave them a processor of their own where there are two."""
    os.nice(_NICENESS)
    if hasattr(os, "sched_setaffinity"):
        _, *others = sorted(os.sched_getaffinity(0))
        with suppress(OSError):
            os.sched_setaffinity(0, others)


if __name__ == "__main__":
    main()
