"""Alarms: raised by a coalition, never by a few accounts."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.audit.markets import market
from unswayed.audit.auditing import audit_log
from unswayed.audit.results import LEAST_ACCOUNTS, Audit, Interval, alarm_of, check_limits
from unswayed.errors import InputError


@pytest.fixture(scope="module")
def attacked() -> Audit:
    drawn = market(np.random.default_rng(1), n_groups=12)
    return audit_log(drawn.table())


def test_a_share_or_a_shift_beyond_its_limit_raises_the_alarm(attacked: Audit) -> None:
    assert alarm_of(attacked, share=0.01, shift=None).raised
    assert alarm_of(attacked, share=None, shift=0.1).raised
    assert not alarm_of(attacked, share=0.5, shift=None).raised
    assert not alarm_of(attacked, share=None, shift=4.0).raised
    assert not alarm_of(attacked, share=None, shift=None).raised


def test_the_lower_end_of_the_share_decides(attacked: Audit) -> None:
    unsure = replace(attacked, share=Interval(0.3, 0.03, 0.5))
    assert not alarm_of(unsure, share=0.1, shift=None).raised


def test_a_handful_of_accounts_raises_none(attacked: Audit) -> None:
    few = replace(attacked, share=Interval(0.004, (LEAST_ACCOUNTS - 1) / attacked.n_users, 0.01))
    found = alarm_of(few, share=0.0, shift=0.0)
    assert not found.raised
    assert found.accounts_needed == LEAST_ACCOUNTS


def test_an_alarm_needs_as_many_accounts_as_the_share_states(attacked: Audit) -> None:
    needed = alarm_of(attacked, share=0.1, shift=None).accounts_needed
    assert needed - 1 <= 0.1 * attacked.n_users < needed


@pytest.mark.parametrize("n_accounts", [3, LEAST_ACCOUNTS - 1])
def test_few_loud_accounts_cannot_raise_an_alarm(n_accounts: int) -> None:
    # All rate the same ten items with five stars, which is maximal lockstep.
    drawn = market(np.random.default_rng(2), n_groups=0)
    table = drawn.table()
    bots = pa.table(
        {
            "user": [f"bot {k}" for k in range(n_accounts) for _ in range(10)],
            "action": [f"item {k}" for _ in range(n_accounts) for k in range(10)],
            "reward": [5.0] * (10 * n_accounts),
            "time": table["time"].combine_chunks().slice(0, 10 * n_accounts),
        }
    )
    audit = audit_log(pa.concat_tables([table, bots]))
    assert not alarm_of(audit, share=0.0, shift=0.0).raised


@pytest.mark.parametrize(("n_bots", "is_raised"), [(LEAST_ACCOUNTS - 1, False), (100, True)])
def test_where_the_server_chose_an_alarm_requires_a_coalition(
    rng: np.random.Generator, n_bots: int, is_raised: bool
) -> None:
    users = np.repeat(np.arange(1_000), 25)
    actions = rng.integers(8, size=len(users))
    rewards = (rng.random(len(users)) < 0.1).astype(float)
    rewards[(users < n_bots) & (actions == 3)] = 1.0
    log = pa.table({"user": users, "action": actions, "reward": rewards})
    found = alarm_of(audit_log(log, alpha=0.2, regime="server"), share=0.0, shift=0.0)
    assert found.raised == is_raised
    assert found.accounts_needed == LEAST_ACCOUNTS


def test_meaningless_limits_are_refused() -> None:
    with pytest.raises(InputError, match="fail_share` is 2"):
        check_limits(2.0, None)
    with pytest.raises(InputError, match="fail_shift` is -1"):
        check_limits(None, -1.0)


def test_the_statement_counts_honest_accounts_among_flagged_ones(
    rng: np.random.Generator,
) -> None:
    """A single click on the pushed item is weak evidence: 4 % of the honest users would click."""
    users, items = np.repeat(np.arange(8_000), 6), rng.integers(4, size=48_000)
    rates = np.where((users < 400) & (items == 3), 1.0, 0.04)
    log = {"user": users, "action": items, "reward": (rng.random(48_000) < rates) * 1.0}
    found = audit_log(pa.table(log))
    said = re.search(
        r"By their weights about (\d+) of the flagged ones are honest", found.statement
    )
    assert said is not None
    accounts = found.table("accounts").to_pandas()
    n_honest = int(((accounts.weight < 0.5) & (accounts.user >= 400)).sum())
    # About 100, with a deviation of 10.
    assert n_honest > 40
    assert abs(int(said[1]) - n_honest) < 50
