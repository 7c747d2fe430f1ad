"""Intervals of the paper's method have the stated coverage (the benchmark tests more cases)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy import stats

from interval_coverage import Setting, measure, random_settings

N_LOGS = 60
SMALL = {"n_users": 400, "n_contexts": 2, "n_actions": 3, "plays": 12}


#: `make test-all` runs these as well.
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "attack",
    [
        "none",
        "push",
        "trim-edge",
        *(pytest.param(a, marks=SLOW) for a in ("flood", "hide-in-covariance")),
    ],
)
@pytest.mark.parametrize(
    ("rewards", "base"),
    [
        ("bernoulli", 0.05),
        ("normal", 0.5),
        ("revenue", 1.0),
        pytest.param("bernoulli", 0.005, marks=SLOW),
        pytest.param("bernoulli", 0.5, marks=SLOW),
        pytest.param("student", 0.5, marks=SLOW),
        pytest.param("counts", 1.0, marks=SLOW),
    ],
)
def test_intervals_cover_rewards_of_every_kind_under_every_attack(
    rewards: str, base: float, attack: str
) -> None:
    setting = Setting(rewards=rewards, base=base, attack=attack, **SMALL)  # type: ignore[arg-type]
    row = measure(setting, n_logs=N_LOGS)
    assert row.holds, row


@pytest.mark.parametrize("design", ["uniform", "propensities"])
@pytest.mark.parametrize(("rewards", "base"), [("bernoulli", 0.02), ("normal", 0.5)])
def test_intervals_cover_for_every_design_of_the_log(
    rewards: str, base: float, design: str
) -> None:
    setting = Setting(
        rewards=rewards,
        base=base,
        design=design,
        attack="push",
        alpha=0.05,
        has_tastes=True,
        **SMALL,  # type: ignore[arg-type]
    )
    row = measure(setting, n_logs=N_LOGS)
    assert row.holds, row


@pytest.mark.parametrize("base", [0.02, 0.5])
@pytest.mark.parametrize("attack", ["none", "push"])
def test_intervals_cover_if_users_have_individual_tastes(base: float, attack: str) -> None:
    setting = Setting(base=base, attack=attack, has_tastes=True, alpha=0.1, **SMALL)  # type: ignore[arg-type]
    row = measure(setting, n_logs=N_LOGS)
    assert row.holds, row


@pytest.mark.parametrize("attack", ["none", "push", "trim-edge"])
@pytest.mark.parametrize("base", [0.02, 0.3])
def test_intervals_cover_if_users_have_large_and_skewed_differences(
    base: float, attack: str
) -> None:
    """Rates are Beta(2p, 2 - 2p): most users never click, and a few click nearly always."""
    setting = Setting(
        base=base,
        n_contexts=1,
        n_actions=3,
        n_users=1500,
        attack=attack,
        has_tastes=True,
        likeness=2.0,
    )
    row = measure(setting, n_logs=N_LOGS)
    assert row.holds, row


def test_intervals_cover_if_colluders_make_skewed_users_look_symmetric() -> None:
    """With sixty plays of one context, means of basket values are skewed and have no ties."""
    setting = Setting(
        rewards="revenue", base=1.0, n_contexts=1, n_users=4000, plays=60, attack="balance"
    )
    row = measure(setting, n_logs=30)
    assert row.holds, row


def test_intervals_cover_if_tastes_of_many_users_are_barely_visible() -> None:
    """The variance between users of a cell is 1.2 times that of a common rate."""
    setting = Setting(
        base=0.1,
        n_contexts=1,
        n_actions=3,
        n_users=6000,
        plays=30,
        alpha=0.05,
        design="uniform",
        attack="push",
        has_tastes=True,
        likeness=40.0,
    )
    row = measure(setting, n_logs=30)
    assert row.holds, row


@pytest.mark.parametrize("design", ["sticky", "uneven", "uniform"])
def test_intervals_cover_with_more_contexts_than_actions(design: str) -> None:
    setting = Setting(
        n_contexts=12, n_actions=3, plays=30, n_users=400, zipf=1.0, design=design, attack="flood"
    )
    row = measure(setting, n_logs=N_LOGS)
    assert row.holds, row


@pytest.mark.parametrize("attack", ["none", "push"])
@pytest.mark.parametrize(
    ("rewards", "base"), [("buyers", 0.1), ("wholesale", 20.0), ("jackpot", 0.1)]
)
def test_rare_large_honest_rewards_are_covered_or_unbounded(
    rewards: str, base: float, attack: str
) -> None:
    """With a stated range, intervals are finite; without one, colluders could report any mean."""
    setting = Setting(
        rewards=rewards, base=base, attack=attack, n_contexts=1, n_actions=3, n_users=3000
    )
    row = measure(setting, n_logs=30)
    assert row.holds, row
    assert row.no_bound == 0
    assert measure(replace(setting, stated="nothing"), n_logs=3).no_bound == 1


@pytest.mark.parametrize("attack", ["none", "mask", "push"])
def test_colluders_cannot_mask_that_a_few_honest_users_differ(attack: str) -> None:
    """One percent of honest users always click; a fifth of the users lie in 11 of 24 plays."""
    setting = Setting(
        base=0.46,
        fans=0.01,
        attack=attack,
        plays=72,
        n_users=6000,
        n_contexts=1,
        n_actions=3,
        design="uniform",
    )
    row = measure(setting, n_logs=12)
    assert row.holds, row
    assert row.width < 2.5 * row.limit


def test_random_settings_are_covered_and_reproducible() -> None:
    chosen = list(random_settings(40, 1))
    assert chosen == list(random_settings(40, 1))
    assert len({setting.name for setting in chosen}) == 40
    small = [setting for setting in chosen if setting.n_users * setting.plays < 20_000]
    assert len(small) > 5
    for setting in small[:6]:
        assert measure(setting, n_logs=20).holds


def test_an_understated_share_of_colluders_is_not_covered() -> None:
    """Negative control: three times as many colluders as stated mount the same attack."""
    setting = Setting(n_contexts=1, n_actions=3, n_users=2000, attack="push", alpha=0.3)
    told = Setting(n_contexts=1, n_actions=3, n_users=2000, attack="push", alpha=0.1)
    assert measure(setting, n_logs=20).holds
    assert not measure(setting, n_logs=20, stated=told.alpha).holds


def test_intervals_are_short_without_an_attack() -> None:
    """Each of two actions has 1,000 users with 20 plays; at p = .5 the deviation is .11.

    A tenth is stated to collude; allowing for chance (a binomial quantile), 138 of 1,000 are
    trimmed, and sqrt(2 log(9·16/.1)) is 3.8 standard errors at each end.
    """
    setting = Setting(n_contexts=1, n_actions=2, n_users=2000, alpha=0.1)
    row = measure(setting, n_logs=10)
    cut = 2 * 0.11 * stats.norm.pdf(stats.norm.ppf(0.138)) / 0.862
    assert row.limit < row.width < cut + 2 * 1.2 * 3.8 * 0.11 / 1000**0.5
