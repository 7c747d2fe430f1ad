"""Audits over time, against a reference log, and with reviewed accounts, through the public API."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import unswayed
from tests.audit.markets import Market, market
from unswayed.errors import InputError
from unswayed.learners.unknown_fraction import Auto


@pytest.fixture(scope="module")
def drawn() -> Market:
    """Return a market whose last members of each group come late."""
    found = market(np.random.default_rng(3), n_groups=12, group_size=15)
    late = found.is_paid[found.users] & (found.users % 15 >= 12)
    early = found.times % 1.5e7
    return found._replace(times=np.where(late, 2.5e7 + 1e6 * (found.times / 3e7), early))


def test_changes_since_a_day_include_who_joined_the_groups(drawn: Market) -> None:
    found = unswayed.audit_log(drawn.table(), since="2024-06-01")
    assert found.changes is not None
    new = {int(user.removeprefix("user ")) for user in found.changes.accounts["user"].to_pylist()}
    late = set(np.flatnonzero(drawn.is_paid & (np.arange(drawn.n_users) % 15 >= 12)).tolist())
    assert len(new & late) > 0.5 * len(late)
    assert len(new & late) > 0.7 * len(new)
    assert found.changes.n_joined > 0.7 * len(new)
    # The negative control: nothing is new after the last event.
    nothing = unswayed.audit_log(drawn.table(), since="2030-01-01").changes
    assert nothing is not None
    assert not len(nothing.accounts)
    assert not nothing.cleared


def test_cases_keep_their_ids_while_groups_grow(drawn: Market) -> None:
    table, early = drawn.table(), drawn.times < 1.6e7
    audits = [unswayed.audit_log(some) for some in (table.filter(early), table)]
    ids = [
        {row["user"]: (row["case"], row["group_id"]) for row in found.table("cases").to_pylist()}
        for found in audits
    ]
    both = set(ids[0]) & set(ids[1])
    assert len(both) > 50
    assert all(ids[0][user][0] == ids[1][user][0] for user in both)
    assert np.mean([ids[0][user][1] == ids[1][user][1] for user in both]) > 0.8
    frame = audits[1].table("accounts").to_pandas()
    assert len(frame) == len(np.unique(drawn.users))
    assert frame.score.is_monotonic_decreasing


def _clicks(seed: int, n_bots: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    users, items = np.repeat(np.arange(2_000), 20), rng.integers(10, size=40_000)
    rewards = (rng.random(40_000) < 0.03).astype(float)
    rewards[(users < n_bots) & (items == 7)] = 1.0
    return pa.table({"user": users, "action": items, "reward": rewards})


def test_a_reference_shows_which_items_moved() -> None:
    clean = _clicks(1, 0)
    pushed = unswayed.audit_log(_clicks(2, 60), regime="server", reference=clean).difference
    assert pushed is not None
    (moved,) = pushed.items.to_pylist()
    assert moved["action"] == 7
    assert moved["now"] > 1.5 * moved["reference"]
    # The negative control: another clean log.
    same = unswayed.audit_log(_clicks(3, 0), regime="server", reference=clean).difference
    assert same is not None
    assert not len(same.items)


def test_an_uninformative_reference_is_refused() -> None:
    log = _clicks(2, 60)
    others = log.set_column(1, "action", pa.array([f"item {k}" for k in log["action"].to_pylist()]))
    with pytest.raises(InputError, match=r"reference. has none of the log's actions"):
        unswayed.audit_log(log, reference=others)
    equal = log.set_column(2, "reward", pa.array(np.ones(len(log))))
    with pytest.raises(InputError, match=r"reference. cannot be audited: rewards are 1 everywhere"):
        unswayed.audit_log(log, regime="server", reference=equal)


@pytest.mark.parametrize("is_dated", [False, True], ids=["for all times", "before its date"])
def test_honest_accounts_are_not_flagged_for_events_before_their_review(
    drawn: Market, tmp_path: Path, is_dated: bool
) -> None:
    flagged = unswayed.audit_log(drawn.table()).table("cases")["user"].to_pylist()
    late = {f"user {k}" for k in range(1_500, drawn.n_users) if k % 15 >= 12}
    chosen = [*[u for u in flagged if u not in late][:4], *[u for u in flagged if u in late][:4]]
    path = tmp_path / "known.csv"
    date = "2024-06-01" if is_dated else ""
    path.write_text("user,status,date\n" + "".join(f"{u},honest,{date}\n" for u in chosen))
    left = set(unswayed.audit_log(drawn.table(), known=path).table("cases")["user"].to_pylist())
    assert not left & set(chosen[:4])
    # Events after the review still count.
    assert bool(left & set(chosen[4:])) == is_dated


def test_known_fakes_are_flagged_with_that_reason(drawn: Market, tmp_path: Path) -> None:
    path = tmp_path / "known.csv"
    path.write_text("user,status\nuser 3,fake\n")
    cases = unswayed.audit_log(drawn.table(), known=path).table("cases").to_pylist()
    (one,) = [case for case in cases if case["user"] == "user 3"]
    assert one["reason"].startswith("a review says fake")
    path.write_text("user,status\n150,fake\n")
    clicks = unswayed.audit_log(_clicks(4, 100), regime="server", known=path).table("cases")
    assert 150 in clicks["user"].to_pylist()


def test_impossible_comparisons_are_reported(drawn: Market) -> None:
    with pytest.raises(InputError, match="since` needs times"):
        unswayed.audit_log(_clicks(1, 0), since="2026-01-01")
    with pytest.raises(InputError, match="no events before"):
        unswayed.audit_log(drawn.table(), since="1990-01-01")
    with pytest.raises(InputError, match="write a date like"):
        unswayed.audit_log(drawn.table(), since="yesterday")


def test_a_small_push_is_found_whatever_share_is_stated() -> None:
    """One account in a hundred doubles the clicks of an item that is explored; no decision changes.

    The negative control is the same log without them.
    """
    rng = np.random.default_rng(0)
    users, items = np.repeat(np.arange(5_000), 50), rng.integers(10, size=250_000)
    items = np.where(rng.random(250_000) < 0.7, 0, items)
    honest = (rng.random(250_000) < np.where(items == 0, 0.06, 0.0105)).astype(float)
    pushed = np.where((users < 50) & (items == 7), 1.0, honest)
    propensity = np.where(items == 0, 0.73, 0.03)
    choices: list[tuple[float | Auto, int]] = [("auto", 50), (0.02, 50), ("auto", 0)]
    for alpha, n_bots in choices:
        columns = {"user": users, "action": items, "propensity": propensity}
        table = pa.table({**columns, "reward": pushed if n_bots else honest})
        found = unswayed.audit_log(table, alpha=alpha)
        assert found.verdict == ("attacked" if n_bots else "nothing found")
        assert found.share.low <= n_bots / 5_000 <= found.share.high
        # Messages contain no control characters, which mark the names of options in errors.
        assert "u0002" not in json.dumps(found.to_json())
