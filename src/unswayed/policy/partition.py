"""A partition of attributes into leaves, which are the contexts of a policy."""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.events.attributes import AttributeColumn, Categories, plain_text
from unswayed.events.columns import SEPARATOR, bin_labels
from unswayed.events.labels import UNKNOWN, Label, Labels
from unswayed.names import closest
from unswayed.policy.documents import check_version
from unswayed.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "unswayed-partition"
VERSION = 1

#: The first two codes of every attribute; those of bins or levels follow.
MISSING, OTHER = 0, 1

#: Maximum number of levels listed in a rule; the partition itself lists all.
_SHOWN = 6

#: Maximum length of a rule in bytes.
_LONGEST_RULE = 1_000

#: Maximum length of a condition or caption in a picture.
_DRAWN = 40

#: The rule of a partition with a single leaf.
EVERYBODY = "everybody"

#: Name of the linear model's choice in rules.
ADVICE = "advice"

#: Names of the linear model's arrays.
_ARRAYS = ("centres", "scales", "coefficients")


@dataclass(frozen=True, slots=True)
class Feature:
    """One attribute: a number cut at ``edges``, or a category with ``levels``.

    Code 0 is a missing value. Bins of a number have the codes 2, 3, … in order, and so have the
    listed levels of a category; its code 1 is any other level.
    """

    name: str
    edges: tuple[float, ...] | None = None
    levels: tuple[str, ...] = ()
    is_trusted: bool = False

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self.edges is not None

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return 2 + (len(self.levels) if self.edges is None else len(self.edges) + 1)

    def codes(self, column: AttributeColumn) -> IntArray:
        """Return the codes of many values."""
        if isinstance(column, Categories):
            places = {level: code for code, level in enumerate(self.levels, 2)}
            of_level = [places.get(level, OTHER) for level in column.levels]
            return np.array([*of_level, MISSING], dtype=np.int64)[column.codes]
        codes = np.searchsorted(np.array(self.edges), column, side="right") + 2
        return np.where(np.isfinite(column), codes, MISSING)

    def as_declared(self, column: AttributeColumn) -> AttributeColumn:
        """Return the column as numbers if the feature is a number and the source has no types."""
        if not self.is_number or not isinstance(column, Categories) or not column.is_untyped:
            return column
        try:
            return column.numbers()
        except ValueError as error:
            raise InputError(
                f"column {self.name!r}: {error}, and the policy was learned from numbers; correct "
                "it, or leave it empty where it is missing."
            ) from error

    def code(self, value: Any) -> int:
        """Return the code of one value."""
        if self.edges is not None:
            number = self.number(value)
            return bisect_right(self.edges, number) + 2 if math.isfinite(number) else MISSING
        text = None if _is_na(value) else plain_text(value)
        if text is None:
            return MISSING
        return self.levels.index(text) + 2 if text in self.levels else OTHER

    def column(self, value: Any) -> AttributeColumn:
        """Return a column of one value."""
        if self.is_number:
            return np.array([self.number(value)])
        text = None if _is_na(value) else plain_text(value)
        return Categories(np.array([-1 if text is None else 0], np.int32), (text or "",))

    def number(self, value: Any) -> float:
        """Return a value as a number, NaN if it is missing; raise for anything else."""
        try:
            return math.nan if value is None or _is_na(value) else float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"attribute {self.name!r} is {value!r}; it must be a number, or None."
            ) from error

    def condition(self, codes: Sequence[int], seen: Sequence[int]) -> str:
        """Return a condition that only ``codes`` meet, of all codes that occurred (``seen``)."""
        if self.edges is None:
            others = [code for code in seen if code not in codes]
            if len(others) < len(codes):
                return f"{self.name} is not {self._listed(others)}"
            return f"{self.name} is {self._listed(codes)}"
        bins = [code - 2 for code in codes if code >= 2]
        name = self.name
        if not bins:
            return f"{name} is missing"
        if len(bins) == len(self.edges) + 1:
            return f"{name} is known"
        low = "" if bins[0] == 0 else f"{self.edges[bins[0] - 1]:.6g}<="
        high = "" if bins[-1] == len(self.edges) else f"<{self.edges[bins[-1]]:.6g}"
        return f"{low}{name}{high}" + (" (or missing)" if MISSING in codes else "")

    def _listed(self, codes: Sequence[int]) -> str:
        texts = ("missing", "other", *self.levels)
        names = [texts[code] for code in codes]
        if len(names) > _SHOWN:
            names[_SHOWN - 1 :] = [f"one of {len(names) - _SHOWN + 1} more"]
        return " or ".join(names)

    def to_json(self) -> dict[str, Any]:
        """Return the feature as plain JSON values."""
        kind: dict[str, Any] = {"type": "category", "levels": list(self.levels)}
        if self.edges is not None:
            kind = {"type": "number", "edges": list(self.edges)}
        return {"name": self.name, **kind, "trusted": self.is_trusted}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Feature:
        """Return the feature that ``to_json`` wrote."""
        name, is_trusted = value["name"], value["trusted"]
        if not isinstance(name, str) or not isinstance(is_trusted, bool):
            raise TypeError("a feature")
        if value["type"] == "number":
            edges = tuple(float(edge) for edge in value["edges"])
            if list(edges) != sorted(set(edges)) or not all(map(math.isfinite, edges)):
                raise ValueError(f"the edges of {name!r}")
            return cls(name, edges, is_trusted=is_trusted)
        levels = tuple(value["levels"])
        if value["type"] != "category" or not all(isinstance(level, str) for level in levels):
            raise ValueError(f"the levels of {name!r}")
        return cls(name, levels=levels, is_trusted=is_trusted)


def _is_na(value: Any) -> bool:
    """Whether a value is pandas' NA, without loading pandas."""
    return type(value).__name__ == "NAType"


@dataclass(frozen=True, slots=True, eq=False)
class LinearAdvice:
    """The best action of a linear model, offered to the tree as one more attribute.

    The columns are a constant, for each number its clipped standard score and an indicator of
    missing values, and for each category an indicator per code. Coefficients of columns without any
    play are exactly 0, so a level or missing value with zeros for all actions is unknown.
    """

    actions: tuple[str, ...]  # the actions to choose from
    centres: FloatArray  # shape (n_features,); not used for categories
    scales: FloatArray  # shape (n_features,); not used for categories
    coefficients: FloatArray  # shape (n_actions, n_columns)

    def choices(
        self,
        features: Sequence[Feature],
        columns: Mapping[str, AttributeColumn],
        *,
        is_always_known: bool = False,
    ) -> IntArray:
        """Return the codes of the advised actions, ``MISSING`` where a value is unknown."""
        places, values = design_rows(features, self.centres, self.scales, columns)
        scores = np.zeros((len(places), len(self.actions)))
        for place, value in zip(places.T, values.T, strict=True):
            scores += self.coefficients.T[place] * value[:, None]
        best = np.asarray(scores.argmax(axis=1)) + 2
        if is_always_known:
            return best
        is_seen = (self.coefficients != 0.0).sum(axis=0) > 0
        is_seen[0] = True
        for feature, start in zip(features, first_columns(features), strict=False):
            is_seen[start] |= feature.is_number  # its coefficient is 0 if all scores are
        return np.where(is_seen[places].all(axis=1), best, MISSING)

    def to_json(self) -> dict[str, Any]:
        """Return the model as plain JSON values."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return {"actions": list(self.actions), **arrays}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], features: Sequence[Feature]) -> LinearAdvice:
        """Return the model that ``to_json`` wrote."""
        actions = tuple(value["actions"])
        arrays = [np.array(value[name], dtype=np.float64) for name in _ARRAYS]
        n_columns = int(first_columns(features)[-1])
        shapes = [(len(features),), (len(features),), (len(actions), n_columns)]
        if [array.shape for array in arrays] != shapes:
            raise ValueError("the advice")
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("a number of the advice")
        return cls(actions, *arrays)


def first_columns(features: Sequence[Feature]) -> IntArray:
    """Return where the columns of each feature begin in a linear model, and their number."""
    return np.cumsum([1, *(2 if feature.is_number else feature.n_codes for feature in features)])


#: Ours: bound at which standard scores are clipped, to limit leverage.
LARGEST_SCORE = 3.0


def design_rows(
    features: Sequence[Feature],
    centres: FloatArray,
    scales: FloatArray,
    columns: Mapping[str, AttributeColumn],
) -> tuple[IntArray, FloatArray]:
    """Return the non-zero columns in each row of a linear model, and their values.

    Both have shape (n_rows, 1 + n_features), since every feature has one such column.
    """
    shape = len(columns[features[0].name]), 1 + len(features)
    places, values = np.zeros(shape, np.int64), np.ones(shape)
    places[:, 1:] = first_columns(features)[:-1]
    for j, feature in enumerate(features):
        column = columns[feature.name]
        if isinstance(column, Categories):
            places[:, j + 1] += feature.codes(column)
            continue
        score = ((column - centres[j]) / scales[j]).clip(-LARGEST_SCORE, LARGEST_SCORE)
        is_known = np.isfinite(column)
        places[:, j + 1] += ~is_known
        values[:, j + 1] = np.where(is_known, score, 1.0)
    return places, values


@dataclass(frozen=True, slots=True)
class Split:
    """An inner node of the tree, which maps the codes of a feature to children.

    A feature number beyond the last stands for the advice. Codes that no branch lists did not occur
    in the log.
    """

    feature: int
    branches: tuple[tuple[int, ...], ...]
    children: tuple[int, ...]

    def steps(self) -> dict[int, int]:
        """Return the child node for each code."""
        pairs = zip(self.branches, self.children, strict=True)
        return {code: child for codes, child in pairs for code in codes}

    def to_json(self) -> dict[str, Any]:
        """Return the node as plain JSON values."""
        branches = [list(codes) for codes in self.branches]
        return {"feature": self.feature, "branches": branches, "children": list(self.children)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Split:
        """Return the node that ``to_json`` wrote."""
        branches = tuple(tuple(map(int, codes)) for codes in value["branches"])
        return cls(int(value["feature"]), branches, tuple(map(int, value["children"])))


#: A tree; node 0 is its root, None is a leaf.
Nodes = tuple[Split | None, ...]


def single_split(feature: int, branches: Sequence[Sequence[int]]) -> Nodes:
    """Return a tree of one split with a leaf per branch, or a single leaf for one branch."""
    if len(branches) < 2:
        return (None,)
    children = range(1, len(branches) + 1)
    return (Split(feature, tuple(map(tuple, branches)), tuple(children)), *(None for _ in children))


@dataclass(frozen=True, eq=False)
class Partition:
    """A tree over attributes whose leaves are the contexts of a policy.

    It is plain data without code, versioned, with a hash of its contents that policies and signed
    decisions refer to. A row has no leaf if a split on its path uses a value that did not occur in
    the log; a split on the advice uses all attributes.

    Examples
    --------
    >>> age = Feature("age", edges=(30.0,))
    >>> partition = Partition((age,), (Split(0, ((2,), (3,)), (1, 2)), None, None))
    >>> list(partition.labels), partition.leaf({"age": 31})
    (['30<=age', 'age<30'], '30<=age')
    """

    features: tuple[Feature, ...]
    nodes: Nodes = (None,)
    # The linear model whose choice is the last feature.
    advice: LinearAdvice | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise if the nodes are not a tree, or refer to unknown features or codes."""
        features, nodes = self.all_features, self.nodes
        if not features or len({feature.name for feature in features}) < len(features):
            raise InputError("a partition needs features, each with a name of its own.")
        children: list[int] = []
        for place, node in enumerate(nodes):
            if node is None:
                continue
            if not 0 <= node.feature < len(features) or len(node.branches) != len(node.children):
                raise InputError(f"the partition is damaged: node {place} is malformed.")
            codes = [code for branch in node.branches for code in branch]
            n_codes = features[node.feature].n_codes
            if len(set(codes)) < len(codes) or not all(0 <= code < n_codes for code in codes):
                raise InputError(
                    f"the partition is damaged: the codes of node {place} are malformed."
                )
            if not all(child > place for child in node.children):
                raise InputError(
                    f"the partition is damaged: node {place} has no children after it."
                )
            children += node.children
        if sorted(children) != list(range(1, len(nodes))) or not nodes:
            raise InputError("the partition is damaged: its nodes are not a tree.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def depths(self) -> list[int]:
        """Number of splits above each node."""
        depths = [0] * len(self.nodes)
        for place, node in enumerate(self.nodes):
            for child in () if node is None else node.children:
                depths[child] = depths[place] + 1
        return depths

    @cached_property
    def all_features(self) -> tuple[Feature, ...]:
        """The attributes, and the advice if there is one."""
        if self.advice is None:
            return self.features
        name = ADVICE
        while name in self.names:
            name = f"linear {name}"
        return (*self.features, Feature(name, levels=self.advice.actions))

    @cached_property
    def labels(self) -> Labels:
        """The rules of the leaves, sorted."""
        return Labels.of(sorted(self._rules.values()))

    @cached_property
    def _rules(self) -> dict[int, str]:
        """Rule of each leaf, by the number of its node."""
        allowed: dict[int, dict[int, set[int]]] = {0: {}}
        seen = self._seen
        rules: dict[int, str] = {}
        for number, node in enumerate(self.nodes):
            if node is None:
                conditions = [
                    self.all_features[j].condition(sorted(codes), seen[j])
                    for j, codes in sorted(allowed[number].items())
                ]
                rules[number] = _shortened(" and ".join(conditions)) or EVERYBODY
                continue
            for codes, child in zip(node.branches, node.children, strict=True):
                kept = allowed[number].get(node.feature, set(codes)) & set(codes)
                allowed[child] = {**allowed[number], node.feature: kept}
        return _told_apart(rules)

    @cached_property
    def _seen(self) -> dict[int, list[int]]:
        """Codes of each feature that occur in a split."""
        seen: dict[int, set[int]] = {}
        for node in self.nodes:
            if node is not None:
                seen.setdefault(node.feature, set()).update(*node.branches)
        return {feature: sorted(codes) for feature, codes in seen.items()}

    @cached_property
    def _steps(self) -> list[dict[int, int]]:
        """Children of each node by code; empty for leaves."""
        return [node.steps() if node else {} for node in self.nodes]

    def leaf(self, attributes: Mapping[str, Any]) -> str | None:
        """Return the rule of the leaf of some attributes; None if a value is unknown to a split.

        Every attribute has to be given; None stands for a missing value. Other attributes are
        ignored.
        """
        self.check_names(attributes, "the attributes")
        place = 0
        while (node := self.nodes[place]) is not None:
            if node.feature < len(self.features):
                feature = self.features[node.feature]
                code = feature.code(attributes[feature.name])
            else:
                code = self._advised(attributes)
            found = self._steps[place].get(code)
            if found is None:
                return None
            place = found
        return self._rules[place]

    def check_names(self, names: Mapping[str, Any] | Sequence[str], where: str) -> None:
        """Raise if an attribute is missing from a row or from the columns of a table."""
        for name in self.names:
            if name not in names:
                close = closest(name, [str(key) for key in names])
                hint = f" Did you mean {close!r}?" if close else ""
                raise InputError(
                    f"{where} lack {name!r}; the policy was learned from the features "
                    f"{', '.join(self.names)}. Give None where a value is missing.{hint}"
                )

    def _advised(self, attributes: Mapping[str, Any]) -> int:
        assert self.advice is not None
        columns = {one.name: one.column(attributes[one.name]) for one in self.features}
        return int(self.advice.choices(self.features, columns)[0])

    def leaves(self, columns: Mapping[str, AttributeColumn]) -> IntArray:
        """Return the code in ``labels`` of each row's leaf, −1 if it has none."""
        columns = {one.name: one.as_declared(columns[one.name]) for one in self.features}
        codes = []
        for feature in self.features:
            column = columns[feature.name]
            if isinstance(column, Categories) == feature.is_number and len(column):
                found, needed = ("text", "numbers") if feature.is_number else ("numbers", "text")
                raise InputError(
                    f"column {feature.name!r} contains {found}, and the policy was learned from "
                    f"{needed}; convert it."
                )
            codes.append(feature.codes(column))
        if self.advice is not None:
            codes.append(self.advice.choices(self.features, columns))
        return self.leaves_of_codes(codes)

    def leaves_of_codes(self, codes: Sequence[IntArray]) -> IntArray:
        """Return the leaves of rows that are encoded already, one array per feature."""
        leaves = np.full(len(codes[0]), UNKNOWN, np.int64)
        order = {rule: code for code, rule in enumerate(self.labels)}
        waiting = {0: np.arange(len(leaves))}
        while waiting:
            place, rows = waiting.popitem()
            node = self.nodes[place]
            if node is None:
                leaves[rows] = order[self._rules[place]]
                continue
            step = np.full(self.all_features[node.feature].n_codes, -1, np.int64)
            step[list(self._steps[place])] = list(self._steps[place].values())
            towards = step[codes[node.feature][rows]]
            for child in node.children:
                waiting[child] = rows[towards == child]
        return leaves

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the partition as canonical JSON."""
        text = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "features": [feature.to_json() for feature in self.features],
            "advice": None if self.advice is None else self.advice.to_json(),
            "nodes": [node and node.to_json() for node in self.nodes],
        }

    def to_json(self) -> dict[str, Any]:
        """Return the partition as versioned, plain JSON values with their hash."""
        return {**self._content(), "hash": self.hash}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Partition:
        """Return the partition that ``to_json`` wrote; raise for anything else."""
        try:
            check_version(value, "partition", format_name=FORMAT, version=VERSION)
            features = tuple(Feature.from_json(feature) for feature in value["features"])
            nodes = tuple(
                node if node is None else Split.from_json(node) for node in value["nodes"]
            )
            advice = value["advice"]
            if advice is not None:
                advice = LinearAdvice.from_json(advice, features)
            partition = cls(features, nodes, advice)
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InputError(
                f"the partition is damaged: {error} is missing or malformed."
            ) from error
        if value.get("hash") != partition.hash:
            raise InputError("the partition is damaged: its hash does not match; learn it again.")
        return partition


def _shortened(rule: str) -> str:
    """Return a rule shortened to the length limit of database keys and signed decisions."""
    kept = rule.encode()[:_LONGEST_RULE].decode(errors="ignore")
    return rule if kept == rule else f"{kept}…"


def _told_apart(rules: dict[int, str]) -> dict[int, str]:
    """Append numbers to rules that shortening made equal."""
    counts, seen = Counter(rules.values()), Counter[str]()
    for number, rule in rules.items():
        seen[rule] += 1
        if counts[rule] > 1:
            rules[number] = f"{rule} ({seen[rule]})"
    return rules


def draw_tree(partition: Partition, captions: Mapping[str, str], axes: Axes) -> None:
    """Draw the tree from left to right, each leaf with its caption; ``captions`` are by rule.

    Lines are labelled with the conditions of their branches, shortened if long.
    """
    heights: dict[int, float] = {}
    depths = partition.depths

    def settle(place: int) -> float:
        node = partition.nodes[place]
        if node is None:
            heights[place] = float(sum(partition.nodes[other] is None for other in heights))
        else:
            heights[place] = float(np.mean([settle(child) for child in node.children]))
        return heights[place]

    settle(0)
    for place, node in enumerate(partition.nodes):
        if node is None:
            caption = _on_one_line(captions[partition._rules[place]])
            axes.text(depths[place] + 0.04, heights[place], caption, va="center", weight="bold")
            continue
        feature = partition.all_features[node.feature]
        for codes, child in zip(node.branches, node.children, strict=True):
            corner, end = depths[place] + 0.06, depths[child]
            path = [depths[place], corner, corner, end]
            ends = [heights[place], heights[place], heights[child], heights[child]]
            axes.plot(path, ends, color="#999999", linewidth=1, zorder=0)
            words = feature.condition(sorted(codes), partition._seen[node.feature])
            axes.text(corner + 0.03, heights[child] - 0.08, _on_one_line(words), size="small")
    n_leaves = len(partition.labels)
    axes.set(xlim=(-0.05, max(depths) + 1.0), ylim=(n_leaves - 0.4, -0.8))
    axes.axis("off")


def _on_one_line(words: str) -> str:
    return visible(words, most=_DRAWN).replace("$", r"\$")


def context_label(
    names: Sequence[str], bins: Mapping[str, Sequence[float]], value: Any
) -> Label | None:
    """Return the label of a context of several columns from its parts, a tuple or a mapping.

    >>> context_label(["country", "age"], {"age": [30.0]}, {"country": "DE", "age": 31})
    'DE|30<=age'
    """
    if isinstance(value, Mapping):
        for name in names:
            if name not in value:
                raise InputError(f"the context lacks {name!r}; its columns are {', '.join(names)}.")
        value = tuple(value[name] for name in names)
    if len(value) != len(names):
        raise InputError(
            f"the context {value!r} has {len(value)} parts; its columns are {', '.join(names)}."
        )
    parts = [
        _binned(name, bins[name], part) if name in bins else part
        for name, part in zip(names, value, strict=True)
    ]
    if len(parts) == 1:
        label: Label | None = parts[0]
        return label
    return SEPARATOR.join(
        (plain_text(part) or "").replace("\\", "\\\\").replace(SEPARATOR, f"\\{SEPARATOR}")
        for part in parts
    )


def _binned(name: str, edges: Sequence[float], value: Any) -> str | None:
    """Return the label of a number's bin; None if it is missing or not finite."""
    code = Feature(name, tuple(edges)).code(value)
    return None if code == MISSING else bin_labels(name, edges)[code - 2]
