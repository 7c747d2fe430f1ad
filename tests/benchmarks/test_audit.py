"""The error rates that audits report are those that the benchmark measures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audit import audit_production, audit_reviews
from unswayed.audit.results import FLAGGED_WHERE_SERVERS_CHOSE, FLAGGED_WHERE_USERS_CHOSE
from worlds.production import build_production, production_specs
from worlds.reviews import build_reviews, review_specs

ROOT = Path(__file__).parents[2]


def _bound(rate: float, n_accounts: int) -> float:
    """Return a rate that logs with this error rate exceed about once in a thousand.

    Honest accounts are flagged together with similar ones, for example in tens.
    """
    return rate + 3.1 * float(np.sqrt(10.0 * rate / n_accounts)) + 10.0 / n_accounts


def test_markets_flag_as_few_honest_accounts_as_audits_say() -> None:
    rows = [
        audit_reviews(spec.name, build_reviews(spec, 0), 0, 0.2, False)
        for spec in review_specs("validation", 0.2)
    ]
    flagged = float(np.mean([row.flagged_honest for row in rows]))
    assert flagged <= _bound(FLAGGED_WHERE_USERS_CHOSE, 3_000 * len(rows))
    # The negative control: flagging nobody does not count.
    assert np.mean([row.flagged_bad for row in rows]) > 0.6
    assert min(row.auc for row in rows) >= 0.9
    assert min(row.auc_within_items for row in rows) >= 0.7


@pytest.mark.slow
def test_production_logs_flag_as_few_honest_accounts_as_audits_say() -> None:
    specs = [spec for spec in production_specs("validation") if "peace" not in spec.name][::8]
    rows = [audit_production(spec.name, build_production(spec, 0), 0) for spec in specs]
    flagged = float(np.mean([row.flagged_honest for row in rows]))
    assert flagged <= _bound(FLAGGED_WHERE_SERVERS_CHOSE, 5_000 * len(rows))
    assert np.mean([row.flagged_bad for row in rows]) > 0.3


def test_the_page_has_the_rates_and_the_command() -> None:
    text = (ROOT / "docs/audit-measured.md").read_text(encoding="utf-8")
    assert "python benchmarks/audit.py --part validation --every 1 --kinds production" in text
    stated = [float(found) for found in re.findall(r"(\.\d+)% of honest accounts", text)]
    rates = [100 * FLAGGED_WHERE_SERVERS_CHOSE, 100 * FLAGGED_WHERE_USERS_CHOSE]
    assert stated == pytest.approx(rates)


def test_a_group_without_clear_members_is_only_suspected() -> None:
    """Honest tastes: a learner may down-weight such accounts, but an audit must not flag them."""
    name = "clicks 2.9% bimodal shrinking best 30x20 rank 1 few 5% 20-80"
    (spec,) = [one for one in production_specs("development") if one.name == name]
    row = audit_production(name, build_production(replace(spec, n_users=2_500), 0), 0)
    assert row.flagged_honest < 0.01
