"""The shape of a partition: screened users, advice, candidate trees, and a choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.events import Events, Labels
from unswayed.events.attributes import AttributeColumn, Categories
from unswayed.events.hashing import HashArray, user_hashes
from unswayed.events.known import KnownAccounts
from unswayed.learners.design import design_of_log
from unswayed.learners.features.advice import cross_fitted_advice
from unswayed.learners.features.encoding import (
    Rows,
    encoded,
    event_weights,
    fitted_features,
)
from unswayed.learners.features.trees import Grower, Growth, design_effect, with_codes
from unswayed.learners.methods import method_named
from unswayed.learners.options import LearnOptions
from unswayed.learners.unknown_fraction import estimate_fraction
from unswayed.policy.partition import ADVICE, Feature, Partition, Split
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.log_data import digest_of

#: Ours: users that every leaf needs, whatever alpha is.
MIN_USERS = 60

#: Ours: folds of users over which advice and choice are cross-fitted.
N_FOLDS = 3

#: Ours: plays by which the means of a leaf are shrunken to the log's when candidates are compared.
_SHRUNKEN_BY = 20.0

#: Ours: standard errors that a gain over the constant is lowered by before candidates are compared
#: (the one-standard-error rule of Breiman et al. 1984, here against the constant).
CAUTION = 1.0

#: Ours: the tree of the screen has this many leaves, at most, and in each this multiple of alpha of
#: the users, so that a coalition cannot be the majority of a leaf by what it claims.
_SCREEN_LEAVES = 16
_SCREEN_USERS = 2.0

#: Ours: an attribute varies within users if at least this share of the events differ from the
#: user's first.
_VARIES = 0.3
_CROSS_BINS = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to partition: with or without advice first, and how far to split."""

    name: str
    has_advice: bool
    strictness: float | None = None
    floor: float = 1.0


#: Ours. ``floor`` is the share of the users, in units of alpha, that a leaf needs.
CANDIDATES = (
    Candidate("one leaf", has_advice=False),
    Candidate("tree, strict", has_advice=False, strictness=2.0),
    Candidate("tree", has_advice=False, strictness=1.0),
    Candidate("tree, small leaves", has_advice=False, strictness=1.0, floor=0.0),
    Candidate("advice", has_advice=True),
    Candidate("advice and tree, strict", has_advice=True, strictness=2.0),
    Candidate("advice and tree", has_advice=True, strictness=1.0),
)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A partition and how it was chosen.

    Attributes
    ----------
    partition
        The partition.
    leaves
        Shape (n_events,); the leaf of each event.
    chosen
        Name of the candidate.
    gains
        Cross-fitted gain of each candidate over the best single action, and its standard error.
    shaped_by
        Shape (n_users,); who had a say in the shape.
    """

    partition: Partition
    leaves: IntArray
    chosen: str
    gains: dict[str, tuple[float, float]] = field(default_factory=dict)
    shaped_by: BoolArray | None = None

    def in_leaves(self, events: Events) -> Events:
        """Return the events with their leaves as contexts."""
        return replace(events, contexts=self.leaves, context_labels=self.partition.labels)

    def to_json(self) -> dict[str, Any]:
        """Return how the partition was chosen, as plain JSON values."""
        return {
            "chosen": self.chosen,
            "n_leaves": len(self.partition.labels),
            "gains": {name: list(gain) for name, gain in self.gains.items()},
        }


#: The context of events whose attributes have values that the partition does not know.
NO_LEAF = "(no leaf)"


def in_leaves_of(
    partition: Partition,
    events: Events,
    columns: Mapping[str, AttributeColumn],
    *,
    is_learned_from: bool = False,
) -> Events:
    """Return events with the leaves of a partition as contexts.

    Those without a leaf have the context ``NO_LEAF``; they are left out of what is learned from.
    """
    leaves, labels = partition.leaves(columns), partition.labels
    has_leaf = leaves >= 0
    if not has_leaf.all() and not is_learned_from:
        leaves, labels = np.where(has_leaf, leaves, len(labels)), Labels.of([*labels, NO_LEAF])
    placed = replace(events, contexts=np.maximum(leaves, 0), context_labels=labels)
    return placed.rows(has_leaf) if is_learned_from else placed


def learn_shape(
    events: Events,
    columns: Mapping[str, AttributeColumn],
    options: LearnOptions,
    *,
    on_step: Callable[[str], None] = lambda _: None,
) -> Shape:
    """Learn a partition of attributes from a log, some users of which may have been forged.

    Parameters
    ----------
    events, columns
        The log, and its attributes: one value per event each.
    options
        How to learn: alpha, the method, which screens the users, and what there is about features.
    on_step
        Called with "screening" and "shaping".

    Notes
    -----
    A single category has a leaf per level, however many there are. Leaves need a share alpha of the
    users on each side of a split, if that gains on held-out users, and ``MIN_USERS`` anyway; splits
    on trusted attributes need ``MIN_USERS`` only.
    """
    if len(columns) == 1:
        ((name, column),) = columns.items()
        if isinstance(column, Categories):
            return _of_levels(name, column, is_trusted=name in options.trusted)
    hashes = _mixed_hashes(events)
    weights = np.ones(events.n_users)
    if isinstance(options.known, KnownAccounts):
        weights[options.known.of(events.user_labels)[0]] = 0.0
    shaped_by = None
    if options.honest:
        shaped_by = hashes >> np.uint64(63) == 0
        weights[~shaped_by] = 0.0
    folds = ((hashes >> np.uint64(20)) % np.uint64(N_FOLDS)).astype(np.int64)
    base = event_weights(events, options.min_propensity)
    on_step("screening")
    alpha = options.alpha
    if alpha == "auto":
        alpha = estimate_fraction(_tallies(_in_view(events, None, weights > 0), options)).chosen
    weights *= _screened(events, columns, base, weights > 0, options, alpha)
    on_step("shaping")
    features = fitted_features(columns, events, weights, options.trusted)
    rows = _rows(events, encoded(features, columns), base * weights[events.users])
    effect = design_effect(rows)
    model, grown_on, place, grown_by = None, rows, None, features
    if options.advice == "auto":
        texts = tuple(events.action_labels.texts)
        fitted = cross_fitted_advice(features, columns, rows, folds, texts)
        if fitted is not None:
            model, advised = fitted
            grown_on, place = with_codes(rows, advised), len(features)
            grown_by = (*features, Feature(ADVICE, levels=texts))
    elif options.advice != "off":
        place = list(columns).index(options.advice)
    choice = _Choice(
        grown_on,
        grown_by,
        weights,
        folds,
        effect,
        options.max_leaves,
        alpha * float(weights.sum()),
        place,
        len(features),
    )
    nodes, chosen, gains = choice.best()
    uses_advice = any(node is not None and node.feature == len(features) for node in nodes)
    partition = Partition(features, nodes, model if uses_advice else None)
    return Shape(partition, partition.leaves(columns), chosen, gains, shaped_by)


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Candidates, compared by their value for users who did not shape them."""

    rows: Rows
    features: tuple[Feature, ...]
    user_weights: FloatArray
    folds: IntArray
    effect: float
    max_leaves: int
    alpha_users: float
    advice: int | None
    n_usable: int

    def best(self) -> tuple[tuple[Split | None, ...], str, dict[str, tuple[float, float]]]:
        """Return the nodes of the best candidate, its name, and the gains of all."""
        everybody = np.ones(len(self.rows.actions), np.bool_)
        usable = self.features[: self.n_usable]
        grower = Grower(self.rows, usable, self.user_weights, self.effect)
        gains: dict[str, tuple[float, float]] = {}
        trees: dict[str, tuple[Split | None, ...]] = {}
        for candidate in CANDIDATES:
            if candidate.has_advice and self.advice is None:
                continue
            nodes = self._grown(grower, candidate, everybody, 1.0)
            if nodes in trees.values():
                continue
            trees[candidate.name] = nodes
            gains[candidate.name] = (0.0, 0.0)
            if len(nodes) > 1:
                gains[candidate.name] = self._gain(grower, candidate)
        chosen = max(gains, key=lambda name: gains[name][0] - CAUTION * gains[name][1])
        return trees[chosen], chosen, gains

    def _grown(
        self, grower: Grower, candidate: Candidate, selected: BoolArray, share: float
    ) -> tuple[Split | None, ...]:
        if candidate.strictness is None and not candidate.has_advice:
            return (None,)
        growth = Growth(
            max_leaves=self.max_leaves,
            min_users=share * max(MIN_USERS, candidate.floor * self.alpha_users),
            trusted_users=share * MIN_USERS,
            strictness=np.inf if candidate.strictness is None else candidate.strictness,
        )
        return grower.grow(growth, selected, first=self.advice if candidate.has_advice else None)

    def _gain(self, grower: Grower, candidate: Candidate) -> tuple[float, float]:
        """Return the cross-fitted gain over the best single action, and its standard error.

        In each leaf the mean of the action chosen on the other folds, less that of the single
        action that was best there, weighted by the leaf's share.
        """
        rows, n_actions = self.rows, self.rows.n_actions
        gain = variance = total = 0.0
        for fold in range(N_FOLDS):
            is_held_out = self.folds[rows.users] == fold
            nodes = self._grown(grower, candidate, ~is_held_out, (N_FOLDS - 1) / N_FOLDS)
            leaves, n_leaves = _leaves(nodes, self.features, rows)
            cells = leaves * n_actions + rows.actions

            def sums(chosen: BoolArray, values: FloatArray, n_cells: int) -> FloatArray:
                weights = values[chosen]
                counted = np.bincount(cells[chosen], weights=weights, minlength=n_cells)  # noqa: B023
                return np.asarray(counted.reshape(-1, n_actions))

            n_cells = n_leaves * n_actions
            products = rows.weights * rows.rewards
            w_in, r_in = (
                sums(~is_held_out, rows.weights, n_cells),
                sums(~is_held_out, products, n_cells),
            )
            overall = r_in.sum(axis=0) / np.maximum(w_in.sum(axis=0), 1e-9)
            means = (r_in + _SHRUNKEN_BY * overall) / (w_in + _SHRUNKEN_BY)
            played, single = means.argmax(axis=1), int(overall.argmax())
            w_out, r_out = (
                sums(is_held_out, rows.weights, n_cells),
                sums(is_held_out, products, n_cells),
            )
            s_out = sums(is_held_out, products * rows.rewards, n_cells)
            q_out = sums(is_held_out, rows.weights**2, n_cells)
            of_leaf = w_out.sum(axis=1)
            total += of_leaf.sum()
            for leaf in np.flatnonzero(played != single):
                pair = [int(played[leaf]), single]
                weight = w_out[leaf, pair]
                if (weight <= 0).any():
                    continue
                mean = r_out[leaf, pair] / weight
                spread = np.maximum(s_out[:, pair].sum(axis=0) / w_out[:, pair].sum(axis=0), 1e-12)
                gain += of_leaf[leaf] * (mean[0] - mean[1])
                variance += of_leaf[leaf] ** 2 * float(
                    (spread * q_out[leaf, pair] / weight**2).sum()
                )
        return gain / max(total, 1e-9), float(np.sqrt(self.effect * variance)) / max(total, 1e-9)


def _leaves(
    nodes: tuple[Split | None, ...], features: tuple[Feature, ...], rows: Rows
) -> tuple[IntArray, int]:
    tree = Partition(features, nodes)
    leaves = tree.leaves_of_codes(list(rows.codes.T))
    # Codes that the growing folds lack: with the first leaf, which does no harm to the others.
    return np.maximum(leaves, 0), len(tree.labels)


def _rows(events: Events, codes: Any, weights: FloatArray) -> Rows:
    return Rows(
        codes,
        events.users.astype(np.int32),
        events.actions.astype(np.int32),
        events.rewards,
        weights,
        events.n_users,
        events.n_actions,
    )


def _screened(
    events: Events,
    columns: Mapping[str, AttributeColumn],
    base: FloatArray,
    counts: BoolArray,
    options: LearnOptions,
    alpha: float,
) -> FloatArray:
    """Return a weight per user: the median over views of the log.

    The views are the actions alone, a coarse tree that no coalition can own a leaf of, and a cross
    of two attributes that vary within users. A single view takes effects of attributes for a
    coalition; the smallest weight over views does, too.
    """
    if alpha == 0.0:
        return np.ones(events.n_users)
    users = counts.astype(np.float64)
    features = fitted_features(columns, events, users)
    rows = _rows(events, encoded(features, columns), base * users[events.users])
    grower = Grower(rows, features, users, design_effect(rows))
    min_users = max(MIN_USERS, _SCREEN_USERS * alpha * users.sum())
    nodes = grower.grow(
        Growth(_SCREEN_LEAVES, min_users, trusted_users=min_users), np.ones(len(base), np.bool_)
    )
    tree, cross = _leaves(nodes, features, rows)[0], _cross(rows, features)
    found = []
    for view in (None, tree, cross):
        if view is None or view.max() > 0:
            tallies = _tallies(_in_view(events, view, counts), options)
            design = design_of_log(tallies, options.design)
            found.append(method_named(options.method)(tallies, design, alpha=alpha).user_weights)
            if len(found) == 2 and np.array_equal(found[0], found[1]):
                break  # the median, whatever the third is
    return np.asarray(np.median(found, axis=0) if len(found) != 2 else np.min(found, axis=0))


def _cross(rows: Rows, features: tuple[Feature, ...]) -> IntArray:
    """Return a cross of two attributes that vary within users, those with the fewest values."""
    _, first, places = np.unique(rows.users, return_index=True, return_inverse=True)
    differs = rows.codes != rows.codes[first[places]]
    varying = np.flatnonzero(differs.mean(axis=0) > _VARIES)
    chosen = sorted(varying.tolist(), key=lambda place: features[place].n_codes)[:2]
    cross = np.zeros(len(rows.users), np.int64)
    for place in chosen:
        column = rows.codes[:, place]
        counts = np.bincount(column)
        middle = (np.cumsum(counts) - counts / 2) / counts.sum()
        groups = np.minimum(middle * _CROSS_BINS, _CROSS_BINS - 1).astype(np.int64)
        cross = cross * _CROSS_BINS + groups[column]
    return np.unique(cross, return_inverse=True)[1]


def _in_view(events: Events, codes: IntArray | None, counts: BoolArray) -> Events:
    """Return the events of those who count, in other contexts; None for a single one."""
    if codes is not None:
        contexts = Labels.numbered(int(codes.max()) + 1)
        events = replace(events, contexts=codes, context_labels=contexts)
    return events if counts.all() else events.rows(counts[events.users])


def _tallies(events: Events, options: LearnOptions) -> Tallies:
    return tally_events(events, min_propensity=options.min_propensity).in_blocks().uniform()


def _of_levels(name: str, column: Categories, *, is_trusted: bool) -> Shape:
    """Return the partition with one leaf per level of a single category."""
    feature = Feature(name, levels=column.levels, is_trusted=is_trusted)
    codes = np.unique(feature.codes(column)).tolist()
    nodes: tuple[Split | None, ...] = (None,)
    if len(codes) > 1:
        split = Split(0, tuple((code,) for code in codes), tuple(range(1, len(codes) + 1)))
        nodes = (split, *(None for _ in codes))
    partition = Partition((feature,), nodes)
    return Shape(partition, partition.leaves({name: column}), "one leaf per level")


def _mixed_hashes(events: Events) -> HashArray:
    """Return a hash of each user's label that depends on the whole log.

    So nobody can choose a name to be in one half or fold. SplitMix64 (Steele, Lea & Flood 2014) of
    the label's hash and the log's digest.
    """
    mixed = user_hashes(events.user_labels) ^ np.uint64(digest_of(events)[0])
    mixed = mixed + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
