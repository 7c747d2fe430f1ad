"""Policies: the action of each context, with mean rewards and their intervals."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError, Note, check_adversarial_fraction, option
from unswayed.events import UNKNOWN, Label, Labels, check_list
from unswayed.names import closest
from unswayed.policy.documents import check_version, json_number, read_object, write_object
from unswayed.policy.partition import Partition, context_label, draw_tree
from unswayed.visible import LABEL_LENGTH, counted, number, percent, visible

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa
    from matplotlib.axes import Axes

FORMAT = "unswayed-policy"
VERSION = 1

#: A label, the parts of a context of several columns, or attributes.
Context = Label | tuple[Any, ...] | Mapping[str, Any]

NO_BOUND = "no bound"  # Marker for intervals without a bound
_LARGEST_NUMBER = 1e200  # Ours: largest accepted mean reward; sums of larger ones may overflow
_MOST_PLAYS = 2.0**53  # Largest integer that floats represent exactly
MOST_SHOWN = 10  # Ours: maximum number of contexts in a table or picture, the most visited first
_CHOSEN, _OTHER = "#0072B2", "#E69F00"  # Okabe and Ito's blue and orange, as in all our figures


def best_known(means: FloatArray, is_excluded: BoolArray | None = None) -> IntArray:
    """Return the column of the largest number in each row, never one that is NaN or excluded.

    Ties go to the first. A row without numbers gives the first column that is not excluded.

    >>> table = np.array([[0.1, np.nan], [np.nan, np.nan], [0.2, 0.3]])
    >>> best_known(table).tolist(), best_known(table, table == 0.3).tolist()
    ([0, 0, 1], [0, 0, 0])
    """
    known = np.where(np.isnan(means), -np.inf, means)
    if is_excluded is not None:
        known = np.where(is_excluded, -np.inf, np.maximum(known, -np.finfo(np.float64).max))
    return np.asarray(known.argmax(axis=1))


def capped_means(means: FloatArray, actions: IntArray) -> FloatArray:
    """Lower larger means of other actions to just below the mean of the chosen action.

    >>> capped_means(np.array([[0.5, 0.25, 0.0], [0.5, 0.25, 0.0]]), np.array([0, 1])).round(9)
    array([[0.5 , 0.25, 0.  ],
           [0.25, 0.25, 0.  ]])
    """
    rows = np.arange(len(actions))
    chosen = means[rows, actions][:, None]
    is_cut = (actions != best_known(means))[:, None] & (means >= chosen)
    is_cut[rows, actions] = False
    return np.where(is_cut, np.nextafter(chosen, -np.inf), means)


@dataclass(frozen=True, slots=True)
class Decision:
    """One context's decision.

    ``is_known`` is False if nothing was learned about the context, and the action is the default.
    ``leaf`` is the condition that the attributes satisfy, if the policy was learned from features;
    None if a value is unknown to the policy.
    """

    action: Label
    is_known: bool
    mean: float
    low: float
    high: float
    leaf: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """A decision table with intervals; contexts and actions by their own labels.

    Parameters
    ----------
    context_labels, action_labels
        Names of the S contexts and A actions.
    mean_rewards, low, high
        Shape (S, A); estimated mean reward of the good users and its interval. NaN where nothing
        was learned; infinite ends where there is no bound.
    counts
        Shape (S, A); how many interactions were seen.
    context_probabilities
        Shape (S,); estimated share of the good users' visits.
    alpha, method
        The stated share of colluders, and the method.
    flip_fraction
        Shape (S,), or None; a certified lower bound on the share of accounts it takes to change
        the decision.
    flip_fraction_upper
        Shape (S,), or None; the share with which an attack does change it. NaN where none was
        found.
    sampling_errors
        Shape (S, A), or None; half-width of the interval that chance alone explains. The rest is
        what the stated share of colluders could do at worst.
    is_excluded
        Shape (S, A), or None; actions that worst-case intervals rule out. They keep their means and
        are never chosen.
    decisions
        Shape (S,), or None; code of the action of each context, where another rule than the largest
        mean decides. Contexts of which nothing was learned get the default action all the same.
    partition
        The partition of attributes whose leaves are the contexts, or None if contexts were given.
    created
        UTC time, ISO 8601.
    source
        What was read: anything JSON can hold.

    Notes
    -----
    Without ``decisions`` the choice is the largest mean that is not excluded; of equal ones the
    first. A context that is unknown, or about which nothing was learned, gets the *default action*:
    the best single action over the learned contexts, weighted by their probabilities.

    Examples
    --------
    >>> policy = Policy(
    ...     context_labels=Labels.of(["home", "search"]),
    ...     action_labels=Labels.of(["tea", "milk"]),
    ...     mean_rewards=np.array([[0.2, 0.6], [0.5, 0.1]]),
    ...     low=np.array([[0.1, 0.5], [0.4, 0.0]]),
    ...     high=np.array([[0.3, 0.7], [0.6, 0.2]]),
    ...     counts=np.array([[10, 10], [10, 10]]),
    ...     context_probabilities=np.array([0.7, 0.3]),
    ...     alpha=0.1,
    ...     method="paper",
    ... )
    >>> policy.decide("home").action, policy.decide("checkout").is_known
    ('milk', False)
    """

    context_labels: Labels
    action_labels: Labels
    mean_rewards: FloatArray
    low: FloatArray
    high: FloatArray
    counts: IntArray
    context_probabilities: FloatArray
    alpha: float
    method: str
    flip_fraction: FloatArray | None = None
    flip_fraction_upper: FloatArray | None = None
    sampling_errors: FloatArray | None = None
    is_excluded: BoolArray | None = None
    decisions: IntArray | None = None
    partition: Partition | None = None
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    source: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = (len(self.context_labels), len(self.action_labels))
        if not len(self.action_labels):
            raise InputError("a policy needs at least one action.")
        tables = ("mean_rewards", "low", "high", "counts", "sampling_errors", "is_excluded")
        rows = ("flip_fraction", "flip_fraction_upper", "decisions")
        for name in (*tables, *rows):
            values, expected = getattr(self, name), shape if name in tables else shape[:1]
            if values is not None and values.shape != expected:
                raise InputError(f"{name} must have shape {expected}.")
        chosen = self._chosen
        if not ((chosen >= 0) & (chosen < shape[1])).all():
            raise InputError("decisions must be codes of actions.")
        if self.is_excluded is not None:
            is_out = self.is_excluded[np.arange(shape[0]), chosen]
            if (is_out & self.is_learned).any():
                raise InputError("an action that is excluded cannot be chosen.")
        if self.partition is not None and self.partition.labels != self.context_labels:
            raise InputError("the contexts of a policy must be the leaves of its partition.")
        # JSON has no infinity: infinite ends are written as "no bound".
        is_learned = ~np.isnan(self.mean_rewards)
        for name, end in (("low", -np.inf), ("high", np.inf)):
            ends = getattr(self, name)
            object.__setattr__(self, name, np.where(is_learned & np.isnan(ends), end, ends))

    def __repr__(self) -> str:
        n_contexts, n_actions = self.counts.shape
        return (
            f"<Policy of {counted(n_contexts, 'context')} and {counted(n_actions, 'action')}, "
            f"learned with method={self.method!r}, alpha={self.alpha:g}>"
        )

    @cached_property
    def bias_bounds(self) -> FloatArray:
        """Half-widths of the intervals less the sampling errors; shape (S, A)."""
        half = np.maximum(self.high - self.mean_rewards, self.mean_rewards - self.low)
        return half if self.sampling_errors is None else half - self.sampling_errors

    @cached_property
    def is_learned(self) -> BoolArray:
        """Whether anything was learned of each context; shape (S,)."""
        return np.asarray(~np.isnan(self.mean_rewards).all(axis=1))

    @cached_property
    def default_action(self) -> int:
        """Code of the action for unknown contexts."""
        known = ~np.isnan(self.capped_means)
        sums = np.where(known, self.capped_means, 0.0).sum(axis=1, keepdims=True)
        centres = sums / np.maximum(known.sum(axis=1, keepdims=True), 1)
        # An action without an estimate counts as the average of its context.
        above = np.where(known, self.capped_means - centres, 0.0)
        return int((above * self.context_probabilities[:, None]).sum(axis=0).argmax())

    @cached_property
    def actions(self) -> IntArray:
        """Code of the action chosen in each context; shape (S,)."""
        return np.where(self.is_learned, self._chosen, self.default_action)

    @cached_property
    def _chosen(self) -> IntArray:
        if self.decisions is not None:
            return self.decisions
        return best_known(self.mean_rewards, self.is_excluded)

    @cached_property
    def capped_means(self) -> FloatArray:
        """Mean rewards consistent with the decisions: no mean exceeds the chosen action's."""
        return capped_means(self.mean_rewards, self._chosen)

    def decide(self, context: Context) -> Decision:
        """Return the decision for one context; see ``Decision`` for unknown ones.

        A context is a label; for several context columns a tuple or a mapping of their values; for
        a policy learned from features a mapping of attributes, ``{"country": "DE", "age": None}``.
        """
        label = self.label_of(context)
        code = self.context_labels.code(label)
        leaf = None if code == UNKNOWN or self.partition is None else str(label)
        if code == UNKNOWN or not self.is_learned[code]:
            default = self.action_labels[self.default_action]
            return Decision(default, False, math.nan, math.nan, math.nan, leaf)
        action = int(self.actions[code])
        return Decision(
            self.action_labels[action],
            True,
            float(self.mean_rewards[code, action]),
            float(self.low[code, action]),
            float(self.high[code, action]),
            leaf,
        )

    def label_of(self, context: Context) -> Label | None:
        """Return the label of a context in any of its forms; None if attributes have no leaf."""
        if not isinstance(context, tuple | Mapping):
            return context
        if self.partition is not None:
            if isinstance(context, tuple):
                raise InputError(
                    f"the policy was learned from features: give a mapping with "
                    f"{', '.join(self.partition.names)}, not a tuple."
                )
            return self.partition.leaf(context)
        return context_label(*self.context_columns, context)

    @cached_property
    def context_columns(self) -> tuple[list[str], dict[str, tuple[float, ...]]]:
        """The context columns of the log that the policy was learned from, and their bins."""
        try:
            read = self.source.get("read", {})
            names = [str(name) for name in read.get("columns", {}).get("context", ())]
            bins = {
                str(column): tuple(float(edge) for edge in edges)
                for column, edges in read.get("bins", {}).items()
            }
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"the policy is damaged: its record of the log cannot be read ({error}); name the "
                f"context columns with {option('--context-column', python='columns')}."
            ) from error
        return names or ["context"], bins

    def decide_many(self, contexts: Iterable[Context]) -> tuple[list[Label], BoolArray]:
        """Return the actions for many contexts, and which of the contexts were known."""
        return self.decide_codes(self.codes_of(contexts))

    def codes_of(self, contexts: Iterable[Context]) -> IntArray:
        """Return the codes of contexts in any form that ``decide`` accepts."""
        check_list(contexts, "contexts")
        listed = contexts.tolist() if isinstance(contexts, np.ndarray) else contexts
        return self.context_labels.codes([self.label_of(context) for context in listed])

    def decide_codes(self, codes: IntArray) -> tuple[list[Label], BoolArray]:
        """Return the actions for codes of contexts, and which were known."""
        is_known = (codes != UNKNOWN) & np.append(self.is_learned, False)[codes]
        actions = np.where(is_known, np.append(self.actions, 0)[codes], self.default_action)
        names: list[Label] = self.action_labels.values[actions].tolist()
        return names, is_known

    def words_on_unknown(self, contexts: Sequence[Context]) -> str:
        """Return a sentence on contexts unknown to the policy, with suggestions."""
        first: Any = contexts[0]
        if isinstance(first, tuple | Mapping):
            parts = first.values() if isinstance(first, Mapping) else first
            first = ", ".join(map(str, parts))
        close = closest(str(first), self.context_labels.texts)
        meant = "" if close is None or close == str(first) else f" Did you mean {close!r}?"
        others = f" and {len(contexts) - 1:,} more" if len(contexts) > 1 else ""
        return (
            f"the policy has no context {first!r}{others}; unknown contexts get the default action "
            f"{self.action_labels[self.default_action]!r}.{meant}"
        )

    def cells(self) -> dict[str, npt.NDArray[Any]]:
        """Return a table by columns, one row per (context, action).

        The columns are context, action, mean, low, high, bound, n, is_chosen, is_excluded and
        context_probability, and the two parts of the interval where the method has them.
        """
        n_contexts, n_actions = self.mean_rewards.shape
        contexts, actions = np.divmod(np.arange(n_contexts * n_actions), n_actions)
        is_bounded = np.isfinite(self.high - self.low) | np.isnan(self.mean_rewards)
        is_excluded = self.is_excluded
        if is_excluded is None:
            is_excluded = np.zeros(self.counts.shape, np.bool_)
        parts = {}
        if self.sampling_errors is not None:
            parts = {"sampling_error": self.sampling_errors, "bias_bound": self.bias_bounds}
        return {
            "context": self.context_labels.values[contexts],
            "action": self.action_labels.values[actions],
            "mean": self.mean_rewards.ravel(),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
            "bound": np.where(is_bounded, "", NO_BOUND).ravel(),
            **{name: part.ravel() for name, part in parts.items()},
            "n": self.counts.ravel(),
            "is_chosen": self.actions[contexts] == actions,
            "is_excluded": is_excluded.ravel(),
            "context_probability": self.context_probabilities[contexts],
        }

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``cells`` as a pandas table."""
        import pandas as pd

        return pd.DataFrame(self.cells())

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the mean and interval of every action in the most visited contexts.

        Needs matplotlib, the extra ``plots``. Without axes a new figure is made by pyplot.
        """
        n_rows = len(self._most_visited) * len(self.action_labels)
        axes = axes or _new_axes(7.0, 1.0 + 0.22 * n_rows)
        names: list[str] = []
        for code in self._most_visited:
            for action in np.argsort(-self.capped_means[code], kind="stable").tolist():
                if np.isnan(mean := float(self.mean_rewards[code, action])):
                    continue
                is_chosen = action == self.actions[code]
                ends = self.low[code, action], self.high[code, action]
                if np.isfinite(ends).all():
                    axes.hlines(len(names), *ends, color="#999999", linewidth=1)
                colour = _CHOSEN if is_chosen else _OTHER
                axes.plot(mean, len(names), marker="o" if is_chosen else ".", color=colour)
                names.append(_text(f"{self.context_labels[code]}: {self.action_labels[action]}"))
        axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("mean reward for honest users; large blue: chosen; grey: worst case")
        return axes

    def plot_tree(self, axes: Axes | None = None) -> Axes:
        """Draw the partition of a policy learned from features, with the decision of each leaf.

        Under each leaf are its action, that action's mean reward and the leaf's share of visits.
        """
        if self.partition is None:
            raise InputError(
                "the policy was not learned from features, so there is no tree; see `plot`."
            )
        width = 2.7 * (1 + max(self.partition.depths))
        axes = axes or _new_axes(max(width, 8.0), 1.0 + 0.42 * len(self.context_labels))
        captions = {}
        for code, rule in enumerate(self.context_labels.texts):
            found, share = self.decide(rule), float(self.context_probabilities[code])
            captions[rule] = f"{found.action}: {number(found.mean, 4)} ({percent(share)})"
        draw_tree(self.partition, captions, axes)
        return axes

    def _repr_html_(self) -> str:
        rows = [["context", "share of visits", "action", "mean", "at least", "at most"]]
        for code in self._most_visited:
            context, share = self.context_labels[code], float(self.context_probabilities[code])
            found = self.decide(context)
            ends = (number(value, 4) for value in (found.mean, found.low, found.high))
            rows.append([str(context), percent(share), str(found.action), *ends])
        lines = [
            "<tr>" + "".join(f"<{tag}>{escape(_text(cell))}</{tag}>" for cell in row) + "</tr>"
            for tag, row in zip(["th", *["td"] * len(rows)], rows, strict=False)
        ]
        hidden = len(self.context_labels) - MOST_SHOWN
        more = f"<p>… and {hidden:,} more contexts.</p>" if hidden > 0 else ""
        if condition := self.source.get("intervals", {}).get("condition"):
            more += f"<p>At least and at most hold if {escape(condition)}.</p>"
        return f"<p>{escape(repr(self))}</p><table>{''.join(lines)}</table>{more}"

    @property
    def _most_visited(self) -> list[int]:
        order: list[int] = (-self.context_probabilities).argsort(kind="stable").tolist()
        return order[:MOST_SHOWN]

    def to_json(self) -> dict[str, Any]:
        """Return the policy as versioned, plain JSON values."""
        actions = self.actions
        columns = [self.mean_rewards, self.low, self.high, self.counts]
        if self.sampling_errors is not None:
            columns += [self.sampling_errors, self.bias_bounds]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        names = self.action_labels.texts
        table = {
            context: {action: _cell(*cell) for action, *cell in zip(names, *row, strict=True)}
            for context, row in zip(self.context_labels.texts, rows, strict=True)
        }
        if self.is_excluded is not None:
            contexts = self.context_labels.texts
            for s, a in np.argwhere(self.is_excluded).tolist():
                table[contexts[s]][names[a]]["excluded"] = True
        result: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "created": self.created,
            "adversarial_fraction": self.alpha,
            "method": self.method,
            "context_type": self.context_labels.type_name,
            "action_type": self.action_labels.type_name,
            "actions": list(self.action_labels),
            "default_action": self.action_labels[self.default_action],
            "policy": {
                str(context): self.action_labels[int(actions[s])]
                for s, context in enumerate(self.context_labels)
            },
            "mean_rewards": table,
            "context_probabilities": _by_context(self.context_labels, self.context_probabilities),
            "source": dict(self.source),
        }
        for name in ("flip_fraction", "flip_fraction_upper"):
            shares = getattr(self, name)
            if shares is not None:
                result[name] = _by_context(self.context_labels, shares)
        if self.partition is not None:
            result["partition"] = self.partition.to_json()
        return result

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Policy:
        """Return the policy that ``to_json`` wrote; reject anything else."""
        check_version(value, "policy", format_name=FORMAT, version=VERSION)
        for key, whose in (("personal", "single users"), ("groups", "groups of users")):
            if value.get(key) is not None:
                warnings.warn(
                    f"the policy has decisions of {whose} ({key!r}), which this version does not "
                    "use: all users get the common decisions.",
                    Note,
                    stacklevel=3,
                )
        try:
            table = _of_kind(value, "mean_rewards", Mapping)
            names = _of_kind(value, "actions", list)
            source = _of_kind(value, "source", Mapping)
            contexts = Labels.parsed(table, str(value["context_type"]))
            actions = Labels.of(names)
            cells = [[table[str(s)][str(a)] for a in actions] for s in contexts]
            has_parts = all("sampling_error" in cell for row in cells for cell in row)
            partition = value.get("partition")
            means, is_excluded = _column(cells, "mean"), _excluded(cells)
            return cls(
                context_labels=contexts,
                action_labels=actions,
                sampling_errors=_column(cells, "sampling_error") if has_parts else None,
                is_excluded=is_excluded,
                decisions=_decisions(value.get("policy"), contexts, actions, means, is_excluded),
                mean_rewards=means,
                low=_column(cells, "low"),
                high=_column(cells, "high"),
                counts=_whole_numbers(_column(cells, "n")),
                context_probabilities=_in_order(contexts, value["context_probabilities"]),
                alpha=check_adversarial_fraction(
                    _plain_number(value["adversarial_fraction"]), name="adversarial_fraction"
                ),
                method=_checked_text(value["method"]),
                partition=None if partition is None else Partition.from_json(partition),
                created=_checked_text(value["created"]),
                source=_checked_source(source),
                **{
                    name: _in_order(contexts, value[name])
                    for name in ("flip_fraction", "flip_fraction_upper")
                    if value.get(name) is not None
                },
            )
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InputError(f"the policy is damaged: {error} is missing or malformed.") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy as JSON; the file is replaced atomically."""
        write_object(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a policy that ``save`` wrote."""
        return cls.from_json(read_object(path, "policy", format_name=FORMAT))


def _cell(mean: float, low: float, high: float, n: int, *parts: float) -> dict[str, Any]:
    """Return a cell as JSON values, with a note if its interval is infinite."""
    cell: dict[str, Any] = {
        "mean": json_number(mean),
        "low": json_number(low),
        "high": json_number(high),
        "n": n,
    }
    cell |= dict(zip(("sampling_error", "bias_bound"), map(json_number, parts), strict=False))
    if math.isinf(low) or math.isinf(high):
        cell["bound"] = NO_BOUND
    return cell


def _decisions(
    listed: Mapping[str, Any] | None,
    contexts: Labels,
    actions: Labels,
    means: FloatArray,
    is_excluded: BoolArray | None,
) -> IntArray | None:
    """Return the listed actions as codes, or None if all are those of the largest means."""
    if listed is None:
        return None
    codes = actions.codes(listed[str(context)] for context in contexts)
    if (codes == UNKNOWN).any():
        raise ValueError("an action in 'policy'")
    best = best_known(means, is_excluded)
    codes = np.where(np.isnan(means).all(axis=1), best, codes)
    return None if (codes == best).all() else codes


def _of_kind(value: Mapping[str, Any], name: str, kind: type) -> Any:
    if not isinstance(value[name], kind):
        raise TypeError(repr(name))
    return value[name]


def _excluded(cells: list[list[dict[str, Any]]]) -> BoolArray | None:
    marks = [[cell.get("excluded", False) for cell in row] for row in cells]
    if not all(isinstance(mark, bool) for row in marks for mark in row):
        raise TypeError("'excluded'")
    is_excluded = np.array(marks, dtype=np.bool_).reshape(len(cells), -1)
    return is_excluded if is_excluded.any() else None


def _whole_numbers(values: FloatArray) -> IntArray:
    """Return counts as integers; raise for negative, missing and huge ones."""
    if not (np.isfinite(values) & (values >= 0) & (values <= _MOST_PLAYS)).all():
        raise ValueError("a count 'n'")
    return values.astype(np.int64)


def _checked_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the text {value!r}"[:80])
    value.encode()  # a lone surrogate could not be written back
    return value


def _checked_source(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the source, if all of it can be written as JSON."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("'source'") from error
    return dict(value)


def _by_context(labels: Labels, values: FloatArray) -> dict[str, float | None]:
    return {str(label): json_number(value) for label, value in zip(labels, values, strict=True)}


def _column(cells: list[list[dict[str, Any]]], name: str) -> FloatArray:
    values = [[_plain_number(cell[name]) for cell in row] for row in cells]
    return np.array(values, dtype=np.float64).reshape(len(cells), -1)


def _plain_number(value: object) -> float:
    """Return a number of a policy file, NaN for null; raise for texts, lists and booleans."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise TypeError(f"the number {value!r}"[:80])
    result = float(value)  # type: ignore[arg-type]
    if not abs(result) <= _LARGEST_NUMBER:
        raise ValueError(f"the number {value!r}"[:80])
    return result


def _in_order(labels: Labels, values: Mapping[str, float | None]) -> FloatArray:
    return np.array([_plain_number(values[str(label)]) for label in labels], dtype=np.float64)


def is_table(value: object) -> bool:
    """Whether a value is a table of pandas, Polars or pyarrow, and not a list of contexts."""
    return hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns")


def read_codes(
    policy: Policy, source: Any, *, columns: Sequence[str] | None = None
) -> tuple[pa.Table, IntArray]:
    """Return the rows of a file or table, and the codes of their contexts; −1 if unknown.

    By default the columns that the policy was learned from are read, cut into the same bins.
    """
    from unswayed.events.reading import read_attributes, read_contexts  # slow to import

    partition = policy.partition
    if partition is None:
        learned_from, bins = policy.context_columns
        rows, contexts = read_contexts(source, columns=columns or learned_from, bins=bins)
        return rows, policy.context_labels.codes(contexts)
    if columns is not None:
        raise InputError(
            f"{option('--context-column', python='columns')} is for policies with context columns; "
            f"this one reads the features {', '.join(partition.names)}."
        )
    are_numbers = {feature.name: feature.is_number for feature in partition.features}
    rows, attributes = read_attributes(source, are_numbers=are_numbers)
    return rows, partition.leaves(attributes) if len(rows) else np.zeros(0, np.int64)


def _new_axes(width: float, height: float) -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise InputError(
            "pictures need matplotlib: install unswayed with the extra 'plots'."
        ) from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def _text(value: Any) -> str:
    return visible(str(value), most=LABEL_LENGTH)
