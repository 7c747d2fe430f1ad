"""`unswayed warm-up`: compile loops now instead of at first use."""

from __future__ import annotations

from unswayed.cli.options import Json
from unswayed.learners import warm_up as warming
from unswayed.reports.tables import print_json, print_line, progress_bar


def warm_up(json: Json = False) -> None:
    """Compile the numeric loops now, for example in a container image, not at first use."""
    with progress_bar() as bar:
        task = bar.add_task("compiling", total=len(warming.KINDS))

        def show(kind: str) -> None:
            bar.update(task, description=f"compiling for {kind}", advance=1)

        warming.warm_up(show)
    if json:
        print_json({"compiled": list(warming.KINDS)})
    else:
        print_line("Compiled; later runs start at once.")
