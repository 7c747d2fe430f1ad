"""The `unswayed` command: parse, call one function, print."""
