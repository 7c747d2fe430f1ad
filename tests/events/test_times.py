"""Times, and logs without a context column, which audits accept."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from unswayed.errors import InputError
from unswayed.events import Columns, read_events

ROWS = {"user": ["a", "b", "c"], "action": ["x", "y", "x"], "reward": [1.0, 2.0, 3.0]}
NEW_YEAR = 1_704_067_200.0


@pytest.mark.parametrize(
    "times",
    [
        pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), None]),
        pa.array(["2024-01-01", "2024-01-02 00:00:00", "some day"]),
        pa.array([NEW_YEAR, NEW_YEAR + 86_400, None]),
        pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
    ],
    ids=["timestamps", "texts", "numbers", "dates"],
)
def test_times_of_every_kind_become_seconds(times: pa.Array) -> None:
    table = pa.table({**ROWS, "context": ["s"] * 3, "time": times})
    reading = read_events(table, with_times=True)
    assert reading.times is not None
    by_reward = dict(zip(reading.events.rewards.tolist(), reading.times.tolist(), strict=True))
    assert by_reward[1.0] == NEW_YEAR
    assert by_reward[2.0] == NEW_YEAR + 86_400
    assert np.isnan(by_reward[3.0])


def test_times_are_read_only_on_request() -> None:
    table = pa.table({**ROWS, "context": ["s"] * 3, "time": [1, 2, 3]})
    assert read_events(table).times is None
    assert read_events(pa.table({**ROWS, "context": ["s"] * 3}), with_times=True).times is None


def test_a_log_without_a_context_column_gets_one_context_if_allowed() -> None:
    events = read_events(pa.table(ROWS), columns=Columns(may_lack_context=True)).events
    assert list(events.context_labels) == ["all"]
    with pytest.raises(InputError, match="no column 'context' for the context"):
        read_events(pa.table(ROWS))
    named = Columns(context=("place", "device"), may_lack_context=True)
    with pytest.raises(InputError, match="no column 'device' for the context"):
        read_events(pa.table({**ROWS, "place": ["s"] * 3}), columns=named)
