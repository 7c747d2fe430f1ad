"""One options object for Python, the command line and a cluster; errors in the reader's words."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pyarrow as pa
import pytest

from unswayed.errors import InputError, option
from unswayed.events import Columns, read_events
from unswayed.learners.from_log import learn_log, learn_on_cluster
from unswayed.learners.options import LearnOptions, OptionKeywords


def test_keywords_and_fields_of_the_options_agree() -> None:
    """A new option must be given to both."""
    kinds = get_type_hints(LearnOptions)
    assert kinds == get_type_hints(OptionKeywords)
    assert list(kinds) == [field.name for field in fields(LearnOptions)]


def test_options_are_checked_when_they_are_made() -> None:
    """Each wrong value is named, in the words of Python."""
    for wrong, sentence in (
        ({"adversarial_fraction": 0.7}, "`adversarial_fraction` is 0.7"),
        ({"adversarial_fraction": "half"}, "`adversarial_fraction` is 'half'"),
        ({"method": "discont"}, "did you mean discount"),
        ({"design": "magic"}, "`design` is auto or sticky or uniform"),
        ({"on_bad_rows": "ignore"}, "`on_bad_rows` is error, drop"),
        ({"min_propensity": 0.0}, "`min_propensity` is 0.0"),
        ({"max_interactions_per_user": 0}, "`max_interactions_per_user` is 0"),
    ):
        with pytest.raises(InputError) as caught:
            LearnOptions(**wrong)
        assert sentence in str(caught.value)


def test_errors_name_parameters_in_python_and_options_on_the_command_line(tmp_path: Path) -> None:
    """No message of a Python call has two dashes; the command line has them."""
    bad = pa.table({"user": ["a"], "context": ["x"], "action": ["y"], "reward": [None]})
    database = f"sqlite:///{tmp_path / 'no.db'}"
    for call in (
        lambda: read_events(bad),
        lambda: read_events(bad, columns=Columns(user="account")),
        lambda: read_events(database),
        lambda: learn_log(None),
        lambda: learn_on_cluster("x.parquet", query="SELECT 1"),
        lambda: learn_on_cluster("x.parquet", memory=10**9),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert "--" not in str(caught.value)
        assert "--" not in repr(caught.value)
        assert "--" in caught.value.on_command_line


def test_an_option_may_have_another_name_in_python() -> None:
    """A suggestion for the command line may be a function in Python."""
    error = InputError(f"use {option('--engine', 'dask', python='learn_on_cluster')}.")
    assert str(error) == "use `learn_on_cluster`."
    assert error.on_command_line == "use --engine dask."
