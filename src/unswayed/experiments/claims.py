"""Claims of the paper with statistics, intervals and verdicts, and the tests that judge them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy import stats

from unswayed.arrays import FloatArray
from unswayed.experiments.results import Results
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.policy.documents import json_number
from unswayed.randomness import generator

LEVEL = 0.95  # Ours: the usual level of intervals, joint over all comparisons of a claim
RESAMPLES = 2000  # Ours: bootstrap resamples of the repetitions
FEWEST = 5  # Ours: with fewer repetitions, no verdict is given


class Verdict(StrEnum):
    """Verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not resolved"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement that results can contradict.

    ``name`` is unique within the experiment. ``statistic`` describes what was computed and, if
    there are several comparisons, which is the worst; value and interval are None if undefined.
    """

    name: str
    statement: str
    statistic: str
    estimate: float | None
    low: float | None
    high: float | None
    verdict: Verdict


def mean_interval(values: FloatArray, *, level: float = LEVEL) -> tuple[float, float]:
    """Return Student's interval for the mean of independent repetitions; NaN for fewer than two.

    >>> low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    n = values.size
    if n < 2:
        return float("nan"), float("nan")
    half = stats.t.isf((1 - level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return float(values.mean() - half), float(values.mean() + half)


def all_positive(
    name: str, statement: str, comparisons: Mapping[str, FloatArray], *, margin: float = 0.0
) -> Claim:
    """Test that every comparison has a mean above ``-margin``.

    Comparisons are differences in each repetition, shape (n_repetitions,), of paired runs in the
    same world. Bonferroni-corrected intervals hold jointly with probability 0.95. The claim holds
    if all lie above the margin, fails if one lies below it, and is open otherwise. The reported
    comparison is the decisive one: the smallest upper end if the claim fails, the smallest lower
    end otherwise.
    """
    n = len(comparisons)
    level = 1 - (1 - LEVEL) / n
    intervals = {label: mean_interval(diff, level=level) for label, diff in comparisons.items()}
    failed = [label for label, (_, high) in intervals.items() if high < -margin]
    end = 1 if failed else 0
    decided = min(failed or intervals, key=lambda label: intervals[label][end])
    low, high = intervals[decided]
    verdict = Verdict.FAILS if failed else Verdict.HOLDS if low > -margin else Verdict.OPEN
    failures = f"; {len(failed)} fail" if len(failed) > 1 else ""
    return Claim(
        name,
        statement,
        decided if n == 1 else f"{decided} (1 of {n} comparisons{failures})",
        float(comparisons[decided].mean()),
        json_number(low),
        json_number(high),
        Verdict.OPEN if len(comparisons[decided]) < FEWEST else verdict,
    )


def resampled(
    name: str,
    statement: str,
    statistic: str,
    values: FloatArray,
    compute: Callable[[FloatArray], float],
    *,
    above: float = -np.inf,
    below: float = np.inf,
) -> Claim:
    """Test that a statistic of the repetitions lies between two numbers.

    ``compute`` takes arrays like ``values``, shape (n_repetitions, ...), and may return NaN. The
    interval is the bootstrap percentile interval. The claim holds if the interval lies within the
    range, fails if it lies outside, and is open otherwise.
    """
    estimate = compute(values)
    low = high = float("nan")
    if len(values) >= FEWEST and np.isfinite(estimate):
        rng = generator(0, "bootstrap", name)
        draws = np.array(
            [compute(values[rng.integers(len(values), size=len(values))]) for _ in range(RESAMPLES)]
        )
        # If the statistic is undefined in many resamples, the claim stays open.
        if np.isfinite(draws).mean() > LEVEL:
            low, high = map(float, np.nanquantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    verdict = Verdict.OPEN
    if low >= above and high <= below:
        verdict = Verdict.HOLDS
    elif high < above or low > below:
        verdict = Verdict.FAILS
    interval = json_number(low), json_number(high)
    return Claim(name, statement, statistic, json_number(estimate), *interval, verdict)


def contains(claim: Claim, target: float, *, widest: float) -> Claim:
    """Return the claim, judged by whether a sufficiently short interval contains a number."""
    # Repetitions that are identical up to rounding give no interval.
    if claim.low is None or claim.high is None or claim.high - claim.low < 1e-12:
        verdict = Verdict.OPEN
    elif not claim.low <= target <= claim.high:
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.HOLDS if claim.high - claim.low <= widest else Verdict.OPEN
    return replace(claim, verdict=verdict)


def log_slope(xs: FloatArray, means: FloatArray) -> float:
    """Return the least-squares slope of log mean against log x; NaN where it is not defined.

    >>> round(log_slope(np.array([1.0, 2.0, 4.0]), np.array([4.0, 2.0, 1.0])), 6)
    -1.0
    """
    if xs.size < 2 or (means <= 0).any():
        return float("nan")
    return float(np.polyfit(np.log(xs), np.log(means), 1)[0])


Judge = Callable[[Results], Claim]
# A difference that should be positive, from (results, algorithm, series, x), per repetition
Difference = Callable[[Results, str, str, float], FloatArray]
NAIVE = ("naive-ucb", "independent-ucb")  # The paper's two naive approaches
MARGIN = 0.03  # Ours: a tenth of the paper's gap; smaller differences count as none
ROOT_SLOPE = -0.45  # Ours: the largest accepted slope, -1/2 plus a tolerance of a tenth
WIDEST = 0.5  # Ours: a wider interval for the slope gives no verdict


def compared(
    name: str, statement: str, statistic: str, difference: Callable[[Results], FloatArray]
) -> Judge:
    """Return a test of the claim that one difference has a positive mean."""
    return lambda results: all_positive(name, statement, {statistic: difference(results)})


def everywhere(
    name: str,
    statement: str,
    label: str,
    difference: Difference,
    *,
    of: Iterable[str] = ("paper",),
    series: Iterable[str] = (),
    at: Callable[[str, float], bool] = lambda _series, _x: True,
    margin: float = 0.0,
) -> Judge:
    """Return a test of the claim that a difference has a mean above ``-margin`` at all points.

    ``label`` formats the name of a comparison from ``{name}``, ``{series}`` and ``{x}``; ``of``,
    ``series`` (default: all) and ``at`` select the comparisons.
    """
    names, chosen = tuple(of), tuple(series)

    def judge(results: Results) -> Claim:
        differences = {
            label.format(name=algorithm, series=one, x=x): difference(results, algorithm, one, x)
            for algorithm in names
            if algorithm in results.algorithms
            for one in chosen or results.series
            for x in results.curve(algorithm, one).xs
            if at(one, x)
        }
        return all_positive(name, statement, differences, margin=margin)

    return judge


def minus(first: str, second: str) -> Difference:
    """Return the difference of two algorithms' values."""
    return lambda r, _name, s, x: r.at(first, x, s) - r.at(second, x, s)


def paper_beats(
    symbol: str,
    *,
    name: str = "beats-naive",
    statement: str | None = None,
    rivals: Iterable[str] = NAIVE,
    series: str = "",
    above: float = -np.inf,
    up_to: float = np.inf,
) -> Judge:
    """Test that Robust MCB loses less than every rival at all points with above < x <= up_to."""
    return everywhere(
        name,
        statement or f"Robust MCB beats both naive approaches at every {symbol}.",
        f"{{name}} minus paper at {symbol}={{x:g}}",
        lambda r, rival, s, x: r.at(rival, x, s) - r.at("paper", x, s),
        of=rivals,
        series=(series,),
        at=lambda _, x: above < x <= up_to,
    )


def own_is_no_worse(
    symbol: str, *, series: str = "", up_to: float = np.inf, name: str = "own-is-no-worse"
) -> Judge:
    """Test that the project's own learner loses no more than Robust MCB, up to the margin."""
    limit = f" up to {up_to:g}" if up_to < np.inf else ""
    where = f" ({series})" if series else ""
    return everywhere(
        name,
        f"Ours ({DEFAULT_METHOD}) loses no more than Robust MCB at any {symbol}{limit}{where}.",
        f"paper minus ours at {symbol}={{x:g}}",
        lambda r, paper, s, x: r.curve(paper, s).minus(r.curve(DEFAULT_METHOD, s), x),
        series=(series,),
        at=lambda _, x: x <= up_to,
        margin=MARGIN,
    )


def slope(
    name: str,
    statement: str,
    series: str = "",
    *,
    algorithm: str = "paper",
    quantile: float | None = None,
    means: tuple[float, float] = (-np.inf, np.inf),
    is_exact: bool = False,
) -> Judge:
    """Test the log-log slope of an algorithm's mean error, or of a quantile of its errors.

    Errors should decrease at least like 1/sqrt(x); with ``is_exact``, exactly like it. Only points
    with a mean in the range ``means`` are used.
    """
    of = "" if quantile is None else f"of the {quantile:.0%} quantile "

    def judge(results: Results) -> Claim:
        curve = results.curve(algorithm, series)
        chosen = (curve.means >= means[0]) & (curve.means <= means[1])
        xs = curve.xs[chosen]

        def fitted(values: FloatArray) -> float:
            errors: FloatArray = values.mean(axis=0)
            if quantile is not None:
                errors = np.quantile(values, quantile, axis=0)
            return log_slope(xs, errors)

        where, below = f"all points; at most {ROOT_SLOPE:g}", ROOT_SLOPE
        if is_exact:
            where, below = f"T/L in {', '.join(f'{x:g}' for x in xs) or 'none'}", np.inf
        statistic = f"log-log slope {of}over {where}"
        claim = resampled(name, statement, statistic, curve.values[:, chosen], fitted, below=below)
        return contains(claim, -0.5, widest=WIDEST) if is_exact else claim

    return judge


def does_not_degrade(
    name: str,
    statement: str,
    symbol: str,
    *,
    start: float,
    up_to: float = np.inf,
    algorithm: str = "paper",
) -> Judge:
    """Test that an algorithm loses no more beyond ``start`` than at ``start``, up to the margin."""

    def judge(results: Results) -> Claim:
        curve = results.curve(algorithm)
        first = float(curve.xs[curve.xs >= start][0])
        losses = {
            f"loss at {symbol}={first:g} minus loss at {symbol}={x:g}": curve.at(first)
            - curve.at(x)
            for x in curve.xs
            if first < x <= up_to
        }
        return all_positive(name, statement, losses, margin=MARGIN)

    return judge
