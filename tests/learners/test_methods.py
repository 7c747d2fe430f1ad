"""Looking up methods by name."""

from __future__ import annotations

import pytest

from unswayed.errors import InputError, Note
from unswayed.learners.bounded import learn_bounded
from unswayed.learners.methods import DEFAULT_METHOD, METHODS, method_named, method_names
from unswayed.learners.paper import learn_paper


def test_all_methods_can_be_looked_up_by_name() -> None:
    assert method_names() == list(METHODS)
    assert set(method_names()) >= {"paper", "bounded"}
    assert DEFAULT_METHOD == "bounded"
    assert method_named("paper") is learn_paper
    assert method_named("bounded") is learn_bounded


def test_the_old_name_of_the_default_method_still_works() -> None:
    with pytest.warns(Note, match="discount is now called bounded"):
        assert method_named("discount") is learn_bounded


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(InputError) as error:
        method_named("papper")
    choices = ", ".join(sorted(METHODS))
    assert str(error.value) == f"unknown method 'papper': did you mean paper? Choices: {choices}."
