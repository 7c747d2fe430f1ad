"""Reviewed accounts: a CSV file with columns user, status and date."""

from __future__ import annotations

import csv
import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.errors import InputError
from unswayed.events.labels import UNKNOWN, Labels, parsed_label

COLUMNS = ("user", "status", "date")
STATUSES = {"honest": True, "fake": False}


@dataclass(frozen=True, slots=True)
class KnownAccounts:
    """Reviewed accounts by name, as text: whether each is honest, and until when.

    Times are the end of the day of the review, in seconds since 1970; infinite without a date.

    >>> known = KnownAccounts({"ann": (True, math.inf), "bot": (False, math.inf)})
    >>> is_fake, honest_until = known.of(Labels.of(["bot", "bob", "ann"]))
    >>> is_fake.tolist(), honest_until.tolist()
    ([True, False, False], [-inf, -inf, inf])
    """

    accounts: Mapping[str, tuple[bool, float]]
    path: Path | None = None  # the file they were read from

    def of(self, users: Labels) -> tuple[BoolArray, FloatArray]:
        """Return which users are known fakes, and until when users are known to be honest.

        Shape (n_users,) each; times are seconds since 1970, −inf for unreviewed accounts. Accounts
        missing from the log are ignored.
        """
        is_fake = np.zeros(len(users), dtype=np.bool_)
        honest_until = np.full(len(users), -np.inf)
        for name, (is_honest, until) in self.accounts.items():
            try:
                code = users.code(parsed_label(name, users.type_name))
            except InputError:
                continue
            if code != UNKNOWN and is_honest:
                honest_until[code] = until
            elif code != UNKNOWN:
                is_fake[code] = True
        return is_fake, honest_until


def read_known(path: str | Path) -> KnownAccounts:
    """Read a file of reviewed accounts.

    Columns are ``user``, ``status`` (honest or fake) and optionally ``date`` (the day of the
    review, such as 2026-11-18). Of several reviews of an account the last one counts: the one with
    the latest date, and among equals the one further down.
    """
    path = Path(path)
    accounts: dict[str, tuple[bool, float]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            names = tuple(rows.fieldnames or ())
            if not set(COLUMNS[:2]) <= set(names):
                raise InputError(
                    f"{path} has the columns {', '.join(names) or 'none'}; known accounts need "
                    "user and status, and may have date."
                )
            for row in rows:
                name, is_honest, until = _account(path, rows.line_num, row)
                if until >= accounts.get(name, (False, -math.inf))[1]:
                    accounts[name] = (is_honest, until)
    except OSError as error:
        raise InputError(f"cannot read the known accounts {path}: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}.") from None
    return KnownAccounts(accounts, path)


def _account(path: Path, line: int, row: Mapping[str, str | None]) -> tuple[str, bool, float]:
    name, status, day = ((row.get(column) or "").strip() for column in COLUMNS)
    if not name:
        raise InputError(f"{path}, line {line}: user is empty; every row names an account.")
    if status not in STATUSES:
        raise InputError(f"{path}, line {line}: status is honest or fake, not {status!r}.")
    if not day:
        return name, STATUSES[status], math.inf
    try:
        date = dt.datetime.fromisoformat(day)
    except ValueError:
        raise InputError(
            f"{path}, line {line}: date is {day!r}; write it like 2026-11-18, or leave it empty."
        ) from None
    if len(day) <= len("2026-11-18"):
        # A review counts until the end of its day.
        date += dt.timedelta(days=1)
    date = date if date.tzinfo else date.replace(tzinfo=dt.UTC)
    return name, STATUSES[status], date.timestamp()
