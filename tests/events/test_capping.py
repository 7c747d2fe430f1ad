import numpy as np
import pytest

from tests.events.logs import account
from unswayed.errors import InputError
from unswayed.events import Events, Labels
from unswayed.events.thinning import capped


def log(rng: np.random.Generator, n: int = 3_000) -> Events:
    return Events(
        rng.integers(3, size=n) * rng.integers(2, size=n),
        rng.integers(2, size=n),
        rng.integers(2, size=n),
        rng.integers(2, size=n).astype(np.float64),
        Labels.numbered(3),
        Labels.numbered(2),
        Labels.numbered(2),
    )


def test_no_user_keeps_more_than_the_cap_and_nobody_else_loses(rng: np.random.Generator) -> None:
    events = log(rng)
    before = np.bincount(events.users)
    result = capped(events, max_interactions=800)
    np.testing.assert_array_equal(np.bincount(result.users), np.minimum(before, 800))


def test_the_same_events_are_kept_in_any_order(rng: np.random.Generator) -> None:
    events = log(rng)
    first = capped(events, max_interactions=300)
    second = capped(events.rows(rng.permutation(len(events))), max_interactions=300)
    assert account(first) == account(second)


def test_other_users_and_labels_do_not_change_which_events_a_user_keeps(
    rng: np.random.Generator,
) -> None:
    """Therefore every block of users can be capped independently, on any machine."""
    events = log(rng)
    alone = events.users == 0
    one = Events(
        events.users[alone],
        1 - events.contexts[alone],  # the same contexts with other codes
        events.actions[alone],
        events.rewards[alone],
        Labels.numbered(1),
        Labels.of([1, 0]),
        Labels.numbered(5),
    )
    together = capped(events, max_interactions=300)
    of_one = {row: n for row, n in account(together).items() if row[0] == 0}
    assert account(capped(one, max_interactions=300)) == of_one


def test_kept_events_are_a_fair_sample(rng: np.random.Generator) -> None:
    events = log(rng, n=8_000)
    kept = capped(events, max_interactions=1_000)
    of_user_0 = kept.rewards[kept.users == 0]
    before = events.rewards[events.users == 0]
    # Sampling 1,000 of 4,000 or more without replacement: the standard deviation (sd) of the mean
    # is at most .5/sqrt(1000) = .016; 4.5 sd are exceeded with probability below 1e-5.
    assert abs(of_user_0.mean() - before.mean()) < 4.5 * 0.5 / np.sqrt(1_000)


def test_a_log_below_the_cap_is_untouched(rng: np.random.Generator) -> None:
    events = log(rng)
    assert capped(events, max_interactions=10_000) is events


def test_a_cap_of_zero_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="at least one"):
        capped(log(rng), max_interactions=0)
