"""The origin recorded in a policy identifies the log, but no account."""

import json

import numpy as np
import pyarrow as pa
import pytest

from unswayed import Labels, Policy, learn_log
from unswayed.policy import Origin

CONTEXTS, ACTIONS = Labels.of(["noon", "night"]), Labels.of(["tea", "milk"])
COUNTS = np.array([[30, 20], [25, 25]])
MONDAY, TUESDAY = ("2026-01-05 00:01:00", "2026-01-05 23:59:00"), ("2026-01-06", "2026-01-06")


def users(first: int, last: int) -> Labels:
    return Labels.of([f"user {k}" for k in range(first, last)])


def origin(
    who: Labels, counts: np.ndarray = COUNTS, times: tuple[str, str] | None = None
) -> Origin:
    return Origin.of(CONTEXTS, ACTIONS, counts, who, times or (None, None))


@pytest.mark.parametrize(
    ("other", "relation"),
    [
        (origin(users(0, 1000), times=MONDAY), "same"),
        (origin(users(0, 1000), COUNTS + 1, MONDAY), "overlapping"),
        (origin(users(900, 1900), COUNTS + 1, MONDAY), "overlapping"),
        (origin(users(0, 1000), COUNTS + 1, TUESDAY), "other"),
        (origin(users(1000, 2000), COUNTS + 1, MONDAY), "other"),
        (origin(users(0, 1000), COUNTS + 1), "unknown"),
        (origin(users(1000, 2000), COUNTS + 1), "other"),
        (origin(Labels.of([]), COUNTS + 1), "unknown"),
    ],
)
def test_logs_are_distinguished_by_events_times_and_accounts(other: Origin, relation: str) -> None:
    monday = origin(users(0, 1000), times=MONDAY)
    assert monday.relation(other) == other.relation(monday) == relation
    again = Origin.from_json(json.loads(json.dumps(other.to_json())))
    assert again == other


def test_times_may_be_numbers() -> None:
    early, late = (
        origin(users(0, 50), COUNTS + k, times)
        for k, times in enumerate((("9", "99"), ("100", "101")))
    )
    assert early.relation(late) == "other"


def test_different_accounts_rarely_match_by_chance() -> None:
    """Of 100 pairs of logs without common accounts, at most 4 appear to share some."""
    base = origin(users(0, 500))
    n_alike = sum(
        base.relation(origin(users(500 * k, 500 * (k + 1)), COUNTS + 1)) != "other"
        for k in range(1, 101)
    )
    assert n_alike <= 4  # a Poisson number with mean 1 exceeds 4 with probability .004


def test_the_record_identifies_nobody_and_matches_many_candidates() -> None:
    """At most 8 bits of each account are recorded, so one in 256 other accounts matches as well."""
    recorded = json.dumps(origin(users(0, 5000)).to_json())
    assert "user" not in recorded.replace('"users"', "")
    assert len(recorded) < 700


@pytest.mark.parametrize("damaged", [None, 3, {}, {"digest": 5}, {"digest": None, "users": "a"}])
def test_an_invalid_origin_is_ignored(damaged: object) -> None:
    assert Origin.from_json(damaged) is None


def test_a_policy_records_its_origin_and_loads_without_one() -> None:
    rng = np.random.default_rng(0)
    table = {
        "user": np.arange(400) // 4,
        "context": rng.choice(["noon", "night"], 400),
        "action": rng.choice(["tea", "milk"], 400),
        "reward": rng.random(400),
        "time": np.datetime64("2026-01-05", "s") + 60 * np.arange(400),
    }
    found = [
        learn_log(pa.table({name: column[order] for name, column in table.items()})).policy
        for order in (np.arange(400), np.arange(400)[::-1])
    ]
    recorded = [Origin.from_json(policy.source["origin"]) for policy in found]
    assert recorded[0] == recorded[1]
    assert recorded[0] is not None
    assert recorded[0].last_time == "2026-01-05 06:39:00"
    old = found[0].to_json()
    del old["source"]["origin"]
    assert Policy.from_json(old).decide("noon") == found[0].decide("noon")
