from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unswayed.experiments.claims import (
    FEWEST,
    Verdict,
    all_positive,
    contains,
    mean_interval,
    resampled,
)


def mean_of(values: np.ndarray) -> float:
    return float(values.mean())


def test_intervals_for_a_mean_contain_it_as_often_as_they_say(rng: np.random.Generator) -> None:
    """The misses of 2000 intervals at 95 % are binomial; five standard errors are 0.0244."""
    draws = rng.standard_normal((2000, 10))
    hits = [low <= 0 <= high for low, high in map(mean_interval, draws)]
    assert np.mean(hits) == pytest.approx(0.95, abs=5 * np.sqrt(0.05 * 0.95 / 2000))


@pytest.mark.parametrize(
    ("shifts", "margin", "verdict"),
    [
        ((1.0, 2.0), 0.0, Verdict.HOLDS),
        ((1.0, -2.0), 0.0, Verdict.FAILS),
        ((1.0, 0.0), 0.0, Verdict.OPEN),
        ((1.0, -0.5), 2.0, Verdict.HOLDS),
        ((1.0, -5.0), 2.0, Verdict.FAILS),
    ],
)
def test_one_failed_comparison_fails_the_claim_and_one_unclear_one_leaves_it_open(
    shifts: tuple[float, ...], margin: float, verdict: Verdict
) -> None:
    noise = np.linspace(-0.1, 0.1, 20)
    claim = all_positive("n", "s", {str(shift): noise + shift for shift in shifts}, margin=margin)
    assert claim.verdict is verdict
    assert claim.estimate == pytest.approx(min(shifts))
    assert claim.low is not None
    assert claim.high is not None
    assert claim.low < min(shifts) < claim.high


@pytest.mark.parametrize("n_repetitions", [1, FEWEST - 1])
def test_few_repetitions_give_no_verdict_even_if_they_agree(n_repetitions: int) -> None:
    agreed = np.ones(n_repetitions)
    assert all_positive("n", "s", {"": agreed}).verdict is Verdict.OPEN
    assert resampled("n", "s", "t", agreed, mean_of, above=0).verdict is Verdict.OPEN


@pytest.mark.parametrize(
    ("above", "below", "verdict"),
    [
        (0.0, 2.0, Verdict.HOLDS),
        (2.0, 3.0, Verdict.FAILS),
        (-1.0, 0.0, Verdict.FAILS),
        (1.0, np.inf, Verdict.OPEN),
    ],
)
def test_the_verdict_on_a_resampled_statistic_depends_on_its_whole_interval(
    above: float, below: float, verdict: Verdict, rng: np.random.Generator
) -> None:
    values = 1.0 + 0.1 * rng.standard_normal(50)
    values += 1.0 - values.mean()
    claim = resampled("n", "s", "t", values, mean_of, above=above, below=below)
    assert claim.verdict is verdict
    # The bootstrap interval of a mean is about ±2 standard errors.
    assert claim.high is not None
    assert claim.low is not None
    assert claim.high - claim.low == pytest.approx(3.92 * values.std() / np.sqrt(50), rel=0.15)


def test_an_undefined_statistic_leaves_the_claim_open() -> None:
    claim = resampled("n", "s", "t", np.ones(9), lambda _: float("nan"), above=0)
    assert (claim.verdict, claim.estimate, claim.low) == (Verdict.OPEN, None, None)


@pytest.mark.parametrize(
    ("target", "widest", "verdict"),
    [(1.0, 1.0, Verdict.HOLDS), (1.0, 0.01, Verdict.OPEN), (2.0, 1.0, Verdict.FAILS)],
)
def test_an_interval_must_contain_the_target_and_be_short(
    target: float, widest: float, verdict: Verdict, streams: Callable[..., np.random.Generator]
) -> None:
    values = 1.0 + 0.3 * streams("values").standard_normal(50)
    claim = resampled("n", "s", "t", values, mean_of)
    assert contains(claim, target, widest=widest).verdict is verdict
