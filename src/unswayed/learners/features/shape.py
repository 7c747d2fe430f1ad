"""Learn a partition: screen users, fit advice, grow candidate trees and choose one of them.

The module also adds the partition to a policy, with intervals that are not biased by its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.errors import InputError, option
from unswayed.events import Events, Labels
from unswayed.events.attributes import AttributeColumn, Categories, typed
from unswayed.events.hashing import HashArray, bits, row_hashes, user_hashes
from unswayed.events.known import KnownAccounts
from unswayed.learners.design import design_of_log
from unswayed.learners.features.advice import cross_fitted_advice
from unswayed.learners.features.encoding import Rows, encoded, event_weights, fitted_features
from unswayed.learners.features.trees import Grower, Growth, design_effect
from unswayed.learners.learning import learn_policy
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.options import LearnOptions
from unswayed.learners.unknown_fraction import estimate_fraction
from unswayed.policy import Policy
from unswayed.policy.partition import ADVICE, Feature, Nodes, Partition, single_split
from unswayed.tallies import Tallies, tally_events
from unswayed.tallies.log_data import PreparedLog, digest_of

#: Ours: minimum number of users per leaf, whatever alpha is.
MIN_USERS = 60

#: Ours: number of folds of users for cross-fitting.
N_FOLDS = 3

#: Ours: prior plays that shrink the means of a leaf to those of the log when candidates are
#: compared.
_SHRUNKEN_BY = 20.0

#: Ours: probability that half of the users contain more colluders than honest intervals allow for.
DELTA = 0.05

#: Ours: probability of a false note on leaves that mix contexts of the logging policy.
MIXED = 0.01

ONE_LEAF = "one leaf"

#: Ours: candidates, each with the minimum share of the users per leaf in units of alpha.
CANDIDATES = {"tree": 1.0, "tree, small leaves": 0.0, ADVICE: 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A partition and how it was chosen."""

    partition: Partition
    chosen: str  # name of the candidate
    # Cross-fitted gain of each candidate over the best single action.
    gains: dict[str, float] = field(default_factory=dict)
    shaped_by: BoolArray | None = None  # shape (n_users,); users whose data shaped the partition
    n_mixed: int = 0  # leaves in which rewards correlate with propensities

    def to_json(self) -> dict[str, Any]:
        """Return how the partition was chosen, as plain JSON values."""
        n_leaves = len(self.partition.labels)
        return {"chosen": self.chosen, "n_leaves": n_leaves, "gains": self.gains}


def stored_shape(
    partition: Mapping[str, Any] | None, folder: Any, options: LearnOptions, *, has_log: bool
) -> Shape | None:
    """Return the shape that a folder of tallies was made with, or None without features.

    Other features are rejected. Unless a log is added (``has_log``), none need to be given.
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


#: Context of events whose attribute values are unknown to the partition.
NO_LEAF = "(no leaf)"


def in_leaves_of(
    partition: Partition,
    events: Events,
    columns: Mapping[str, AttributeColumn],
    *,
    is_learned_from: bool = False,
) -> Events:
    """Return events with the leaves of a partition as contexts.

    Events without a leaf get the context ``NO_LEAF``; if ``is_learned_from``, they are dropped.
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
    """Learn a partition of attributes from a log that some users may have forged.

    Parameters
    ----------
    events, columns
        The log, and its attributes: one value per event each.
    options
        Alpha, the method, which also screens the users, and the options on features.
    on_step
        Called with "screening" and "shaping".

    Notes
    -----
    A single category has one leaf per level, without a limit. Otherwise both sides of a split need
    ``MIN_USERS`` users, and for attributes that are not trusted also a share alpha of all users,
    unless smaller leaves gain more on held-out users.
    """
    columns = typed(columns)
    if len(columns) == 1:
        ((name, column),) = columns.items()
        if isinstance(column, Categories):
            feature = Feature(name, levels=column.levels, is_trusted=name in options.trusted)
            branches = [[code] for code in np.unique(feature.codes(column)).tolist()]
            nodes = single_split(0, branches)
            return Shape(Partition((feature,), nodes), "one leaf per level")
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
    on_step("screening")
    counted = events.rows(weights[events.users] > 0)
    tallied = tally_events(counted, min_propensity=options.min_propensity)
    tallies, alpha = tallied.in_blocks().uniform(), options.alpha
    if alpha == "auto":
        alpha = estimate_fraction(tallies).chosen
    if alpha > 0.0:
        design = design_of_log(tallies, options.design)
        weights *= method_named(options.method)(tallies, design, alpha=alpha).user_weights
    on_step("shaping")
    features = fitted_features(columns, events, weights, options.trusted)
    base = event_weights(events, options.min_propensity)
    rows = Rows(events, encoded(features, columns), base * weights[events.users])
    effect = design_effect(rows)
    folds = ((hashes >> np.uint64(20)) % np.uint64(N_FOLDS)).astype(np.int64)
    model, place = None, None
    if options.advice == "auto":
        fitted = cross_fitted_advice(features, columns, rows, folds)
        if fitted is not None:
            model, advised = fitted
            codes = np.column_stack([rows.codes, advised.astype(np.uint8)])
            rows, place = replace(rows, codes=codes), len(features)
    elif options.advice != "off":
        place = list(columns).index(options.advice)
    grower, alpha_users = Grower(rows, features, weights, effect), alpha * float(weights.sum())
    offered = Partition(features, advice=model).all_features
    choice = _Choice(grower, offered, folds, options.max_leaves, alpha_users, place)
    nodes, chosen, gains = choice.best()
    uses_advice = any(node is not None and node.feature == len(features) for node in nodes)
    partition = Partition(features, nodes, model if uses_advice else None)
    n_mixed = _n_mixed(in_leaves_of(partition, events, columns), weights)
    return Shape(partition, chosen, gains, shaped_by, n_mixed)


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Candidate partitions, compared by their value for held-out users."""

    grower: Grower
    features: tuple[Feature, ...]  # including the advice
    folds: IntArray
    max_leaves: int
    alpha_users: float
    advice: int | None

    def best(self) -> tuple[Nodes, str, dict[str, float]]:
        """Return the nodes of the best candidate, its name, and the gains of all."""
        everybody = np.ones(len(self.grower.rows.weights), np.bool_)
        trees: dict[str, Nodes] = {ONE_LEAF: (None,)}
        gains = {ONE_LEAF: 0.0}
        for name in CANDIDATES:
            nodes = self._grown(name, everybody, 1.0)
            if nodes not in trees.values():
                trees[name], gains[name] = nodes, self._gain(name)
        chosen = max(gains, key=lambda name: gains[name])
        return trees[chosen], chosen, gains

    def _grown(self, name: str, selected: BoolArray, share: float) -> Nodes:
        """Grow a candidate on the selected events, which are from this share of the users."""
        fewest = share * max(MIN_USERS, CANDIDATES[name] * self.alpha_users)
        growth = Growth(self.max_leaves, fewest, share * MIN_USERS)
        if name != ADVICE:
            return self.grower.grow(growth, selected)
        if self.advice is None:
            return (None,)
        return self.grower.by_codes(self.advice, growth, selected)

    def _gain(self, name: str) -> float:
        """Return the cross-fitted gain over the best single action.

        In each leaf this is the held-out mean of the action chosen on the other folds, minus that
        of the single action that was best on them, weighted by the leaf's share.
        """
        rows, events = self.grower.rows, self.grower.rows.events
        gain = total = 0.0
        for fold in range(N_FOLDS):
            is_held_out = self.folds[events.users] == fold
            nodes = self._grown(name, ~is_held_out, (N_FOLDS - 1) / N_FOLDS)
            tree = Partition(self.features, nodes)
            # Codes that the other folds lack are assigned to an arbitrary leaf.
            leaves = np.maximum(tree.leaves_of_codes(list(rows.codes.T)), 0)
            shape = 2, len(tree.labels), events.n_actions
            cells = np.ravel_multi_index((is_held_out.astype(int), leaves, events.actions), shape)
            (weight, held_out), (reward, held_out_reward) = (
                np.bincount(cells, values, shape[0] * shape[1] * shape[2]).reshape(shape)
                for values in (rows.weights, rows.weights * events.rewards)
            )
            overall = reward.sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-9)
            played = ((reward + _SHRUNKEN_BY * overall) / (weight + _SHRUNKEN_BY)).argmax(axis=1)
            at, single = np.arange(len(played)), int(overall.argmax())
            means = held_out_reward / np.where(held_out > 0, held_out, np.nan)
            # A leaf in which held-out users lack one of the two actions is uninformative.
            lead = np.nan_to_num(means[at, played] - means[:, single])
            gain += float(held_out.sum(axis=1) @ lead)
            total += float(held_out.sum())
        return gain / max(total, 1e-9)


def _n_mixed(events: Events, weights: FloatArray) -> int:
    """Return the number of contexts in which rewards correlate with propensities.

    In such a context an action has no single mean reward. The statistic z of a cell is the sum over
    users of their covariance of rewards and propensities, divided by the root of the sum of
    squares. It is compared with the bound P(|z| > x) ≤ 2 exp(−x²/2) for symmetric sums (Efron
    1969), corrected for the number of cells.
    """
    if events.propensities is None:
        return 0
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


def _fixed_order(events: Events, columns: Mapping[str, AttributeColumn]) -> IntArray:
    """Return the rows ordered by user and a hash of their values.

    Sums then do not depend, to the last bit, on the order of the log and its division into files.
    """
    values = [events.actions.astype(np.uint64), bits(events.rewards)]
    if events.propensities is not None:
        values.append(bits(events.propensities))
    values += [
        column.codes.astype(np.uint64) if isinstance(column, Categories) else bits(column)
        for column in columns.values()
    ]
    hashes = row_hashes(np.stack(values), np.zeros(len(events), np.uint64))
    return np.lexsort((hashes, events.users))


def _mixed_hashes(events: Events) -> HashArray:
    """Return a hash of each user's label that depends on the whole log.

    Users therefore cannot choose a name that puts them into a certain half or fold.
    """
    digest = np.full(events.n_users, digest_of(events)[0], np.uint64)
    return row_hashes(user_hashes(events.user_labels)[None], digest)


def larger_share(alpha: float, n_users: int) -> float:
    """Return an upper bound on the share of colluders in half of the users, at level ``DELTA``.

    By Hoeffding's inequality for draws without replacement, as the half is drawn by a hash that
    depends on the whole log: alpha + sqrt(log(1/δ)/n_users).

    >>> round(larger_share(0.1, 10_000), 3)
    0.117
    """
    share = alpha + float(np.sqrt(np.log(1.0 / DELTA) / n_users))
    if share >= 0.5:
        raise InputError(
            f"{n_users:,} users are too few for {option('--honest')} with alpha = {alpha:g}; leave "
            "it out, or learn from more users."
        )
    return share


def with_partition(policy: Policy, log: PreparedLog, options: LearnOptions) -> tuple[Policy, str]:
    """Return the policy with its partition, and a note on how that was chosen.

    In honest mode means and intervals are those of users whose data did not shape the partition,
    with a larger alpha; decisions still use all users.
    """
    shape: Shape = log.shape
    policy = replace(policy, partition=shape.partition)
    n_leaves = len(policy.context_labels)
    note = (
        f"contexts were learned from {', '.join(shape.partition.names)}: {n_leaves:,} "
        f"{'leaf' if n_leaves == 1 else 'leaves'} ({shape.chosen})."
    )
    if shape.n_mixed and options.method == DEFAULT_METHOD:
        note += (
            f" In {shape.n_mixed:,} of them rewards go with the propensity of their action, so its "
            "mean is that of visits for which the logging policy preferred it: add what that used "
            "to the features, or learn with --method paper, which weights events."
        )
    source = {**policy.source, "shape": shape.to_json()}
    if shape.shaped_by is not None:
        tallies = log.tallies
        assert isinstance(tallies, Tallies)  # a cluster rejects the option honest
        share = larger_share(policy.alpha, tallies.n_users)
        others = np.flatnonzero(~shape.shaped_by)
        half = replace(tallies, bounds=()).of_users(others)
        apart = learn_policy(
            half,
            replace(design_of_log(half, options.design), rewards=options.rewards),
            alpha=share,
            method=options.method,
        ).policy
        policy = replace(
            policy,
            mean_rewards=apart.mean_rewards,
            low=apart.low,
            high=apart.high,
            sampling_errors=apart.sampling_errors,
            is_excluded=None,
            decisions=policy.actions,
        )
        source["honest"] = {"users": len(others), "alpha": share, "delta": DELTA}
        note += (
            f" Means and intervals are those of {len(others):,} users who had no say in that, and "
            f"allow for a share {share:.3g} of colluders; decisions are those of all users."
        )
    return replace(policy, source=source), note
