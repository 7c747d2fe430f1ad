"""Python, the command line and a cluster share one options class; errors use the caller's terms."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.refusals import refusal
from unswayed import RobustMCB
from unswayed.errors import InputError, Note, option
from unswayed.events import Columns, read_events
from unswayed.learners.from_log import learn_log, learn_on_cluster
from unswayed.learners.options import LearnOptions
from unswayed.policy.partition import Feature, Partition


def test_columns_may_be_named_directly() -> None:
    """They are keywords of `learn_log`; there may be several context columns."""
    table = pa.table(
        {
            "account_id": [f"u{number}" for number in range(80)],
            "country": ["FR", "DE"] * 40,
            "device": ["phone"] * 80,
            "action": ["tea", "tea", "milk", "milk"] * 20,
            "reward": [1.0, 1.0, 0.0, 0.0] * 20,
        }
    )
    two = ["country", "device"]
    policy = learn_log(table, alpha=0.1, user="account_id", context=two).policy
    assert list(policy.context_labels) == ["DE|phone", "FR|phone"]
    one = learn_log(table, alpha=0.1, user="account_id", context="country").policy
    assert list(one.context_labels) == ["DE", "FR"]
    fitted = RobustMCB(alpha=0.1).fit(table, user="account_id", context=two)
    assert fitted.policy_.to_json()["policy"] == policy.to_json()["policy"]


@pytest.mark.parametrize("call", [LearnOptions, RobustMCB, partial(learn_log, None)])
def test_the_old_name_of_alpha_works_with_a_note(call: Any) -> None:
    with pytest.warns(Note, match="adversarial_fraction is now called alpha"), suppress(InputError):
        call(adversarial_fraction=0.2)


@pytest.mark.parametrize(
    ("call", "keyword", "meant"),
    [
        (LearnOptions, "metod", "method"),
        (RobustMCB, "alhpa", "alpha"),
        (partial(learn_log, None), "usr", "user"),
        (partial(RobustMCB().fit, None), "desing", "design"),
        (partial(learn_on_cluster, "x.parquet"), "tally", "tallies"),
    ],
)
def test_an_unknown_keyword_gets_a_suggestion(call: Any, keyword: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"{keyword}'; did you mean '{meant}'"):
        call(**{keyword: 0.2})


def test_options_are_checked_when_they_are_made() -> None:
    """Each invalid value is named by its Python parameter."""
    for wrong, sentence in (
        ({"alpha": 0.7}, "`alpha` is 0.7"),
        ({"alpha": "half"}, "`alpha` is 'half': give a number below 0.5, or auto."),
        ({"alpha": ""}, "`alpha` is ''"),
        ({"method": "bounde"}, "did you mean bounded"),
        ({"design": "magic"}, "`design` is auto or sticky or uniform, not 'magic'."),
        ({"on_bad_rows": "ignore"}, "`on_bad_rows` is error or drop"),
        ({"min_propensity": 0.0}, "`min_propensity` is 0.0"),
        ({"max_interactions_per_user": 0}, "`max_interactions_per_user` is 0"),
        ({"reward_range": "5,1"}, "`reward_range` is '5,1'"),
        ({"half_life": "soon"}, "`half_life` is 'soon'"),
        ({"tallies": "t", "half_life": 9}, "`half_life` cannot be used with `tallies`"),
        (
            {"tallies": "t", "max_interactions_per_user": 9},
            "`max_interactions_per_user` cannot be used with `tallies`",
        ),
    ):
        assert sentence in refusal(LearnOptions, **wrong)
        assert sentence in refusal(LearnOptions().changed, **wrong)


def test_options_can_be_given_as_text() -> None:
    given = LearnOptions(
        alpha="0.2",  # type: ignore[arg-type]  # as the command line gives it
        reward_range="1,5",
        half_life="7d",
        max_interactions_per_user=1,
    )
    assert given.alpha == 0.2
    assert given.reward_range == (1.0, 5.0)
    assert given.half_life == 7 * 86_400.0
    assert given.max_interactions_per_user == 1
    again = given.changed(reward_range=(0, 1), half_life=20)
    assert (again.reward_range, again.half_life) == ((0.0, 1.0), 20.0)
    assert again.alpha == 0.2


LOCAL_ONLY: list[tuple[dict[str, Any], str, str]] = [
    (
        {"query": "SELECT 1"},
        "`query` works only with `learn_log`.",
        "--query works only with --engine local.",
    ),
    (
        {"tallies": "sums"},
        "`tallies` works only with `learn_log`.",
        "--tallies works only with --engine local.",
    ),
    (
        {"half_life": "7d"},
        "`half_life` works only with `learn_log`.",
        "--half-life works only with --engine local.",
    ),
]


@pytest.mark.parametrize(("options", "in_python", "on_command_line"), LOCAL_ONLY)
def test_a_cluster_refuses_options_that_need_all_events_in_one_place(
    options: dict[str, Any], in_python: str, on_command_line: str
) -> None:
    """They are refused before a connection is made."""
    for given, changes in ((None, options), (LearnOptions(**options), {})):
        with pytest.raises(InputError) as caught:
            learn_on_cluster("x.parquet", given, **changes)
        assert str(caught.value) == in_python
        assert caught.value.on_command_line == on_command_line


def test_errors_name_parameters_in_python_and_options_on_the_command_line() -> None:
    """Messages of Python calls contain no dashed options; those of the command line do."""
    bad = pa.table({"user": ["a"], "context": ["x"], "action": ["y"], "reward": [None]})
    for call in (
        lambda: read_events(bad),
        lambda: read_events(bad, columns=Columns(user="account")),
        lambda: learn_log(None),
        lambda: learn_on_cluster("x.parquet", half_life="7d"),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert "--" not in str(caught.value)
        assert "--" not in repr(caught.value)
        assert "--" in caught.value.on_command_line


def test_an_option_may_have_a_different_name_in_python() -> None:
    """What is an option on the command line may be a function in Python."""
    error = InputError(f"use {option('--engine', 'dask', python='learn_on_cluster')}.")
    assert str(error) == "use `learn_on_cluster`."
    assert error.on_command_line == "use --engine dask."


def test_a_given_partition_defines_the_features() -> None:
    partition = Partition((Feature("age", edges=(30.0,)),))
    options = LearnOptions(partition=partition).changed(alpha=0.2)
    assert (options.partition, options.features) == (partition, ("age",))
    wrong: tuple[dict[str, Any], ...] = ({"features": ["country"]}, {"honest": True})
    for other in wrong:
        with pytest.raises(InputError, match="a given partition fixes the features"):
            LearnOptions(partition=partition, **other)
