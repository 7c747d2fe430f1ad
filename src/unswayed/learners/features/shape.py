"""The shape of a partition: screened users, advice, candidate trees, and a choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError, option
from unswayed.events import Events, Labels
from unswayed.events.attributes import AttributeColumn, Categories
from unswayed.events.hashing import HashArray, bits, row_hashes, user_hashes
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
from unswayed.policy.partition import ADVICE, Feature, Nodes, Partition, Split
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


#: Ours: probability of a note on leaves that mix what the logging policy told apart, if none does.
MIXED = 0.01


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to partition: a tree, or a single split by the advised action.

    ``strictness`` is the multiple of the chi-square bound that splits exceed, ``floor`` the share
    of the users, in units of alpha, that a leaf needs.
    """

    name: str
    strictness: float = 1.0
    floor: float = 1.0
    is_advised: bool = False


#: Ours: what is compared with one leaf for everybody.
CANDIDATES = (
    Candidate("tree, strict", strictness=2.0),
    Candidate("tree"),
    Candidate("tree, small leaves", floor=0.0),
    Candidate("advice", floor=0.0, is_advised=True),
)
ONE_LEAF = "one leaf"


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A partition and how it was chosen."""

    partition: Partition
    chosen: str  # name of the candidate
    # Cross-fitted gain of each candidate over the best single action, and its standard error.
    gains: dict[str, tuple[float, float]] = field(default_factory=dict)
    shaped_by: BoolArray | None = None  # shape (n_users,); who had a say in the shape
    n_mixed: int = 0  # leaves in which rewards go with propensities

    def to_json(self) -> dict[str, Any]:
        """Return how the partition was chosen, as plain JSON values."""
        return {
            "chosen": self.chosen,
            "n_leaves": len(self.partition.labels),
            "gains": {name: list(gain) for name, gain in self.gains.items()},
        }


def stored_shape(
    partition: Mapping[str, Any] | None, folder: Any, options: LearnOptions, *, has_log: bool
) -> Shape | None:
    """Return the shape of a folder of tallies, None without features; refuse other features.

    ``has_log`` is whether a log is to be added; otherwise the folder says what the features are.
    """
    shape = None if partition is None else Shape(Partition.from_json(partition), "of the tallies")
    names = () if shape is None else shape.partition.names
    asked, given = options.columns.features, options.partition
    if asked != names and (has_log or asked):
        made_with = f"{option('--features')} {','.join(names)}" if names else "context columns"
    elif shape is not None and given is not None and given.hash != shape.partition.hash:
        made_with = "another partition of the features"
    else:
        return shape
    raise InputError(
        f"the tallies in {folder} were made with {made_with}; use the same, or a new folder."
    )


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
    order = _fixed_order(events, columns)
    events, columns = events.rows(order), {name: columns[name][order] for name in columns}
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
    tallies = _tallies(events, weights > 0, options)
    alpha = options.alpha
    if alpha == "auto":
        alpha = estimate_fraction(tallies).chosen
    if alpha > 0.0:
        design = design_of_log(tallies, options.design)
        weights *= method_named(options.method)(tallies, design, alpha=alpha).user_weights
    on_step("shaping")
    features = fitted_features(columns, events, weights, options.trusted)
    rows = Rows.of(events, encoded(features, columns), base * weights[events.users])
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
    n_mixed = 0
    if events.propensities is not None:
        n_mixed = _n_mixed(in_leaves_of(partition, events, columns), weights)
    return Shape(partition, chosen, gains, shaped_by, n_mixed)


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

    def best(self) -> tuple[Nodes, str, dict[str, tuple[float, float]]]:
        """Return the nodes of the best candidate, its name, and the gains of all."""
        everybody = np.ones(len(self.rows.actions), np.bool_)
        usable = self.features[: self.n_usable]
        grower = Grower(self.rows, usable, self.user_weights, self.effect)
        trees: dict[str, Nodes] = {ONE_LEAF: (None,)}
        gains = {ONE_LEAF: (0.0, 0.0)}
        for candidate in CANDIDATES:
            nodes = self._grown(grower, candidate, everybody, 1.0)
            if nodes not in trees.values():
                trees[candidate.name] = nodes
                gains[candidate.name] = self._gain(grower, candidate)
        chosen = max(gains, key=lambda name: gains[name][0] - CAUTION * gains[name][1])
        return trees[chosen], chosen, gains

    def _grown(
        self, grower: Grower, candidate: Candidate, selected: BoolArray, share: float
    ) -> Nodes:
        """Grow a tree on some events, or split them by the advice."""
        growth = Growth(
            max_leaves=self.max_leaves,
            min_users=share * max(MIN_USERS, candidate.floor * self.alpha_users),
            trusted_users=share * MIN_USERS,
            strictness=candidate.strictness,
        )
        if not candidate.is_advised:
            return grower.grow(growth, selected)
        return (None,) if self.advice is None else grower.by_codes(self.advice, growth, selected)

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
                of_pair = w_out[:, pair].sum(axis=0)
                centre = r_out[:, pair].sum(axis=0) / of_pair
                spread = np.maximum(s_out[:, pair].sum(axis=0) / of_pair - centre**2, 1e-12)
                gain += of_leaf[leaf] * (mean[0] - mean[1])
                variance += of_leaf[leaf] ** 2 * float(
                    (spread * q_out[leaf, pair] / weight**2).sum()
                )
        return gain / max(total, 1e-9), float(np.sqrt(self.effect * variance)) / max(total, 1e-9)


def _n_mixed(events: Events, weights: FloatArray) -> int:
    """Return in how many contexts rewards go with the propensity of their action.

    There an action has no single mean. In each cell the covariance of rewards and propensities,
    summed by user and divided by the root of the sum of squares, is compared with the bound
    P(|z| > x) ≤ 2 exp(−x²/2) for symmetric sums (Efron 1969), corrected for all cells.
    """
    assert events.propensities is not None
    n_cells = events.n_contexts * events.n_actions
    cells = events.contexts * events.n_actions + events.actions
    products = weights[events.users]
    mass = np.maximum(np.bincount(cells, products, n_cells), 1e-12)
    for values in (events.rewards, events.propensities):
        means = np.bincount(cells, weights[events.users] * values, n_cells) / mass
        products = products * (values - means[cells])
    pairs, places = np.unique(events.users.astype(np.int64) * n_cells + cells, return_inverse=True)
    sums = np.bincount(places, products)
    total = np.bincount(pairs % n_cells, sums, n_cells)
    squares = np.bincount(pairs % n_cells, sums**2, n_cells)
    is_mixed = total**2 > 2.0 * np.log(2.0 * n_cells / MIXED) * np.maximum(squares, 1e-24)
    return int(is_mixed.reshape(-1, events.n_actions).any(axis=1).sum())


def _leaves(nodes: Nodes, features: tuple[Feature, ...], rows: Rows) -> tuple[IntArray, int]:
    tree = Partition(features, nodes)
    leaves = tree.leaves_of_codes(list(rows.codes.T))
    # Codes that the growing folds lack: with the first leaf, which does no harm to the others.
    return np.maximum(leaves, 0), len(tree.labels)


def _tallies(events: Events, counts: BoolArray, options: LearnOptions) -> Tallies:
    """Return tallies by action of those who count."""
    counted = events if counts.all() else events.rows(counts[events.users])
    return tally_events(counted, min_propensity=options.min_propensity).in_blocks().uniform()


def _of_levels(name: str, column: Categories, *, is_trusted: bool) -> Shape:
    """Return the partition with one leaf per level of a single category."""
    feature = Feature(name, levels=column.levels, is_trusted=is_trusted)
    codes = np.unique(feature.codes(column)).tolist()
    nodes: tuple[Split | None, ...] = (None,)
    if len(codes) > 1:
        split = Split(0, tuple((code,) for code in codes), tuple(range(1, len(codes) + 1)))
        nodes = (split, *(None for _ in codes))
    partition = Partition((feature,), nodes)
    return Shape(partition, "one leaf per level")


def _fixed_order(events: Events, columns: Mapping[str, AttributeColumn]) -> IntArray:
    """Return the rows by user and a hash of their values.

    So sums are the same to the last bit, however the log was ordered and cut into files.
    """
    values = [events.actions.astype(np.uint64), bits(events.rewards)]
    if events.propensities is not None:
        values.append(bits(events.propensities))
    for column in columns.values():
        if isinstance(column, Categories):
            values.append(column.codes.astype(np.uint64))
        else:
            values.append(bits(column))
    hashes = row_hashes(np.stack(values), np.zeros(len(events), np.uint64))
    return np.lexsort((hashes, events.users))


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
