"""Logs in which the server chose: agreement of rewards, with a permutation null."""

import numpy as np
from scipy import stats

from unswayed.audit.by_server import find_agreement
from unswayed.learners.bounded import learn_bounded
from unswayed.learners.design import uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.randomness import generator
from unswayed.tallies import UserTallies, tally
from worlds.reviews import area_under_curve

N_USERS, N_PLAYS, N_CONTEXTS, N_ACTIONS = 1_500, 20, 5, 8


def _log(rng: np.random.Generator, n_bots: int) -> tuple[UserTallies, np.ndarray]:
    """Return tallies with bots that click one item, and the number of users who met each item."""
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    contexts = rng.integers(N_CONTEXTS, size=len(users))
    actions = rng.integers(N_ACTIONS, size=len(users))
    rewards = (rng.random(len(users)) < 0.05).astype(float)
    rewards[(users < n_bots) & (actions == 3)] = 1.0
    tallies = tally(
        users,
        contexts,
        actions,
        rewards,
        n_users=N_USERS,
        n_contexts=N_CONTEXTS,
        n_actions=N_ACTIONS,
    )
    return tallies, np.bincount(users[actions == 3], minlength=N_USERS)


def _learned(tallies: UserTallies) -> Estimates:
    return learn_bounded(tallies, uniform_design(tallies), alpha=0.1)


def test_bots_rank_above_others(rng: np.random.Generator) -> None:
    tallies, met = _log(rng, 150)
    found = find_agreement(tallies, _learned(tallies), rng=generator(0, "a"))
    is_bot = np.arange(N_USERS) < 150
    has_met = met > 0
    assert area_under_curve(found.evidence[has_met], is_bot[has_met]) > 0.97
    assert (found.p_values[is_bot & (met > 1)] < 0.01).mean() > 0.8


def test_p_values_hold_their_level_without_a_coalition(rng: np.random.Generator) -> None:
    tallies, _ = _log(rng, 0)
    found = find_agreement(tallies, _learned(tallies), rng=generator(0, "a"))
    for level in (0.01, 0.05):
        # The share of p-values below a level exceeds it with a probability of one in a thousand.
        allowed = stats.binom.ppf(0.999, N_USERS, level)
        assert (found.p_values < level).sum() <= allowed
