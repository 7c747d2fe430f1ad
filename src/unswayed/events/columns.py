"""Which columns of a log are the user, the context, the action and the reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from unswayed.errors import InputError, option
from unswayed.names import closest

#: Separator of the parts of a multi-column context; escaped inside the parts.
SEPARATOR = "|"

#: Label of the only context of a log without a context column.
ONE_CONTEXT = "all"


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
        Column to number of bins, for numeric parts of the context.
    may_lack_context
        Whether a log without the context columns is read as one context.
    """

    user: str = "user"
    context: tuple[str, ...] = ("context",)
    action: str = "action"
    reward: str = "reward"
    propensity: str | None = None
    time: str | None = None
    bins: Mapping[str, int] = field(default_factory=dict)
    may_lack_context: bool = False

    def __post_init__(self) -> None:
        given: Any = self.context
        object.__setattr__(self, "context", (given,) if isinstance(given, str) else tuple(given))
        if not self.context and not self.may_lack_context:
            raise InputError("no context column is named; name at least one.")
        for column, n_bins in self.bins.items():
            if column not in self.context:
                raise InputError(
                    f"bins are given for column {column!r}, which is not a context column "
                    f"({', '.join(self.context)}); add it to the context columns."
                )
            if n_bins < 2:
                raise InputError(f"column {column!r} cannot be cut into {n_bins} bins; ask for 2.")

    def renamed(self, names: Mapping[str, Any], *, others: Sequence[str] = ()) -> Columns:
        """Return the same columns under other names, given as keywords of a call.

        An unknown keyword gets a suggestion, also from the call's ``others``.
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
        }
        for role, columns in wanted.items():
            for column in columns:
                if column not in names:
                    raise InputError(_missing(role, column, names, where))
        lacks_context = self.may_lack_context and not set(self.context) & set(names)
        if not lacks_context:
            self.contexts_found_in(names, where=where)
        return Columns(
            user=self.user,
            context=() if lacks_context else self.context,
            action=self.action,
            reward=self.reward,
            propensity=self.propensity or _if_there("propensity", names),
            time=self.time or _if_there("time", names),
            bins={} if lacks_context else self.bins,
            may_lack_context=self.may_lack_context,
        )

    def contexts_found_in(self, names: Sequence[str], *, where: str) -> Columns:
        """Check that the context columns exist."""
        check_repeats(names, where=where)
        for column in self.context:
            if column not in names:
                raise InputError(_missing("context", column, names, where))
        return self

    @property
    def needed(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        named = (self.user, *self.context, self.action, self.reward, self.propensity, self.time)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def to_json(self) -> dict[str, Any]:
        """Return the names as plain JSON values."""
        return {
            "user": self.user,
            "context": list(self.context),
            "action": self.action,
            "reward": self.reward,
            "propensity": self.propensity,
            "time": self.time,
        }


def check_repeats(names: Sequence[str], *, where: str) -> None:
    """Reject columns of the same name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"{where} has the column {repeated[0]!r} more than once, so its values are "
            "ambiguous; rename or drop the others."
        )


def parsed_bins(texts: Sequence[str]) -> dict[str, int]:
    """Return column to number of bins from texts such as ``price:10``.

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


def _if_there(name: str, names: Sequence[str]) -> str | None:
    return name if name in names else None


def _missing(role: str, column: str, names: Sequence[str], where: str) -> str:
    close = closest(column, names)
    hint = f"did you mean {close!r}? Name it" if close else "name the right one"
    listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    fix = option(f"--{role}-column", python=f"Columns({role}=…)")
    return (
        f"{where} has no column {column!r} for the {role}; it has: {listed or 'no columns'}. "
        f"{hint[0].upper()}{hint[1:]} with {fix}."
    )
