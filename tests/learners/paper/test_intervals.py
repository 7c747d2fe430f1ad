from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.learners.tiny_logs import shape
from tests.tallies.summaries import dense
from unswayed.learners.design import RewardBound, design_of_log
from unswayed.learners.estimates import Estimates
from unswayed.learners.paper import FAILURE_PROBABILITY, learn_paper, measure_units
from unswayed.tallies import Tallies, tally

Streams = Callable[..., np.random.Generator]
KNOWN = RewardBound(deviation=2.0)
KINDS = ["binary", "clicks", "normal", "counts", "revenue"]
N_USERS, N_CONTEXTS, N_ACTIONS, N_PLAYS = 400, 3, 4, 12


def log(
    rng: np.random.Generator,
    kind: str,
    *,
    is_sticky: bool = True,
    shift: float = 0.0,
    scale: float = 1.0,
    n_copies: int = 0,
) -> Tallies:
    """Return a log in which a tenth of the users push action 0, one of them many times."""
    n_events = N_USERS * N_PLAYS
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    contexts = rng.integers(N_CONTEXTS, size=n_events)
    assigned = rng.integers(N_ACTIONS, size=(N_USERS, N_CONTEXTS))
    actions = assigned[users, contexts] if is_sticky else rng.integers(N_ACTIONS, size=n_events)
    means = rng.uniform(0.2, 0.8, (N_CONTEXTS, N_ACTIONS))[contexts, actions]
    rewards = {
        "binary": (rng.random(n_events) < means).astype(float),
        "clicks": (rng.random(n_events) < 0.05 * means).astype(float),
        "normal": means + rng.standard_normal(n_events),
        "counts": rng.poisson(means).astype(float),
        "revenue": (rng.random(n_events) < 0.3) * rng.lognormal(means, 1.0),
    }[kind]
    is_bad = users < 0.1 * N_USERS
    rewards[is_bad] = np.where(actions[is_bad] == 0, 1.0, 0.0)
    if n_copies:
        users = np.append(users, np.zeros(n_copies, np.int64))
        contexts = np.append(contexts, np.full(n_copies, contexts[0]))
        actions = np.append(actions, np.full(n_copies, actions[0]))
        rewards = np.append(rewards, np.ones(n_copies))
    return tally(
        users, contexts, actions, scale * rewards + shift, **shape(N_USERS, N_CONTEXTS, N_ACTIONS)
    )


def learned(tallies: Tallies, alpha: float = 0.1, *, known: RewardBound = KNOWN) -> Estimates:
    """Learn with the design inferred from the log."""
    design = replace(design_of_log(tallies, "auto"), rewards=known)
    return learn_paper(tallies, design, alpha=alpha)


@pytest.mark.parametrize(
    ("shift", "scale"), [(100.0, 1.0), (1e7, 1.0), (-1e7, 1e3), (0.0, 1e7), (0.0, 1e-7)]
)
@pytest.mark.parametrize("is_sticky", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_decisions_and_intervals_are_equivariant_to_units(
    streams: Streams, kind: str, is_sticky: bool, shift: float, scale: float
) -> None:
    plain = learned(log(streams("log"), kind, is_sticky=is_sticky))
    moved = learned(
        log(streams("log"), kind, is_sticky=is_sticky, shift=shift, scale=scale),
        known=RewardBound(deviation=2.0 * scale),
    )
    # Rewards near 1e7 have a precision of 1e-9 relative to their spread.
    tolerance = 1e-7 * max(1.0, abs(shift) / scale / 1e7)
    np.testing.assert_allclose(
        (moved.mean_rewards - shift) / scale, plain.mean_rewards, atol=tolerance
    )
    # Clicks are so rare that two actions may have equal means: either is then the best one.
    chosen = plain.mean_rewards[np.arange(N_CONTEXTS), moved.mean_rewards.argmax(axis=1)]
    np.testing.assert_allclose(chosen, plain.mean_rewards.max(axis=1), atol=tolerance)
    for end, moved_end in zip(plain.interval, moved.interval, strict=True):
        np.testing.assert_allclose((moved_end - shift) / scale, end, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_sticky", [True, False])
def test_intervals_have_positive_width(
    rng: np.random.Generator, kind: str, is_sticky: bool
) -> None:
    estimates = learned(log(rng, kind, is_sticky=is_sticky))
    low, high = estimates.interval
    assert (low < high).all()
    assert (estimates.sampling_errors >= 0).all()
    assert (estimates.bias_bounds >= 0).all()
    half = estimates.sampling_errors + estimates.bias_bounds
    assert (estimates.mean_rewards - half <= low + 1e-12).all()
    assert (estimates.mean_rewards + half >= high - 1e-12).all()


def test_colluders_cannot_hide_that_rewards_are_binary(rng: np.random.Generator) -> None:
    """The origin of rewards does not change, and no interval depends on it."""
    tallies = log(rng, "binary")
    users = np.repeat(np.arange(N_USERS), np.diff(tallies.indptr))
    is_bad = users < 0.1 * N_USERS
    tallies.sums[is_bad] = 1e9 * rng.standard_normal(int(is_bad.sum()))
    tallies.squares[is_bad] = tallies.sums[is_bad] ** 2
    assert measure_units(tallies, alpha=0.1).origin == 0.0


def test_rewards_with_many_values_are_not_treated_as_binary(rng: np.random.Generator) -> None:
    for kind in ("normal", "counts", "revenue"):
        tallies = log(rng, kind)
        users = np.repeat(np.arange(N_USERS), np.diff(tallies.indptr))
        means = np.bincount(users, tallies.sums) / np.bincount(users, tallies.counts)
        assert measure_units(tallies, alpha=0.1).origin == np.median(means)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_sticky", [True, False])
def test_a_more_active_account_has_no_more_influence(
    streams: Streams, kind: str, is_sticky: bool
) -> None:
    """Above a thousand times the usual activity, a million more visits have no effect."""
    busy = learned(log(streams("log"), kind, is_sticky=is_sticky, n_copies=10_000))
    busier = learned(log(streams("log"), kind, is_sticky=is_sticky, n_copies=1_000_000))
    plain = learned(log(streams("log"), kind, is_sticky=is_sticky))
    assert (busy.mean_rewards.argmax(axis=1) == busier.mean_rewards.argmax(axis=1)).all()
    np.testing.assert_allclose(busy.mean_rewards, busier.mean_rewards, atol=2e-3)
    # One of 400 accounts changes a share of visits by at most 1/400 and its cell's users by one.
    assert np.abs(busy.context_probabilities - plain.context_probabilities).max() < 0.01


def test_intervals_are_unbounded_where_colluders_may_be_the_majority(
    rng: np.random.Generator,
) -> None:
    """One user in ten visits the context, and a third of all users may collude."""
    users = np.repeat(np.arange(600), 10)
    contexts = (rng.random(len(users)) < 0.01).astype(np.int64)
    actions = rng.integers(2, size=len(users))
    rewards = rng.standard_normal(len(users)).clip(-5.0, 5.0)
    tallies = tally(users, contexts, actions, rewards, n_users=600, n_contexts=2, n_actions=2)
    for known, range_ in (
        (RewardBound(deviation=1.0), np.inf),
        (RewardBound(low=-5.0, high=5.0), 10.0),
    ):
        low, high = learned(tallies, alpha=0.3, known=known).interval
        assert ((high - low)[1] == range_).all()
        assert ((high - low)[0] < 10.0).all()


def test_the_sampling_part_is_the_standard_error_of_user_means(rng: np.random.Generator) -> None:
    """FAILURE_PROBABILITY is divided among the actions of a context."""
    tallies = log(rng, "normal")
    means = dense(tallies, tallies.sums / tallies.counts)
    is_met = dense(tallies, np.ones(len(tallies.cells))) > 0
    errors = [
        means[met, cell].std(ddof=1) / np.sqrt(met.sum()) for cell, met in enumerate(is_met.T)
    ]
    z = stats.norm.isf(FAILURE_PROBABILITY / N_ACTIONS / 2.0)
    found = learned(tallies).sampling_errors.ravel()
    np.testing.assert_allclose(found, z * np.array(errors), rtol=1e-9)
