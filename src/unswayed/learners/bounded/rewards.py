"""Categories of rewards, and the range to which rewards are clipped.

Tallies hold the number of plays, and the mean and variance of an account's rewards in a cell.
``read_rewards`` finds the categories and the range of rewards in each context. With categories,
clicks, stars, baskets, dwell times, counts, costs and refunds have the same form of likelihood.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import special

from unswayed.arrays import CellArray, FloatArray, IntArray
from unswayed.compiled import compiled
from unswayed.engine import Blocked
from unswayed.tallies import Tallies, UserRows, UserTallies, entry_users, joined

CategoryArray = npt.NDArray[np.int8]
Rows = TypeVar("Rows", bound=UserRows)

SAMPLE_ENTRIES = 200_000
"""Categories are estimated from a sample of users with about this many entries. Logs with at most
this many entries are searched for coalitions without sampling."""

FEWEST_SAMPLED = 200
"""Smallest number of users in a sample. A context with fewer sampled entries uses categories that
are estimated from all contexts."""

MOST_ATOMS, LEAST_ATOM = 10, 0.01
"""Up to this many values, each with at least this share of the rewards, are categories if they
cover 99%."""

LONGEST_SCALE = 20.0
"""A rating scale is at most this many times as wide as the range of 96% of the accounts' means, so
that a reward of a million does not make other rewards look like a rating scale."""

DOMINANT = 0.5
"""The smallest or largest reward means no response, such as no purchase, if it has at least this
share of the rewards."""

QUANTILES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
"""Quantiles that separate the categories of all rewards but the dominant or median one."""

TAIL_QUANTILES, TAIL_EDGE = (0.4, 0.7), 2.5
"""Rewards are clipped at ``TAIL_EDGE`` standard deviations of a log-normal distribution fitted to
these quantiles of the accounts' most extreme rewards; rewards beyond are a category of their own.
Fewer than 30% of the accounts cannot move the quantiles beyond those of honest accounts."""

EXACT = 0.2
"""Smallest share of entries without variance from which the set of values is inferred."""

SAME = 1e-9
"""Values that differ by less than this, relative to their range, count as equal."""


class Reading(NamedTuple):
    """Categories and range of the rewards of each context.

    Attributes
    ----------
    edges
        Shape (n_contexts, n_categories - 1), ascending, padded with infinity.
    low, high
        Shape (n_contexts,); finite range to which rewards are clipped.
    common
        Shape (n_contexts,); dominant smallest or largest value, or NaN; the smaller of two values.
    clipped
        Share of the sampled rewards that lie outside the range.
    """

    edges: FloatArray
    low: FloatArray
    high: FloatArray
    common: FloatArray
    clipped: float

    @property
    def n_categories(self) -> int:
        """Number of categories, the same for all contexts."""
        return int(self.edges.shape[1]) + 1


def sampled_codes(tallies: UserTallies, rng: np.random.Generator, n_entries: int) -> IntArray:
    """Return the sorted codes of randomly sampled users with about ``n_entries`` entries."""
    n_users, total = tallies.n_users, int(tallies.cell_users().sum())
    if total <= n_entries:
        return np.arange(n_users)
    size = min(max(FEWEST_SAMPLED, int(n_users * n_entries / total)), n_users)
    return np.sort(rng.choice(n_users, size=size, replace=False))


def sampled_users(
    tallies: UserTallies, rng: np.random.Generator, n_entries: int
) -> tuple[Tallies, IntArray]:
    """Return the tallies and codes of randomly sampled users with about ``n_entries`` entries."""
    chosen = sampled_codes(tallies, rng, n_entries)
    return rows_of(tallies.blocks, chosen), chosen


def rows_of(blocks: Blocked[Rows], users: IntArray) -> Rows:
    """Return the rows of the given users, sorted by code."""
    is_chosen = np.zeros(blocks.n_rows, np.bool_)
    is_chosen[users] = True
    parts: list[Rows] = blocks.map_blocks(UserRows.marked, rows=is_chosen)
    return joined(parts)


def moments(tallies: Tallies) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the number of plays, mean and variance of each entry, without importance weights."""
    means = _tidied(tallies.sums / tallies.counts)
    variances = tallies.squares / tallies.counts - means * means
    variances[(tallies.plays < 1.5) | (variances <= 1e-12 * means * means)] = 0.0
    return tallies.plays, means, variances


def _tidied(values: FloatArray) -> FloatArray:
    """Round values to 44 bits, so that equal rewards have equal means."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.rint(mantissas * 2.0**44) / 2.0**44, exponents)


def read_rewards(tallies: UserTallies, rng: np.random.Generator) -> Reading:
    """Find categories and ranges of the rewards of each context."""
    sample, _ = sampled_users(tallies, rng, SAMPLE_ENTRIES)
    plays, means, variances = moments(sample)
    contexts = sample.cells // tallies.n_actions
    order = np.argsort(contexts, kind="stable")
    starts = np.searchsorted(contexts[order], np.arange(tallies.n_contexts + 1))
    pooled = _scale(plays, means, variances)
    scales = []
    for first, last in itertools.pairwise(starts.tolist()):
        own = order[first:last]
        is_own = len(own) >= FEWEST_SAMPLED
        scales.append(_scale(plays[own], means[own], variances[own]) if is_own else pooled)
    width = max((len(scale.edges) for scale in scales), default=0)
    edges = np.full((len(scales), width + 2), np.inf)
    for row, scale in zip(edges, scales, strict=True):
        row[: len(scale.edges)] = scale.edges
    centre, unit, is_open, low, high, common = (
        np.array(column) for column in zip(*(scale[1:] for scale in scales), strict=True)
    )
    if is_open.any():
        far = np.abs(means - centre[contexts]) / unit[contexts]
        edge = _tail_edge(sample, np.where(is_open[contexts], far, 0.0))
        low = np.where(is_open, centre - edge * unit, low)
        high = np.where(is_open, centre + edge * unit, high)
        edges[:, -2:] = np.where(is_open[:, None], np.stack([low, high], axis=1), np.inf)
        edges.sort(axis=1)
    margin = SAME * (high - low)
    outside = (means < (low - margin)[contexts]) | (means > (high + margin)[contexts])
    clipped = float((plays * outside).sum() / max(float(plays.sum()), 1.0))
    return Reading(edges, low, high, common, clipped)


class _Scale(NamedTuple):
    """Categories, location and scale of rewards; ``is_open`` if their range is unbounded."""

    edges: FloatArray
    centre: float
    unit: float
    is_open: bool
    low: float
    high: float
    common: float


def _scale(plays: FloatArray, means: FloatArray, variances: FloatArray) -> _Scale:
    if len(means) == 0:
        return _Scale(np.empty(0), 0.0, 1.0, False, 0.0, 1.0, np.nan)
    atoms = _two_values(means, variances)
    if atoms is not None:
        common = float(atoms[0])
        values, counts = _values(plays, means, variances, common)
    else:
        exact = means[variances == 0.0]
        if len(exact) < EXACT * len(means):
            exact = exact[:0]  # perhaps only bots have these rewards
        common = _common_end(exact, means)
        values, counts = _values(plays, means, variances, common)
        atoms = _atoms(exact if len(exact) else values)
        usual = float(np.ptp(np.quantile(means, (0.02, 0.98))))
        if atoms is not None and 0.0 < LONGEST_SCALE * usual < np.ptp(atoms):
            atoms = None
    centre = _quantiles(values, counts, (0.5,))[0] if np.isnan(common) else common
    distance = np.abs(values - centre)
    unit = float(np.average(np.minimum(distance, _quantiles(distance, counts, (0.9,))[0]))) or 1.0
    if atoms is not None:
        edges = (atoms[1:] + atoms[:-1]) / 2
        return _Scale(edges, centre, unit, False, atoms[0], atoms[-1], common)
    margin = 10 * SAME * _width(values)
    others = distance > margin
    edges = np.array([centre - margin, centre + margin])
    if others.any():
        # Edges lie slightly above values, so that rounding does not change a value's category.
        above = _quantiles(values[others], counts[others], QUANTILES) + margin
        edges = np.sort(np.append(edges, above))
        edges = edges[np.diff(edges, append=np.inf) > margin]
    return _Scale(edges, centre, unit, True, 0.0, 0.0, common)


def _two_values(means: FloatArray, variances: FloatArray) -> FloatArray | None:
    """Return the two values that explain all entries, or None if no two values do.

    If all rewards are l or h, the mean square is linear in the mean: (l + h)·mean − l·h.
    """
    exact = means[variances == 0.0]
    if len(exact) and len(np.unique(np.round(exact / _width(exact), 6))) > 2:
        return None
    centre, width = float(means.mean()), float(np.ptp(means)) + float(np.sqrt(variances.max()))
    if width <= 0.0:
        return None
    x = (means - centre) / width
    y = variances / width**2 + x * x
    first, last = int(x.argmin()), int(x.argmax())
    if x[last] - x[first] < SAME:
        return None
    slope = (y[last] - y[first]) / (x[last] - x[first])
    level = y[first] - slope * x[first]
    spread = slope * slope / 4.0 + level
    tolerance = 1e-7 + 1e-12 * (centre / width) ** 2
    if spread <= 0.0 or np.abs(y - slope * x - level).max() > tolerance:
        return None
    ends = []
    for value in (slope / 2.0 - np.sqrt(spread), slope / 2.0 + np.sqrt(spread)):
        at = centre + width * value
        near = int(np.abs(means - at).argmin())  # the logged value, without rounding errors
        is_near = variances[near] == 0.0 and abs(means[near] - at) < 1e-6 * width
        ends.append(float(means[near]) if is_near else float(at))
    return np.array(ends)


def _width(values: FloatArray) -> float:
    """Return the range of the central values, which is robust to a few distant values."""
    for tail in (0.25, 0.1, 0.02, 0.0):
        low, high = np.quantile(values, (tail, 1.0 - tail))
        if high > low:
            return float(high - low)
    return 1.0


def _common_end(exact: FloatArray, means: FloatArray) -> float:
    """Return the dominant reward if it is the smallest or largest one, otherwise NaN."""
    if len(exact) == 0:
        return np.nan
    values, counts = np.unique(exact, return_counts=True)
    common = float(values[counts.argmax()])
    is_end = (means >= common).mean() > 0.999 or (means <= common).mean() > 0.999
    return common if counts.max() >= DOMINANT * len(exact) and is_end else np.nan


def _atoms(exact: FloatArray) -> FloatArray | None:
    """Return the values of a rating scale such as stars, or None if there are too many values."""
    if len(exact) == 0 or np.ptp(exact) <= 0.0:
        return None
    width = _width(exact)
    steps, counts = np.unique(np.rint((exact - exact.min()) / (width * SAME)), return_counts=True)
    is_atom = counts >= LEAST_ATOM * len(exact)
    if (
        counts[is_atom].sum() < (1.0 - LEAST_ATOM) * len(exact)
        or not 2 <= is_atom.sum() <= MOST_ATOMS
    ):
        return None
    atoms: FloatArray = exact.min() + steps[is_atom] * (width * SAME)
    return atoms


def _values(
    plays: FloatArray, means: FloatArray, variances: FloatArray, common: float
) -> tuple[FloatArray, FloatArray]:
    """Return two values for each entry, and their weights, which sum to one for each entry."""
    first, n_first, second = split_entries(plays, means, variances, common)
    shares = n_first / plays
    return np.concatenate([first, second]), np.concatenate([shares, 1.0 - shares])


@compiled
def split_entries(
    plays: FloatArray, means: FloatArray, variances: FloatArray, common: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Split every entry: return the first values, their numbers of plays, and the second values."""
    n = len(plays)
    first, n_first, second = np.empty(n), np.empty(n), np.empty(n)
    for p in range(n):
        first[p], n_first[p], second[p] = split(plays[p], means[p], variances[p], common)
    return first, n_first, second


@compiled
def split(n: float, mean: float, variance: float, common: float) -> tuple[float, float, float]:
    """Return two values with the mean and variance of n plays, and the plays of the first.

    The values are exact for equal rewards and for at most two plays. If there is a dominant value
    at one end, all other rewards of an entry are assumed to be equal.
    """
    if variance <= 0.0:
        return mean, n, mean
    if not np.isnan(common):
        far = mean - common
        # Round halves down with a tolerance, so that the unit of rewards does not matter.
        n_other = np.floor(n * far * far / (variance + far * far) + (0.5 - SAME))
        n_other = min(max(n_other, 1.0), n)
        return common, n - n_other, common + n * far / n_other
    deviation = np.sqrt(variance)
    return mean - deviation, n / 2.0, mean + deviation


def _quantiles(
    values: FloatArray, counts: FloatArray, levels: tuple[float, ...] | FloatArray
) -> FloatArray:
    """Return weighted quantiles."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(counts[order])
    places = np.searchsorted(total, (np.asarray(levels) - SAME) * total[-1])
    found: FloatArray = values[order][np.minimum(places, len(values) - 1)]
    return found


def _tail_edge(sample: Tallies, far: FloatArray) -> float:
    """Return the distance from the centre at which rewards are clipped, in units of the context."""
    farthest = np.zeros(sample.n_users)
    np.maximum.at(farthest, entry_users(sample.indptr), far)
    farthest = farthest[farthest > SAME]
    if len(farthest) == 0:
        return 1.0
    low, high = np.log(np.quantile(farthest, TAIL_QUANTILES))
    z_low, z_high = special.ndtri((1.0 + np.array(TAIL_QUANTILES)) / 2.0)
    steepness = max(high - low, 0.1) / (z_high - z_low)
    return float(np.exp(high + steepness * (TAIL_EDGE - z_high)))


@dataclass(frozen=True, slots=True, eq=False)
class Responses(UserRows):
    """Accounts' rewards as categories; all columns have one value per entry.

    Attributes
    ----------
    indptr, cells, plays
        As in the tallies.
    means, squares
        Mean of the clipped rewards, and of their squares.
    first, second, n_first
        The two categories of an entry's rewards, and the number of plays in the first.
    masses
        Effective plays; empty until ``weighed`` computes them.
    """

    columns: ClassVar = ("plays", "means", "squares", "first", "second", "n_first", "masses")

    indptr: IntArray
    cells: CellArray
    plays: FloatArray
    means: FloatArray
    squares: FloatArray
    first: CategoryArray
    second: CategoryArray
    n_first: FloatArray
    masses: FloatArray = field(default_factory=lambda: np.empty(0))

    def scores(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each entry's sums of scores and squares, given a table by cell and category."""
        one, two = table[self.cells, self.first], table[self.cells, self.second]
        n_two = self.plays - self.n_first
        return self.n_first * one + n_two * two, self.n_first * one**2 + n_two * two**2


def read(tallies: Tallies, reading: Reading) -> Responses:
    """Return the rewards of a block of accounts as categories."""
    plays, means, variances = moments(tallies)
    columns = _read(tallies.cells, plays, means, variances, tallies.n_actions, reading)
    return Responses(tallies.indptr, tallies.cells, plays, *columns)


@compiled
def _read(
    cells: CellArray,
    plays: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    n_actions: int,
    reading: Reading,
) -> tuple[FloatArray, FloatArray, CategoryArray, CategoryArray, FloatArray]:
    n = len(cells)
    mean, square, n_first = np.empty(n), np.empty(n), np.empty(n)
    first, second = np.empty(n, np.int8), np.empty(n, np.int8)
    for p in range(n):
        s = cells[p] // n_actions
        low, high = reading.low[s], reading.high[s]
        one, n_one, two = split(plays[p], means[p], variances[p], reading.common[s])
        first[p], second[p] = _category(reading.edges[s], one), _category(reading.edges[s], two)
        one, two = min(max(one, low), high), min(max(two, low), high)
        share = n_one / plays[p]
        n_first[p] = n_one
        mean[p] = share * one + (1.0 - share) * two
        square[p] = share * one * one + (1.0 - share) * two * two
    return mean, square, first, second, n_first


@compiled
def _category(edges: FloatArray, value: float) -> int:
    k = 0
    while k < len(edges) and value > edges[k]:
        k += 1
    return k


def category_counts(rows: Responses, weights: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Return effective plays by cell and category; shape (n_cells, n_categories)."""
    worth = weights[entry_users(rows.indptr)] * rows.masses / rows.plays
    counts = np.zeros(shape[0] * shape[1])
    for category, n in ((rows.first, rows.n_first), (rows.second, rows.plays - rows.n_first)):
        place = rows.cells.astype(np.int64) * shape[1] + category
        counts += np.bincount(place, worth * n, len(counts))
    return counts.reshape(shape)
