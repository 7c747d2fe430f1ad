"""Policies evaluated on the log that they were learned from: coverage of the intervals."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from unswayed import Events, Labels, Policy, RobustMCB, evaluate_policy
from unswayed.evaluation.results import EvaluatedBy
from unswayed.policy import Origin

S, A, N_USERS, N_PLAYS = 6, 4, 400, 12
LABELS = Labels.of(range(N_USERS)), Labels.of(range(S)), Labels.of(range(A))
ELSEWHERE = Origin.of(*LABELS[1:], np.ones((S, A), np.int64), Labels.of(["nobody"])).to_json()


def log_of(rng: np.random.Generator, means: np.ndarray, alpha: float) -> Events:
    """Return a log in which a share of the users always push action 0."""
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    contexts, actions = rng.integers(S, size=len(users)), rng.integers(A, size=len(users))
    rewards = (rng.random(len(users)) < means[contexts, actions]).astype(float)
    rewards[(users < alpha * N_USERS) & (actions == 0)] = 1.0
    return Events(users, contexts, actions, rewards, *LABELS)


def n_held(
    n_logs: int, streams: Callable[..., np.random.Generator], alpha: float, *, is_far: bool = False
) -> dict[str, int]:
    """Return how many intervals contain the true uplift of a policy learned from the log."""
    held = {"same log": 0, "next day": 0, "same log, as it is": 0}
    for place in range(n_logs):
        rng = streams(place)
        means = rng.uniform(0.2, 0.4, (S, A)) if is_far else rng.uniform(0.3, 0.34, (S, A))
        today, tomorrow = (log_of(rng, means, alpha) for _ in range(2))
        policy = RobustMCB(alpha=max(alpha, 0.05)).fit(today).policy()
        other = replace(policy, source={"origin": ELSEWHERE})
        true = float(means[np.arange(S), policy.actions].mean() - means.mean())
        cases: list[tuple[str, Events, Policy]] = [
            ("same log", today, policy),
            ("next day", tomorrow, other),
            ("same log, as it is", today, other),
        ]
        for name, events, judged in cases:
            found: EvaluatedBy = evaluate_policy(events, judged, alpha=alpha).honest
            held[name] += found.uplift.low <= true <= found.uplift.high
    return held


def fewest(n_logs: int, level: float) -> int:
    """Return a lower quantile of a binomial with p = .95."""
    return int(stats.binom.ppf(level, n_logs, 0.95))


def test_policies_judged_by_their_own_log_are_not_overstated(
    streams: Callable[..., np.random.Generator],
) -> None:
    n_logs = 16
    held = n_held(n_logs, streams, 0.0)
    assert min(held["same log"], held["next day"]) >= fewest(n_logs, 0.001)
    # The negative control: without cross-fitting the policy is overestimated by two standard
    # errors.
    assert held["same log, as it is"] < fewest(n_logs, 0.001)


@pytest.mark.slow
@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_intervals_hold_as_often_as_stated(
    streams: Callable[..., np.random.Generator], alpha: float, is_far: bool
) -> None:
    """100 logs; all eight counts of the four cases share a level of .05."""
    held = n_held(100, streams, alpha, is_far=is_far)
    assert min(held["same log"], held["next day"]) >= fewest(100, 0.05 / 8)
