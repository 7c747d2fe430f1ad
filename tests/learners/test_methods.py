"""Methods by their names."""

from __future__ import annotations

import pytest

from unswayed.errors import InputError
from unswayed.learners.discount import learn_discounted
from unswayed.learners.methods import METHODS, WHILE_SERVING, method_named, method_names
from unswayed.learners.paper import learn_paper


def test_the_names_are_those_of_all_methods() -> None:
    assert method_names() == list(METHODS)
    assert set(method_names()) >= {"paper", "discount"}


def test_methods_are_found_by_their_names() -> None:
    assert method_named("paper") is learn_paper
    assert method_named("discount") is learn_discounted


def test_while_serving_a_method_of_its_own_is_taken_where_there_is_one() -> None:
    assert method_named("discount", while_serving=True) is WHILE_SERVING["discount"]
    assert method_named("paper", while_serving=True) is learn_paper


@pytest.mark.parametrize("while_serving", [True, False])
def test_an_unknown_name_lists_the_choices(while_serving: bool) -> None:
    with pytest.raises(InputError) as error:
        method_named("papper", while_serving=while_serving)
    choices = ", ".join(sorted(METHODS))
    assert str(error.value) == f"unknown method 'papper': did you mean paper? Choices: {choices}."
