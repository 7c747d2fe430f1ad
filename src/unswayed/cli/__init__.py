"""The `unswayed` command: parse, call one function, print."""

from unswayed.cli.main import COMMANDS, main

__all__ = ["COMMANDS", "main"]
