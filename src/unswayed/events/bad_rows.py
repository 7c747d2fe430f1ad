"""Rows that cannot be used: why, how many, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from unswayed.errors import InputError, option

_QUARANTINE_FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json"}


@dataclass(frozen=True, slots=True)
class OnBadRows:
    """What to do with rows that cannot be used: refuse the log, drop them, or set them aside."""

    action: str = "error"
    quarantine: Path | None = None

    @classmethod
    def parsed(cls, choice: OnBadRows | str) -> OnBadRows:
        """Return the choice that a text names: ``error``, ``drop`` or ``quarantine=FILE``."""
        if isinstance(choice, OnBadRows):
            return choice
        word, _, path = choice.partition("=")
        if word == "quarantine" and path:
            if Path(path).suffix not in _QUARANTINE_FORMATS:
                raise InputError(
                    f"bad rows cannot be written to {path}; end its name in "
                    f"{', '.join(_QUARANTINE_FORMATS)}."
                )
            return cls("quarantine", Path(path))
        if word in ("error", "drop") and not path:
            return cls(word)
        raise InputError(
            f"{option('--on-bad-rows')} is error, drop or quarantine=FILE, not {choice!r}."
        )

    @property
    def keeps_going(self) -> bool:
        """Whether the rest of the log is used."""
        return self.action != "error"

    @property
    def format(self) -> str:
        """The format of the quarantine file, as DuckDB names it."""
        return _QUARANTINE_FORMATS[self.quarantine.suffix] if self.quarantine else ""

    def refuse(self, reasons: Mapping[str, int], n_rows: int, *, first: int) -> NoReturn:
        """Reject a log with bad rows; ``first`` is the number of the first of them, from 1."""
        listed = "; ".join(f"{count:,}: {reason}" for reason, count in reasons.items())
        raise InputError(
            f"{sum(reasons.values()):,} of {n_rows:,} rows cannot be used ({listed}); the first is "
            f"row {first:,}. Fix them, or use {option('--on-bad-rows', 'drop')} or "
            f"{option('--on-bad-rows', 'quarantine=FILE')}."
        )
