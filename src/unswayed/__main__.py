"""``python -m unswayed`` is the command ``unswayed``."""

from unswayed.cli import start

if __name__ == "__main__":
    start()
