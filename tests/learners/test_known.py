"""Reviewed accounts tell what a log cannot: whether a group is honest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unswayed import evaluate_policy
from unswayed.errors import InputError
from unswayed.learners.from_log import LearnedLog, learn_log

N_USERS, N_FANS, N_EVENTS = 1_500, 150, 24


def _log(seed: int) -> pa.Table:
    """Return clicks in six contexts; a tenth of the users love the least popular item."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(N_USERS), N_EVENTS)
    actions = rng.integers(4, size=len(users))
    rates = np.array([0.12, 0.09, 0.06, 0.04])[actions]
    rates = np.where((users < N_FANS) & (actions == 3), 0.95, rates)
    return pa.table(
        {
            "user": [f"u{user}" for user in users],
            "context": [f"c{c}" for c in rng.integers(6, size=len(users))],
            "action": [f"item {a}" for a in actions],
            "reward": (rng.random(len(users)) < rates).astype(float),
        }
    )


def _learned(log: pa.Table, known: Path | None = None, alpha: float | str = 0.1) -> LearnedLog:
    return learn_log(log, alpha=alpha, known=known)


def _loved(learned: LearnedLog) -> float:
    actions = learned.policy.actions
    return float(np.mean([learned.policy.action_labels[a] == "item 3" for a in actions]))


def _file(folder: Path, users: range, status: str, *, fakes: range = range(0)) -> Path:
    rows = [f"u{user},{status}\n" for user in users] + [f"u{user},fake\n" for user in fakes]
    path = folder / f"{status}.csv"
    path.write_text("user,status\n" + "".join(rows))
    return path


def test_a_group_with_a_few_honest_members_is_not_flagged(tmp_path: Path, seed: int) -> None:
    """Without reviews the group is flagged; if five members are reviewed as honest, it is not."""
    log = _log(seed)
    assert _loved(_learned(log)) == 0.0
    cleared = _learned(log, _file(tmp_path, range(5), "honest"))
    assert cleared.user_weights.min() == 1.0
    assert _loved(cleared) == 1.0
    assert any("0 fake" in note and "5 honest" in note for note in cleared.notes)


@pytest.mark.parametrize(
    ("honest", "fakes"),
    [
        (range(1), range(0)),
        (range(1), range(1, 2)),
        (range(4), range(4, 6)),
        (range(N_FANS, N_FANS + 100), range(1)),
    ],
    ids=["one honest", "one of each", "two of six fake", "honest accounts outside the group"],
)
def test_reviews_that_do_not_settle_it_clear_reviewed_accounts_only(
    tmp_path: Path, seed: int, honest: range, fakes: range
) -> None:
    """A colluder who passes for honest does not clear the others."""
    found = _learned(_log(seed), _file(tmp_path, honest, "honest", fakes=fakes))
    weights = dict(zip(found.user_labels, found.user_weights, strict=True))
    assert _loved(found) == 0.0
    assert min(weights[f"u{user}"] for user in honest) == 1.0
    others = [u for u in range(N_FANS) if u not in honest]
    assert np.mean([weights[f"u{user}"] for user in others]) < 0.3


def test_accounts_that_resemble_reviewed_fakes_are_flagged(tmp_path: Path, seed: int) -> None:
    """Reviewed fakes lose their weight, and so do accounts that act like them."""
    log = _log(seed)
    found = _learned(log, _file(tmp_path, range(5), "fake"), alpha="auto")
    weights = dict(zip(found.user_labels, found.user_weights, strict=True))
    assert max(weights[f"u{user}"] for user in range(5)) == 0.0
    assert np.mean([weights[f"u{user}"] for user in range(N_FANS)]) < 0.3
    assert np.mean([weights[f"u{user}"] for user in range(N_FANS, N_USERS)]) > 0.95


def test_only_the_default_method_takes_reviews(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="works with"):
        learn_log(_log(0), method="paper", known=_file(tmp_path, range(1), "fake"))


def test_reviewed_accounts_change_the_value_of_a_policy(tmp_path: Path, seed: int) -> None:
    """The item that a tenth love is a loss without them, and a gain if they are honest."""
    loved = pa.table(
        {"context": [f"c{c}" for c in range(6)], "action": ["item 3"] * 6, "probability": [1.0] * 6}
    )
    without, with_them = (
        evaluate_policy(_log(seed), loved, alpha=0.1, known=known).honest.uplift.estimate
        for known in (None, _file(tmp_path, range(5), "honest"))
    )
    # By construction: -.0375 for the others, and +.0535 over all users.
    assert without < 0.0 < with_them
