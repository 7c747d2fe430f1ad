"""From a log to a policy: every option takes effect, and every note appears."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from tests.learners.recording import RECORDED, Recording
from tests.refusals import refusal
from unswayed import learn_log
from unswayed.errors import InputError
from unswayed.events import Columns, read_events
from unswayed.learners.change_test import changes_between
from unswayed.learners.design import RewardBound
from unswayed.learners.from_log import NO_WINDOW, STEPS, LearnedLog
from unswayed.learners.options import LearnOptions
from unswayed.tallies import tally_events
from unswayed.tallies.log_data import windows_of
from unswayed.tallies.log_summary import summarise

pytestmark = pytest.mark.usefixtures("recorded")

USERS = [f"user-{number:02}" for number in range(40)]


def noise(*play: object) -> float:
    """Return deterministic noise below 0.1 that depends on the play."""
    return 0.01 * (crc32(repr(play).encode()) % 11)


def rows(users: list[str] = USERS, n_rounds: int = 1) -> dict[str, list[Any]]:
    """Return a log in which every user plays every cell the given number of times."""
    plays = [
        (user, context, action, float(action == best) + noise(user, number, context, action))
        for user in users
        for number in range(n_rounds)
        for context, best in (("home", "tea"), ("cart", "milk"))
        for action in ("tea", "milk")
    ]
    names = ("user", "context", "action", "reward")
    return {
        name: list(column) for name, column in zip(names, zip(*plays, strict=True), strict=True)
    }


LOG = pa.table(rows())


def by_user(learned: LearnedLog, values: Any) -> dict[Any, Any]:
    return dict(sorted(zip(learned.user_labels, values.tolist(), strict=True)))


def learn(log: Any = LOG, **options: Any) -> LearnedLog:
    return learn_log(log, **({"method": RECORDED} | options))


def test_the_result_describes_the_policy_and_the_log(recorded: Recording) -> None:
    learned = learn()
    assert by_user(learned, learned.user_weights) == dict.fromkeys(USERS, 1.0)
    assert by_user(learned, learned.interactions) == dict.fromkeys(USERS, 4)
    assert learned.interactions.dtype == np.int64
    assert learned.provenance.n_rows == 160
    tallies = tally_events(read_events(LOG).events)
    assert learned.summary == summarise(tallies, alpha=0.1)
    policy = learned.policy
    assert policy.decide("home").action == "tea"
    assert policy.decide("cart").action == "milk"
    assert learned.notes == (RewardBound().note(),)
    assert policy.source["read"] == learned.provenance.to_json()
    assert policy.source["findings"] == learned.summary.to_json()
    assert policy.source["notes"] == list(learned.notes)
    assert (policy.source["events"], policy.source["users"]) == (160, 40)
    assert "changes" not in policy.source
    assert recorded.given[-1].alpha == 0.1
    assert recorded.given[-1].warmup is None


def test_options_may_be_changed_in_the_call(recorded: Recording) -> None:
    options = LearnOptions(method=RECORDED, alpha=0.2, design="sticky")
    learned = learn_log(LOG, options)
    assert learned.policy.alpha == recorded.given[-1].alpha == 0.2
    assert recorded.given[-1].design.is_sticky.all()
    learned = learn_log(LOG, options, alpha=0.05, design="uniform")
    assert learned.policy.alpha == recorded.given[-1].alpha == 0.05
    assert not recorded.given[-1].design.is_sticky.any()


def test_a_log_needs_enough_users_for_the_stated_share() -> None:
    """At a share of .1 a cell needs more than 2.25 users, and without colluders more than 1."""
    few = rows(USERS[:2])
    few["context"] = ["rare"] * len(few["context"])
    log = pa.concat_tables([LOG, pa.table(few)])
    assert learn(log, alpha=0.0).summary.n_rare_contexts == 0
    learned = learn(log, alpha=0.1)
    assert learned.summary.rarest_contexts == ("rare",)
    assert learned.notes == (
        "contexts too rare for a sound decision: 1 (4.8% of the events), for instance 'rare'.",
        "decisions whose lead over the runner-up is within sampling error: 1 of 3, for instance in "
        "'rare'.",
        RewardBound().note(),
    )
    assert learned.policy.source["notes"] == list(learned.notes)
    assert "smaller alpha" in refusal(learn, log, alpha=0.45)


def test_an_unknown_share_is_estimated_noted_and_checked(recorded: Recording) -> None:
    learned = learn(alpha="auto", max_interactions_per_user=100)
    found = learned.policy.source["adversarial_fraction"]
    alpha = recorded.given[-1].alpha
    assert found["chosen"] == learned.policy.alpha == alpha
    assert learned.notes[0].startswith("0 users had more than 100 interactions; ")
    assert learned.notes[1] == found["statement"]
    tallies = tally_events(read_events(LOG).events)
    assert learned.summary == summarise(tallies, alpha=alpha)


def test_stated_bounds_on_rewards_reach_the_method(recorded: Recording) -> None:
    """Rewards lie between 0 and 1.1."""
    learn(reward_range="0,1.1", reward_deviation=0.5)
    rewards = recorded.given[-1].design.rewards
    assert rewards == RewardBound(low=0.0, high=1.1, deviation=0.5)
    assert refusal(learn, reward_range=(0, 1)).startswith("`reward_range` is 0 to 1, but rewards")


def test_propensities_weigh_events_and_small_ones_are_raised(recorded: Recording) -> None:
    shares = np.full(160, 0.5)
    shares[:8], shares[8:12] = 0.01, 0.05
    log = LOG.append_column("propensity", pa.array(shares))
    learned = learn(log, min_propensity=0.05)
    assert learned.notes[0] == (
        "events are weighted by 1/propensity; 5.00% of the propensities are below 0.05 and count "
        "as that."
    )
    # With two actions an event of propensity .5 has weight one, and one of .05 or less weight ten.
    counts = by_user(learned, recorded.given[-1].tallies.interactions)
    assert list(counts.values()) == pytest.approx([40.0] * 3 + [4.0] * 37)
    assert learned.summary.is_weighted
    assert learned.interactions.tolist() == [4] * 40
    learn(log, min_propensity=0.01)
    counts = by_user(learned, recorded.given[-1].tallies.interactions)
    assert counts["user-00"] == pytest.approx(4 * 0.5 / 0.01)


def test_a_cap_is_applied_and_noted(recorded: Recording) -> None:
    log = pa.concat_tables([LOG, pa.table(rows(USERS[:3], n_rounds=5))])
    learned = learn(log, max_interactions_per_user=6)
    assert list(by_user(learned, learned.interactions).values()) == [6] * 3 + [4] * 37
    assert recorded.given[-1].tallies.interactions.sum() == 18 + 148
    assert learned.notes[0] == (
        "3 users had more than 6 interactions; a sample of as many was kept of each, and 54 events "
        "left out."
    )
    assert learned.policy.source["notes"][0] == learned.notes[0]


def test_logs_are_added_to_a_folder_and_learned_from_together(
    tmp_path: Path, recorded: Recording
) -> None:
    heard: list[str] = []
    first, second = LOG.slice(0, 80), LOG.slice(80)
    table = second.to_pydict()
    table["reward"][0] = None
    learn(first, tallies=tmp_path)
    both = learn(pa.table(table), tallies=tmp_path, on_bad_rows="drop", on_step=heard.append)
    assert tuple(heard) == STEPS
    assert both.summary.n_events == 159
    assert [note.split(" (")[0] for note in both.notes[:2]] == [
        "rows left out: 1",
        f"learned from 2 logs in {tmp_path}.",
    ]
    assert both.provenance.n_rows == 80
    whole = learn(pa.concat_tables([first, second.slice(1)]))
    np.testing.assert_array_equal(both.policy.mean_rewards, whole.policy.mean_rewards)
    del heard[:]
    again = learn(None, tallies=tmp_path, on_step=heard.append)
    assert heard == ["reading", "validating", "learning"]
    # the bad row was already reported when its log was added
    assert again.notes[0] == f"learned from 2 logs in {tmp_path}."
    assert again.provenance == both.provenance
    np.testing.assert_array_equal(again.policy.mean_rewards, both.policy.mean_rewards)
    assert len(recorded.given) == 4


def test_options_that_a_folder_cannot_support_are_refused(tmp_path: Path) -> None:
    assert refusal(learn, None) == (
        "nothing to learn from: give a log, or `tallies` with a folder of tallies."
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refusal(learn, None, tallies=empty) == (
        f"{empty} holds no tallies yet; give a log to add to them."
    )


def test_changes_are_tested_noted_and_recorded() -> None:
    """For forty days cells are played once a day; then tea and milk swap their means."""
    table = rows(n_rounds=40)
    times = np.tile(np.repeat(np.arange(40.0), 4), 40)
    rewards = np.array(table["reward"])
    log = pa.table({**table, "time": times, "reward": np.where(times >= 30, 2 - rewards, rewards)})
    learned = learn(log, half_life=10, alpha=0.05)
    events = read_events(log, is_dated=True).events
    windows = windows_of(events, 10.0)
    assert windows is not None
    expected = changes_between(*windows, alpha=0.05)
    assert learned.policy.source["changes"] == expected.to_json()
    assert learned.notes[-1] == expected.statement()
    assert learned.notes[0].startswith("with a half-life of 10 ")
    n_forgotten = len(events) - learned.summary.n_events
    assert f" {n_forgotten:,} events were forgotten" in learned.notes[0]
    assert learned.policy.source["notes"] == list(learned.notes)
    whole = learn(log, half_life=100, alpha=0.05)
    assert whole.notes[-1] == NO_WINDOW
    assert "changes" not in whole.policy.source
    assert learn(log).summary.n_events == len(events)


def test_later_logs_of_a_folder_use_the_bins_of_the_first(tmp_path: Path) -> None:
    prices = np.where(np.array(rows()["context"]) == "home", 1.0, 9.0)
    log = LOG.drop_columns("context").append_column("price", pa.array(prices))
    columns = Columns(context=("price",), bins={"price": 2})
    first = learn(log, columns=columns, tallies=tmp_path)
    (edge,) = first.provenance.bins["price"]
    later = log.set_column(3, "price", pa.array(prices * 100)).slice(0, 80)
    second = learn(later, columns=columns, tallies=tmp_path)
    assert second.provenance.bins == {"price": (edge,)}
    assert list(second.policy.context_labels) == list(first.policy.context_labels)
    with pytest.raises(InputError, match="made with other bins"):
        learn(later.slice(0, 40), context="price", tallies=tmp_path)
