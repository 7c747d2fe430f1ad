"""In every mode, the logged propensity is the probability of the play."""

from typing import Any

import msgspec
import numpy as np
import pytest

from tests.service.running import SHOP
from unswayed.policy import Decider
from unswayed.service.catalogue import Campaign
from unswayed.service.deciding import DecideRequest, Serving
from unswayed.service.planning import make_plan
from unswayed.service.settings import Settings
from unswayed.service.tokens import Record, decode_record, encode_record

MANY_CONTEXTS = msgspec.structs.replace(
    SHOP, contexts=("a", "b", "c", "d"), actions=("x", "y", "z")
)
CASES = {
    "learn, sticky": SHOP,
    "learn, at every play": MANY_CONTEXTS,
    "serve": msgspec.structs.replace(SHOP, mode="serve", explore_share=0.3),
    "serve, held back": msgspec.structs.replace(
        SHOP, mode="serve", explore_share=0.2, control_share=0.5, baseline="curry"
    ),
    "learn, held back": msgspec.structs.replace(MANY_CONTEXTS, control_share=0.25, baseline="z"),
    "shadow": msgspec.structs.replace(SHOP, mode="shadow", explore_share=0.4, control_share=0.1),
}

#: Probability that some comparison of a run fails by chance.
FAILURE = 1e-6


def serving(settings: Settings, secret: bytes) -> Serving:
    plan = make_plan("shop", settings, epoch=3)
    return Serving.of(Campaign("shop", "active", 0, 1, 0, settings), Decider(plan, secret))


def decided(served: Serving, asked: list[tuple[str, str]], own: str | None) -> list[Record]:
    """Return the records of decisions."""
    records = []
    for one in asked:
        record = served.decided(DecideRequest(*one, action=own), 1_000_000)
        records.append(decode_record(encode_record(record)))
    return records


def counted(settings: Settings, rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Decide for n users, one play each; return plays and stated propensities by cell."""
    served = serving(settings, rng.bytes(16))
    own = settings.actions[0] if settings.mode == "shadow" else None
    plays: dict[tuple[str, str], int] = {}
    stated: dict[tuple[str, str], float] = {}
    per_context: dict[str, int] = {}
    for start in range(0, n, 10_000):
        asked = [
            (f"user {number}", settings.contexts[number % len(settings.contexts)])
            for number in range(start, start + 10_000)
        ]
        for record in decided(served, asked, own):
            if settings.mode == "shadow":
                assert (record.action, record.propensity) == (own, 0.0)
                action, propensity = record.planned_action, record.planned_propensity
            else:
                action, propensity = record.action, record.propensity
            cell = (record.context, action)
            plays[cell] = plays.get(cell, 0) + 1
            assert stated.setdefault(cell, propensity) == propensity
            per_context[record.context] = per_context.get(record.context, 0) + 1
    return {"plays": plays, "stated": stated, "per_context": per_context}


def check(found: dict[str, Any]) -> None:
    """Check Hoeffding's bound, shared over the cells."""
    cells = found["stated"]
    for (context, action), propensity in cells.items():
        n = found["per_context"][context]
        slack = np.sqrt(np.log(2 * len(cells) / FAILURE) / (2 * n))
        assert abs(found["plays"][context, action] / n - propensity) < slack, (context, action)
    for context in found["per_context"]:
        total = sum(p for (where, _), p in cells.items() if where == context)
        assert total == pytest.approx(1.0)


@pytest.mark.parametrize("case", CASES)
def test_propensities_match_frequencies(case: str, rng: np.random.Generator) -> None:
    check(counted(CASES[case], rng, 60_000))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_propensities_match_frequencies_over_a_million_decisions(
    case: str, rng: np.random.Generator
) -> None:
    check(counted(CASES[case], rng, 1_000_000))


def test_the_test_notices_a_wrong_propensity(rng: np.random.Generator) -> None:
    found = counted(CASES["serve"], rng, 60_000)
    cell = next(iter(found["stated"]))
    found["stated"][cell] += 0.05
    with pytest.raises(AssertionError):
        check(found)
