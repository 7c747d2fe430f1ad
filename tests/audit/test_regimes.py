"""Who chose the actions is inferred from the log, or stated by the caller."""

import numpy as np
import pytest

from tests.audit.markets import market
from unswayed.audit.auditing import audit_log
from unswayed.audit.regimes import RegimeName, regime_of_log
from unswayed.errors import InputError
from unswayed.events import Events, Labels
from unswayed.tallies import tally_events
from unswayed.tallies.log_summary import summarise


def _regime(events: Events, wanted: RegimeName = "auto") -> str:
    tallies = tally_events(events).uniform()
    findings = summarise(tallies, alpha=0.05)
    return regime_of_log(tallies, findings, wanted).name


def _bandit(rng: np.random.Generator, probabilities: np.ndarray, *, logs: bool) -> Events:
    users = np.repeat(np.arange(800), 15)
    actions = rng.choice(len(probabilities), p=probabilities, size=len(users))
    return Events(
        users,
        np.zeros(len(users), dtype=np.int64),
        actions,
        (rng.random(len(users)) < 0.3).astype(float),
        Labels.of(range(800)),
        Labels.of(["home"]),
        Labels.of(range(len(probabilities))),
        probabilities[actions] if logs else None,
    )


def test_uniform_play_is_attributed_to_the_server(rng: np.random.Generator) -> None:
    assert _regime(_bandit(rng, np.full(10, 0.1), logs=False)) == "server"


def test_a_log_with_propensities_is_attributed_to_the_server(rng: np.random.Generator) -> None:
    greedy = np.array([0.7, *([0.3 / 99] * 99)])
    assert _regime(_bandit(rng, greedy, logs=True)) == "server"


def test_a_greedy_server_without_propensities_is_a_server(rng: np.random.Generator) -> None:
    greedy = np.array([0.73, *([0.03] * 9)])
    assert _regime(_bandit(rng, greedy, logs=False)) == "server"


def test_reviews_are_the_users_choice(rng: np.random.Generator) -> None:
    drawn = market(rng, n_groups=2)
    pairs, first = np.unique(drawn.users * drawn.n_items + drawn.items, return_index=True)
    events = Events(
        drawn.users[first],
        np.zeros(len(pairs), dtype=np.int64),
        drawn.items[first],
        drawn.stars[first],
        Labels.of(range(drawn.n_users)),
        Labels.of(["all"]),
        Labels.of(range(drawn.n_items)),
    )
    assert _regime(events) == "users"
    assert _regime(events, "server") == "server"


def test_an_unknown_regime_is_refused() -> None:
    with pytest.raises(InputError, match="`regime` is auto, server or users"):
        audit_log("log.parquet", regime="bots")  # type: ignore[arg-type]


def test_few_users_who_rate_often_choose_for_themselves(rng: np.random.Generator) -> None:
    """With fewer users than items, uniform play cannot be tested by user, only by item."""
    popularity = (1.0 + rng.permutation(600)) ** -0.8
    chosen = [rng.choice(600, p=popularity / popularity.sum(), size=80) for _ in range(300)]
    evenly = [rng.choice(600, size=80) for _ in range(300)]
    for items, expected in ((chosen, "users"), (evenly, "server")):
        users = np.repeat(np.arange(300), 80)
        events = Events(
            users,
            np.zeros(len(users), dtype=np.int64),
            np.concatenate(items),
            rng.integers(1, 6, size=len(users)).astype(float),
            Labels.of(range(300)),
            Labels.of(["all"]),
            Labels.of(range(600)),
        )
        assert _regime(events) == expected
