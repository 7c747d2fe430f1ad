"""Fits that are about as good as the best: which count, and what they do to intervals."""

import numpy as np
import pytest

from unswayed.evaluation.coalition import CLOSE, averaged, fits_with_other_shares, plausible
from unswayed.evaluation.estimators import Estimate, reaching
from unswayed.evaluation.population import Fit, data_of, fitted, started
from unswayed.tallies import Tallies, tally

CLASSES_OF_CELLS = np.array([0, 1, 2, 3, 3])
N_USERS = 1_500


def _fit(gain: float) -> Fit:
    return Fit(np.zeros(5), np.zeros(4), 0.1, gain, np.zeros(3))


def _log(rng: np.random.Generator, n_liars: int, lie: float) -> Tallies:
    """Return a log in which members give action 0 the reward 1 in a share of their plays."""
    users = np.repeat(np.arange(N_USERS), 30)
    actions = rng.integers(5, size=len(users))
    rewards = (rng.random(len(users)) < 0.4).astype(float)
    rewards[(users < n_liars) & (actions == 0) & (rng.random(len(users)) < lie)] = 1.0
    nowhere = np.zeros(len(users), dtype=np.int64)
    return tally(users, nowhere, actions, rewards, n_users=N_USERS, n_contexts=1, n_actions=5)


def test_only_stories_close_to_the_best_count() -> None:
    fits = [_fit(gain) for gain in (10.0, 10.0 - CLOSE, 6.0, -5.0)]
    assert [fit.gain for fit in plausible(fits)] == [10.0, 10.0 - CLOSE]
    assert plausible([_fit(-1.0)], 0.0)[0].gain == -1.0
    assert plausible([_fit(-50.0)], 0.0) == []


def test_likelier_stories_weigh_more() -> None:
    weights = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    alike = averaged([_fit(5.0), _fit(5.0)], weights)
    assert alike == pytest.approx([0.5, 0.5])
    unlike = averaged([_fit(9.0), _fit(5.0)], weights)
    assert unlike[0] > 0.9
    assert unlike.sum() == pytest.approx(1.0)


def test_quiet_lies_leave_open_how_many_lie(rng: np.random.Generator) -> None:
    """Loud lies fix the share of members; quiet ones fit about as well with other shares."""
    spread = {}
    for name, n_liars, lie in (("loud", 300, 1.0), ("quiet", 300, 0.3)):
        data = data_of(_log(rng, n_liars, lie), CLASSES_OF_CELLS)
        fit = fitted(data, started(data, np.array([1.0, 0.0, 0.0, 0.0]), 0.25), 0.25, 50)
        close = plausible([fit, *fits_with_other_shares(data, fit, 0.2, 0.25)])
        spread[name] = max(s.share for s in close) / min(s.share for s in close)
        # The true share is among those that are left.
        assert min(s.share for s in close) <= 0.2 <= max(s.share for s in close) + 1e-9
    assert spread["quiet"] > spread["loud"]


def test_an_interval_reaches_every_story_and_never_shrinks() -> None:
    found = Estimate(0.1, 0.05, 0.15, 0.025)
    assert reaching(found, []) == found
    one_sided = reaching(found, [0.25, 0.12])
    assert one_sided.low == pytest.approx(0.05)
    assert one_sided.high > 0.25
    assert one_sided.estimate == 0.1
