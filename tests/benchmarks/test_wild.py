"""The table of ``benchmarks/wild.py`` counts what it says."""

from dataclasses import replace

import numpy as np
import pytest

from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.tallies import Tallies, UserTallies
from wild import (
    NAIVE,
    ORACLE,
    Result,
    Row,
    by_tag,
    is_lost,
    main,
    measure,
    measure_ab,
    measure_few,
    summary,
)
from worlds.wild import KINDS

PUSHED = next(kind for kind in KINDS if kind.attack == "sybils")
PEACE = next(kind for kind in KINDS if kind.group == "peace" and kind.size == "ab")


def plain(
    tallies: UserTallies,
    design: Design,
    *,
    alpha: float,
    warmup: Tallies | None = None,
) -> Estimates:
    """Decide by plain means, and take a tenth of the weight of everybody."""
    estimates = learn_paper(tallies, design, alpha=alpha, warmup=warmup)
    with np.errstate(invalid="ignore"):
        means = tallies.cell_sums("sums") / tallies.cell_sums("plays")
    return replace(
        estimates,
        mean_rewards=means,
        user_weights=np.full(tallies.n_users, 0.9),
    )


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


def a_row(group: str, naive: float, learner: float, oracle: float) -> Row:
    results = {
        name: Result(score, 0.0, 0.0, 1.0, 1.0)
        for name, score in ((NAIVE, naive), ("it", learner), (ORACLE, oracle))
    }
    return Row(f"{group} {learner}", group, (group, "clicks"), "", 0, 1, 1, 0.1, 0.1, results)


def test_means_are_of_their_group_and_fans_are_apart() -> None:
    rows = [
        a_row("peace", 0.1, 0.2, 0.1),
        a_row("peace", 0.1, 0.0, 0.1),
        a_row("fans", 0.1, 0.9, 0.1),
        a_row("unaimed", 0.1, 0.4, 0.1),
        a_row("attacked", 1.0, 0.96, 0.1),
        a_row("attacked", 1.0, 0.2, 0.1),
        a_row("attacked", 0.1, 0.1, 0.1),
    ]
    found = summary(rows)["it"]
    assert found["peace"] == pytest.approx(0.1)
    assert found["worst in peace"] == pytest.approx(0.1)
    assert found["worst in fans"] == pytest.approx(0.8)
    assert found["worst kind in peace"] == "peace 0.2"
    assert found["attacked"] == pytest.approx(1.26 / 3)
    assert (found["costly attacks"], found["of them lost as naive loses"]) == (2, 1)
    assert [is_lost(row, "it") for row in rows[4:6]] == [True, False]
    tags = by_tag(rows)
    assert tags["attacked: clicks (3)"]["it"] == found["attacked"]
    assert tags["other: clicks (4)"]["it"] == pytest.approx(1.5 / 4)


def test_few_accounts_and_ab_tests_turn_plain_means(seed: int) -> None:
    few = measure_few([seed], ["plain"], "development", "clicks uniform nuke")
    assert max(row.changed for row in few if row.learner == "plain") > 0.5
    assert {row.n_accounts for row in few} == {1, 3, 10, 30}
    ab = measure_ab([seed], ["plain"], "all or nothing")
    wrong = [row for row in ab if row.is_wrong and row.learner == "plain"]
    assert {row.alpha for row in wrong if row.multiple >= 2} == {0.05, 0.1, 0.2, 0.3}


def test_an_unknown_method_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wild.py", "--learners", "nobody"])
    with pytest.raises(SystemExit):
        main()
    assert "'nobody'" in capsys.readouterr().err
