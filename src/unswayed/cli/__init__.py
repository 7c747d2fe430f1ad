"""The `unswayed` command: parse, call one function, print."""

from unswayed.cli.main import app, main

__all__ = ["app", "main"]
