from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.learners.tiny_logs import shape
from unswayed.errors import InputError
from unswayed.events import read_events
from unswayed.tallies import Tallies, tally, tally_events
from unswayed.tallies.log_summary import (
    LogSummary,
    check_learnable,
    summarise,
    uniformity_p_value,
    unsupported_cells,
)


def tallied(**columns: Any) -> Tallies:
    return tally_events(read_events(pa.table(columns)).events)


def uniform_log(
    rng: np.random.Generator, n: int = 20_000, n_users: int = 500, **columns: Any
) -> Tallies:
    given = {
        "user": rng.integers(n_users, size=n),
        "context": rng.integers(5, size=n),
        "action": rng.integers(4, size=n),
        "reward": rng.random(n),
    }
    return tallied(**{**given, **columns})


def look(log: Tallies, alpha: float = 0.1) -> LogSummary:
    return summarise(log.in_blocks().uniform(), alpha=alpha)


def test_the_summary_counts_are_correct() -> None:
    log = tallied(
        user=["u", "u", "u", "v"],
        context=["s", "s", "t", "s"],
        action=["a", "b", "a", "a"],
        reward=[1, 0, 1, 1],
    )
    found = look(log)
    assert (found.n_events, found.n_users, found.n_contexts, found.n_actions) == (4, 2, 2, 2)
    assert (found.fewest_interactions, found.most_interactions) == (1, 3)
    assert found.interaction_ratio == 3.0
    assert found.repeated_share == 0.25  # one of four events: u met s twice
    assert found.n_rare_contexts == 2


def test_the_test_of_uniformity_keeps_its_level_with_many_thin_cells(
    streams: Callable[..., np.random.Generator],
) -> None:
    """P(p-value ≤ p) is at most p; there are 5,000 cells of about 40 users."""
    values = []
    for trial in range(40):
        rng = streams(trial)
        n = 200_000
        tallies = tally(
            rng.integers(4_000, size=n),
            rng.integers(250, size=n),
            rng.integers(20, size=n),
            np.zeros(n),
            **shape(4_000, 250, 20),
        )
        values.append(uniformity_p_value(tallies))
    # At most 4 of 40 p-values are below .02 with probability 1 - 4e-4 (binomial with mean .8).
    assert (np.array(values) < 0.02).sum() <= 4


def test_a_sticky_assignment_looks_uniform_despite_repeated_actions(
    rng: np.random.Generator,
) -> None:
    """A test that treats events as independent would reject: it is the negative control."""
    n, n_users = 40_000, 400
    users, contexts = rng.integers(n_users, size=n), rng.integers(5, size=n)
    actions = rng.integers(4, size=(n_users, 5))[users, contexts]
    log = uniform_log(rng, n, user=users, context=contexts, action=actions)
    assert look(log).looks_uniform
    plays = np.bincount(contexts * 4 + actions, minlength=20)
    scores = (plays - n / 20) / np.sqrt(n / 20)
    assert np.abs(scores).max() > 5


def test_a_favoured_action_in_one_context_is_noticed(rng: np.random.Generator) -> None:
    n = 20_000
    contexts, actions = rng.integers(5, size=n), rng.integers(4, size=n)
    favoured = (contexts == 2) & (rng.random(n) < 0.2)
    actions[favoured] = 1
    log = uniform_log(rng, n, context=contexts, action=actions)
    found = look(log)
    # In that context the action has a share of .4 among about 4,000 plays: some 20 sd from .25.
    assert not found.looks_uniform
    assert look(uniform_log(rng)).looks_uniform


def refused(log: Tallies, match: str, *, alpha: float = 0.1) -> None:
    with pytest.raises(InputError, match=match):
        check_learnable(look(log, alpha), alpha=alpha)


def test_contexts_or_alpha_too_large_for_the_data_are_refused(rng: np.random.Generator) -> None:
    """At alpha = .45 a cell needs 396 users, and 60 users cannot fill it."""
    refused(uniform_log(rng, context=np.arange(20_000) // 2), "coarser contexts")
    log = uniform_log(rng, n_users=60)
    check_learnable(look(log), alpha=0.1)
    refused(log, "smaller alpha", alpha=0.45)


def without_support(rng: np.random.Generator, **columns: Any) -> Tallies:
    """Return a log in which action 3 is never played in context 3."""
    n = 20_000
    contexts, actions = rng.integers(5, size=n), rng.integers(4, size=n)
    actions[contexts == 3] %= 3
    return uniform_log(rng, n, context=contexts, action=actions, **columns)


@pytest.mark.parametrize("columns", [{}, {"propensity": np.full(20_000, 0.25)}])
def test_an_action_without_support_is_refused(
    columns: dict[str, Any], rng: np.random.Generator
) -> None:
    log = without_support(rng, **columns)
    refused(log, "action '3' was never played in context '3'")
    check_learnable(look(log), alpha=0.1, allow_unplayed=True)


@pytest.mark.parametrize("columns", [{}, {"propensity": np.full(20_000, 0.25)}])
def test_cells_that_chance_leaves_empty_do_not_count_against_a_log(
    columns: dict[str, Any], streams: Callable[..., np.random.Generator]
) -> None:
    """Small contexts often have empty cells: here most contexts with about 5 users."""
    for trial in range(10):
        rng = streams(trial)
        contexts = np.minimum(rng.geometric(0.3, size=20_000), 20)
        found = look(
            uniform_log(rng, context=contexts, action=rng.integers(8, size=20_000), **columns)
        )
        assert found.never_played
        assert not found.unsupported  # each trial fails with probability below .001
        check_learnable(found, alpha=0.1)


def test_a_sticky_log_counts_users_and_not_plays() -> None:
    """Five users, each with one fixed action, leave one of two actions unplayed in 1 of 16 logs."""
    visits, n_users = np.array([[500.0, 0.0]]), np.array([[5, 0]])
    assert not unsupported_cells(visits, n_users).any()
    assert unsupported_cells(visits, n_users, least_probability=0.25).any()


def test_binary_rewards_and_weights_are_reported(rng: np.random.Generator) -> None:
    clicks = uniform_log(rng, reward=rng.integers(2, size=20_000))
    assert look(clicks).is_binary
    assert look(clicks).is_weighted is False
    amounts = look(uniform_log(rng, propensity=np.full(20_000, 0.25)))
    assert amounts.is_weighted is True
    assert not amounts.is_binary
