"""The `unswayed` command: parse, call one function, print."""

from __future__ import annotations

from unswayed.cli.interrupts import stop_on_interrupt

#: Every subcommand `a-b` is the function `a_b` of the module `unswayed.cli.a_b`.
COMMANDS = (
    "demo",
    "learn",
    "predict",
    "compare",
    "audit",
    "evaluate",
    "simulate",
    "attacks",
    "limits",
    "plan",
    "reproduce",
    "serve",
    "store",
    "decide",
    "reward",
    "warm-up",
)


def start() -> None:
    """Run the command line; Ctrl-C ends it even while modules are still being imported."""
    stop_on_interrupt()
    from unswayed.cli.main import main

    main()
