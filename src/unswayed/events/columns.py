"""Which columns of a log are the user, the context, the action and the reward."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from unswayed.errors import InputError, option
from unswayed.names import closest

SEPARATOR = "|"  # Separator of the parts of a multi-column context; escaped inside the parts
ONE_CONTEXT = "all"  # Label of the only context of a log without a context column


def check_bad_rows(choice: str) -> None:
    """Reject anything but "error" (reject bad rows) and "drop" (leave them out)."""
    if choice not in ("error", "drop"):
        raise InputError(f"{option('--on-bad-rows')} is error or drop, not {choice!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of the columns of a log.

    Parameters
    ----------
    user, action, reward
        One column each.
    context
        One column or several; several are joined to one label, ``FR|mobile``.
    propensity
        The probability with which the logged action was chosen; None takes a column named
        ``propensity`` when there is one.
    time
        When it happened; None takes a column named ``time`` when there is one. Only its range is
        reported.
    bins
        Column to number of bins, or to their inner edges, for numeric parts of the context.
    may_lack_context
        Whether a log without the context columns is read as one context.
    features
        Attributes from which contexts are learned; then there are no context columns.
    """

    user: str = "user"
    context: tuple[str, ...] = ("context",)
    action: str = "action"
    reward: str = "reward"
    propensity: str | None = None
    time: str | None = None
    bins: Mapping[str, int | tuple[float, ...]] = field(default_factory=dict)
    may_lack_context: bool = False
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: Any = self.context
        object.__setattr__(self, "context", (given,) if isinstance(given, str) else tuple(given))
        object.__setattr__(self, "features", tuple(self.features))
        if self.features:
            self._check_features()
        elif not self.context and not self.may_lack_context:
            raise InputError("no context column is named; name at least one.")
        bins = {column: _cuts(column, given) for column, given in self.bins.items()}
        object.__setattr__(self, "bins", bins)
        for column, cuts in bins.items():
            if column not in self.context:
                raise InputError(
                    f"bins are given for column {column!r}, which is not a context column "
                    f"({', '.join(self.context)}); add it to the context columns."
                )
            n_bins = cuts if isinstance(cuts, int) else len(cuts) + 1
            if n_bins < 2:
                raise InputError(
                    f"column {column!r} cannot be cut into {n_bins} bins; use at least 2."
                )

    def _check_features(self) -> None:
        """Reject features combined with context columns, and features unknown before a decision."""
        if self.context not in ((), ("context",)) or self.bins:
            columns = option("--context-column", python="context")
            raise InputError(
                f"contexts are learned from {option('--features')}, so {columns} cannot be given; "
                f"name {', '.join(self.context)} among the features, or leave one of the two out."
            )
        object.__setattr__(self, "context", ())
        for role in ("user", "action", "reward", "propensity"):
            if getattr(self, role) in self.features:
                raise InputError(
                    f"feature {getattr(self, role)!r} is the {role} column, which is not known "
                    f"before a decision; leave it out of {option('--features')}."
                )
        repeated = [name for name in self.features if self.features.count(name) > 1]
        if repeated:
            raise InputError(f"feature {repeated[0]!r} is named twice; name it once.")

    def renamed(self, names: Mapping[str, Any], *, others: Sequence[str] = ()) -> Columns:
        """Return these columns with some names replaced by the keywords of a call.

        The error for an unknown keyword suggests a similar one, also among the call's ``others``.
        """
        choices = [column.name for column in fields(self)]
        for name in names:
            if name not in choices:
                close = closest(name, [*choices, *others])
                hint = f"did you mean {close!r}?" if close else "see Columns for what there is."
                raise TypeError(f"there is no option {name!r}; {hint}")
        return replace(self, **names)

    def found_in(self, names: Sequence[str], *, where: str) -> Columns:
        """Resolve the optional columns; raise if a required one is missing."""
        check_repeats(names, where=where)
        wanted = {
            "user": (self.user,),
            "action": (self.action,),
            "reward": (self.reward,),
            "propensity": (self.propensity,) if self.propensity else (),
            "time": (self.time,) if self.time else (),
            "feature": self.features,
        }
        is_optional = self.may_lack_context and not set(self.context) & set(names)
        lacks_context = bool(self.features) or is_optional
        if not lacks_context:
            wanted["context"] = self.context
        for role, columns in wanted.items():
            _check_there(role, columns, names, where)
        return replace(
            self,
            context=() if lacks_context else self.context,
            bins={} if lacks_context else self.bins,
            propensity=self.propensity or ("propensity" if "propensity" in names else None),
            time=self.time or ("time" if "time" in names else None),
        )

    def settled(
        self, names: Sequence[str], *, where: str, contexts_only: bool
    ) -> tuple[Columns, Sequence[str]]:
        """Resolve the columns among the available names; return them and the names to read.

        With ``contexts_only`` only the context columns are required, and all columns are read.
        """
        if not contexts_only:
            found = self.found_in(names, where=where)
            return found, found.needed
        check_repeats(names, where=where)
        role = "feature" if self.features else "context"
        _check_there(role, self.features or self.context, names, where)
        return self, names

    @property
    def edges(self) -> dict[str, tuple[float, ...]]:
        """The inner edges of the bins of each column, where they are known."""
        return {column: cuts for column, cuts in self.bins.items() if isinstance(cuts, tuple)}

    @property
    def needed(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        named = (self.user, *self.context, self.action, self.reward, self.propensity, self.time)
        named += self.features
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def to_json(self) -> dict[str, Any]:
        """Return the names as plain JSON values."""
        roles = ("user", "context", "action", "reward", "propensity", "time")
        written = {role: getattr(self, role) for role in roles} | {"context": list(self.context)}
        return {**written, **({"features": list(self.features)} if self.features else {})}


def _cuts(column: str, given: Any) -> int | tuple[float, ...]:
    """Validate and return the number of a column's bins, or their inner edges."""
    try:
        cuts = tuple(map(float, given)) if isinstance(given, Iterable) else operator.index(given)
    except (TypeError, ValueError):
        cuts = (math.nan,)
    if isinstance(cuts, tuple):
        ends = (-math.inf, *cuts, math.inf)
        if not all(low < high for low, high in itertools.pairwise(ends)):
            raise InputError(
                f"the bins of column {column!r} are {given!r}: give how many, or their inner "
                "edges, finite numbers that ascend."
            )
    return cuts


def check_repeats(names: Sequence[str], *, where: str) -> None:
    """Reject columns of the same name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{where} has the column {repeated[0]!r} more than once, so its values are "
            "ambiguous; rename or drop the others."
        )


def parsed_bins(texts: Sequence[str]) -> dict[str, int]:
    """Return a mapping of columns to numbers of bins, from texts such as ``price:10``.

    >>> parsed_bins(["price:10", "age:4"])
    {'price': 10, 'age': 4}
    """
    bins: dict[str, int] = {}
    for text in texts:
        column, _, number = text.rpartition(":")
        if not column or not number.isdigit():
            raise InputError(f"bins are written as COLUMN:NUMBER, such as price:10, not {text!r}.")
        bins[column] = int(number)
    return bins


def bin_labels(column: str, edges: Sequence[float]) -> list[str]:
    """Labels of the bins, one more than there are edges.

    >>> bin_labels("price", [9.5, 20.0])
    ['price<9.5', '9.5<=price<20', '20<=price']
    """
    shown = [f"{edge:.15g}" for edge in edges]
    between = [f"{low}<={column}<{high}" for low, high in itertools.pairwise(shown)]
    return [f"{column}<{shown[0]}", *between, f"{shown[-1]}<={column}"]


def _check_there(role: str, columns: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise if a source lacks a column; the error lists the source's columns and suggests one."""
    for column in columns:
        if column in names:
            continue
        close = closest(column, names)
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        has = f"{where} has no column {column!r} for the {role}; it has: {listed or 'no columns'}."
        meant = f" Did you mean {close!r}?" if close else ""
        if role == "feature":
            raise InputError(has + meant)
        hint = f"{meant} Name it" if close else " Name the right one"
        flag = option(f"--{role}-column", python=f"{role}=…")
        raise InputError(f"{has}{hint} with {flag}.")
