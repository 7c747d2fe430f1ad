"""Background work in separate processes: learning, exports, reports and audits.

``python -m unswayed.service.offline TASK`` reads what to do as JSON from standard input.
"""

from __future__ import annotations

import json
import os
import sys

from unswayed.service.database import opened

#: Ours: all of it yields to requests.
_NICENESS = 10


def main() -> None:
    """Do the task that the command line names; each imports what it needs."""
    os.nice(_NICENESS)
    task, request = sys.argv[1], json.load(sys.stdin)
    if task == "warm":
        from unswayed.learners.warm_up import warm_up

        warm_up(method=request["method"])
        return
    database = opened(request["store"])
    if task == "learn":
        from unswayed.service.learner import work_on

        work_on(database, request["campaign"], request["job"])
        return
    with database.connected() as connection:
        if task == "export":
            from unswayed.service.export import export_to

            export_to(connection, request["campaign"], sys.stdout.buffer, **request["between"])
        elif task == "daily":
            from unswayed.service.daily import make_report

            make_report(connection, request["campaign"])
        elif task == "audit":
            from unswayed.service.reporting import audit_campaign

            json.dump(audit_campaign(connection, request["campaign"]), sys.stdout, allow_nan=False)
        else:
            from unswayed.service.reporting import report

            found = report(connection, request["campaign"], **request["between"])
            json.dump(found, sys.stdout, allow_nan=False)


if __name__ == "__main__":
    main()
