import numpy as np
import pyarrow as pa
import pytest

from tests.events.logs import account
from unswayed.errors import InputError
from unswayed.events import Events, Labels, read_events
from unswayed.events.thinning import forgotten, parsed_half_life

DAY = 86_400.0


def log(rng: np.random.Generator, n: int = 20_000, n_users: int = 200) -> Events:
    """Return a log of 40 days with many tied times."""
    return Events(
        rng.integers(n_users, size=n),
        rng.integers(2, size=n),
        rng.integers(2, size=n),
        rng.standard_normal(n),
        Labels.of([f"u{code}" for code in range(n_users)]),
        Labels.numbered(2),
        Labels.numbered(2),
        times=(rng.integers(40, size=n) * DAY).astype(np.float64),
    )


def test_half_of_the_events_of_each_half_life_is_left(rng: np.random.Generator) -> None:
    """Systematic sampling has at most the variance of independent draws; tolerance five sd."""
    events = log(rng)
    kept = forgotten(events, half_life=7 * DAY)
    assert events.times is not None
    assert kept.times is not None
    ages = (events.times.max() - events.times) / DAY
    kept_ages = (events.times.max() - kept.times) / DAY
    for first in range(0, 35, 7):
        inside = (ages >= first) & (ages < first + 7)
        expected = np.exp2(-ages[inside] / 7.0).sum()
        found = ((kept_ages >= first) & (kept_ages < first + 7)).sum()
        assert abs(found - expected) < 5.0 * np.sqrt(expected)


def test_a_user_keeps_as_many_events_as_the_weights_sum_up_to(rng: np.random.Generator) -> None:
    """However an account times its plays, it keeps at most one play more than expected."""
    events = log(rng)
    assert events.times is not None
    due = np.bincount(
        events.users, np.exp2((events.times - events.times.max()) / (3 * DAY)), events.n_users
    )
    kept = forgotten(events, half_life=3 * DAY)
    found = dict.fromkeys(events.user_labels, 0)
    for code, count in enumerate(np.bincount(kept.users, minlength=kept.n_users)):
        found[kept.user_labels[code]] = count
    assert np.abs(np.array(list(found.values())) - due).max() <= 1.0


def test_rewards_do_not_influence_which_events_are_kept(rng: np.random.Generator) -> None:
    """Their mean is within five standard errors, although ties are sorted by reward."""
    kept = forgotten(log(rng, 60_000), half_life=5 * DAY)
    assert abs(kept.rewards.mean()) < 5.0 / np.sqrt(len(kept))


def test_order_and_other_users_do_not_change_the_kept_events(
    rng: np.random.Generator,
) -> None:
    events = log(rng, 4_000)
    assert events.times is not None
    first = forgotten(events, half_life=4 * DAY)
    mixed = forgotten(events.rows(rng.permutation(len(events))), half_life=4 * DAY)
    assert account(first) == account(mixed)
    # Ages are measured from the last event, so it is always kept.
    some = (events.users < 50) | (events.times == events.times.max())
    fewer = forgotten(events.rows(some), half_life=4 * DAY)
    known = {f"u{code}" for code in range(50)}
    assert [row for row in account(fewer) if row[0] in known] == [
        row for row in account(first) if row[0] in known
    ]


@pytest.mark.parametrize(
    "bad", ["-7d", "0", "", "soon", "7 days", "7y", "1.2.3h", "nan", "inf", -3, 0.0, float("nan")]
)
def test_an_invalid_half_life_is_refused(bad: float | str) -> None:
    with pytest.raises(InputError, match=r"half_life.*give a length of time above 0, such as 12h"):
        parsed_half_life(bad)


def test_events_without_times_cannot_be_forgotten() -> None:
    with pytest.raises(InputError, match="needs the time of every event"):
        forgotten(Events.of(["ann"], ["home"], ["tea"], [1.0]), half_life=1.0)


def table(times: object) -> pa.Table:
    return pa.table(
        {
            "user": ["a", "b", "c"],
            "context": ["s"] * 3,
            "action": ["x", "y", "x"],
            "reward": [1.0, 0.0, 1.0],
            "time": times,
        }
    )


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([1.0, None, 3.0], "time is missing or not a time"),
        ([1.0, float("nan"), 3.0], "time is missing or not a time"),
        (["2024-01-01", "when", "2024-01-02"], "time is missing or not a time"),
        (["2024-01-01", "2924-01-01", "2024-01-02"], "time is in the future"),
        ([1.7e9, 1.7e12, 1.7e9], "time is in the future"),
    ],
)
def test_rows_without_a_time_or_from_the_future_are_bad_rows(times: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_events(table(times), is_dated=True)
    reading = read_events(table(times), is_dated=True, on_bad_rows="drop")
    assert reading.provenance.bad_rows == {reason: 1}
    assert reading.events.times is not None
    assert len(reading.events.times) == 2
    # Times are only needed for forgetting.
    assert len(read_events(table(times)).events) == 3


def test_a_half_life_without_a_time_column_is_refused() -> None:
    with pytest.raises(InputError, match=r"has no column 'time'; name it with `Columns\.time`"):
        read_events(table([1, 2, 3]).drop_columns("time"), is_dated=True)
