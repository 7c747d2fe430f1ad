"""The red team: coalitions of our own in a log."""

from dataclasses import replace

import numpy as np
import pytest

from unswayed.audit.redteam import Injection, checked_target, parsed_injection, run_red_team
from unswayed.errors import InputError
from unswayed.events import Events, Labels


def _log(rng: np.random.Generator) -> Events:
    users = np.repeat(np.arange(600), 20)
    contexts, actions = rng.integers(3, size=len(users)), rng.integers(4, size=len(users))
    rewards = (rng.random(len(users)) < np.where(actions == 0, 0.35, 0.25)).astype(float)
    return Events(
        users,
        contexts,
        actions,
        rewards,
        Labels.of([f"u{k}" for k in range(600)]),
        Labels.of(["a", "b", "c"]),
        Labels.of(["best", "one", "two", "three"]),
    )


def test_a_larger_push_moves_the_naive_mean_further_and_the_robust_one_less(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unswayed.audit.redteam.SIZES", (0.0, 0.3))
    sizes: list[float] = []
    found = run_red_team(
        _log(rng),
        Injection("push", 0.15, "one"),
        stated=0.3,
        regime="server",
        on_size=sizes.append,
    )
    assert sizes == [0.0, 0.15, 0.3]
    none, small, large = found.rows
    assert none.naive_shift == none.robust_shift == 0.0
    assert none.accounts == 0
    assert large.accounts == round(0.3 / 0.7 * 600)
    # Members say 1 where 0.25 was the mean, so the mean moves by 0.75 times their share.
    for row in (small, large):
        assert row.naive_shift == pytest.approx(0.75 * row.share, abs=0.03)
        assert abs(row.robust_shift) < row.naive_shift / 2
        assert row.auc > 0.9
        assert row.detected > 0.5
        assert row.false_positives < 0.05
    assert large.naive_hits == 1.0
    assert large.robust_hits == 0.0
    # What is said of it: found from the first size on, unless the log itself was attacked.
    assert "is called an attack from 15% of the accounts on" in found.statement()
    attacked = replace(found, rows=(replace(none, verdict="attacked"), small, large))
    assert "this log is called attacked without it, too" in attacked.statement()


def test_what_is_injected_is_read_and_checked() -> None:
    actions = Labels.of([1, 2, 3])
    assert checked_target(parsed_injection("nuke:0.2", "2"), actions).target == 2
    with pytest.raises(InputError, match="'9' is no action of the log"):
        checked_target(parsed_injection("push:0.1", "9"), actions)
    with pytest.raises(InputError, match="push, nuke, swap, quiet"):
        parsed_injection("shout:0.1", "tea")
    with pytest.raises(InputError, match="above 0 and at most"):
        parsed_injection("push:lots", "tea")
    with pytest.raises(InputError, match="above 0 and at most"):
        parsed_injection("push:0.6", "tea")
    with pytest.raises(InputError, match="needs `target`"):
        parsed_injection("push:0.1", None)
    with pytest.raises(InputError, match="leave `target` out"):
        parsed_injection("swap:0.1", "tea")
