"""What is said of an unknown share, and which shares would be seen."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from tests.refusals import refusal
from unswayed.learners.unknown_fraction import (
    CEILING,
    CLEAR_ORIENTATION,
    UnknownFraction,
    check_fraction_or_auto,
    is_seen,
)

FOUND = UnknownFraction(
    chosen=0.1534,
    accused=0.101,
    suspected=0.02,
    upper=0.14,
    allowance=0.0134,
    seen_to=0.31,
    hidden_from=0.4,
    gap=0.2,
    answers_per_user=12.5,
)


def test_a_statement_says_what_was_found_and_what_cannot_be_known() -> None:
    assert FOUND.statement() == (
        "alpha = 0.153 was chosen from the data: 10.1% of the users look like a coalition, another "
        "2.0% stand apart (together at most 14.0%), and 1.3% is allowed for those who go unseen. A "
        "coalition up to 31.0% that turns most decisions round would be seen; larger ones, lies in "
        "few contexts, and lies that turn only close decisions may not. From 40.0% on some "
        "coalition is hidden from every method: if you cannot rule it out, state alpha yourself."
    )


def test_a_statement_leaves_out_what_does_not_apply() -> None:
    short = (
        "alpha = 0.153 was chosen from the data: no coalition was seen, and 1.3% is allowed for "
        "those who go unseen. A coalition up to 31.0% that turns most decisions round would be "
        "seen; larger ones, lies in few contexts, and lies that turn only close decisions may not."
    )
    for hidden_from in (None, CEILING):
        found = replace(FOUND, upper=0.0, hidden_from=hidden_from)
        assert found.statement() == short
        assert found.to_json() == {**asdict(found), "statement": short}


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.45])
@pytest.mark.parametrize("separation", [0.5, 1.0, 3.0])
def test_a_share_is_seen_from_the_number_of_users_that_its_skewness_asks_for(
    share: float, separation: float
) -> None:
    """The skewness is that of the mixture itself; each user is worth a third of its square."""
    places, masses = np.array([0.0, separation]), np.array([1 - share, share])
    central = places - masses @ places
    variance = 1.0 + masses @ central**2
    skewness = masses @ central**3 / variance**1.5
    least = math.ceil(3 * CLEAR_ORIENTATION / skewness**2)
    shares, separations = np.array([share]), np.array([separation])
    assert is_seen(shares, separations, least).tolist() == [True]
    assert is_seen(shares, separations, math.floor(least * 0.999) - 1).tolist() == [False]


def test_a_share_or_auto_is_taken_and_a_wrong_one_named() -> None:
    assert [check_fraction_or_auto(value) for value in ("auto", "0.2", 0, 0.3)] == [
        *("auto", 0.2, 0.0, 0.3),
    ]
    assert refusal(check_fraction_or_auto, "few", name="the share") == (
        "the share is 'few': give a number below 0.5, or auto."
    )
    assert refusal(check_fraction_or_auto, 0.5, name="the share").startswith("the share is 0.5: ")
