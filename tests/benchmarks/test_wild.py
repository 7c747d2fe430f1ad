"""The table of ``benchmarks/wild.py`` reports correct counts."""

from dataclasses import replace

import numpy as np
import pytest

from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.tallies import Tallies, UserTallies
from wild import NAIVE, measure, measure_ab, measure_few, summary
from worlds.wild import KINDS

PUSHED = next(kind for kind in KINDS if kind.attack == "sybils")
PEACE = next(kind for kind in KINDS if kind.group == "peace" and kind.size == "ab")


def plain(
    tallies: UserTallies, design: Design, *, alpha: float, warmup: Tallies | None = None
) -> Estimates:
    """Decide by plain means, and remove a tenth of everybody's weight."""
    estimates = learn_paper(tallies, design, alpha=alpha, warmup=warmup)
    with np.errstate(invalid="ignore"):
        means = tallies.cell_sums("sums") / tallies.cell_sums("plays")
    return replace(estimates, mean_rewards=means, user_weights=np.full(tallies.n_users, 0.9))


@pytest.fixture(autouse=True)
def a_plain_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "plain", plain)


def test_a_learner_of_plain_means_is_counted_as_one(seed: int) -> None:
    rows = [measure(kind, "development", seed, ["plain"]) for kind in (PEACE, PUSHED)]
    found = summary(rows)
    assert found["plain"]["attacked"] == found[NAIVE]["attacked"]
    assert found["plain"]["worst in peace"] == 0
    assert found["plain"]["honest lost weight in peace"] == 1
    assert found[NAIVE]["honest lost weight in peace"] == 0
    assert found["plain"]["of them lost as naive loses"] == found["plain"]["costly attacks"]
    assert found["plain"]["seconds, median"] > 0


def test_few_accounts_and_ab_tests_turn_plain_means(seed: int) -> None:
    few = measure_few([seed], ["plain"], "development", "clicks uniform nuke")
    assert max(row.changed for row in few if row.learner == "plain") > 0.5
    assert {row.n_accounts for row in few} == {1, 3, 10, 30}
    ab = measure_ab([seed], ["plain"], "all or nothing")
    wrong = [row for row in ab if row.is_wrong and row.learner == "plain"]
    assert {row.alpha for row in wrong if row.multiple >= 2} == {0.05, 0.1, 0.2, 0.3}
