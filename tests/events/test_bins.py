from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from unswayed.errors import InputError
from unswayed.events import Columns, read_events


def priced(users: np.ndarray, prices: np.ndarray) -> pa.Table:
    n = len(users)
    return pa.table(
        {"user": users, "price": prices, "action": np.arange(n) % 2, "reward": np.zeros(n)}
    )


def edges_of(table: pa.Table, n_bins: int) -> np.ndarray:
    columns = Columns(context=("price",), bins={"price": n_bins})
    return np.array(read_events(table, columns=columns).provenance.bins["price"])


@pytest.mark.parametrize("cuts", [[3, 1], [1, 1], [float("nan")], [float("inf")], "ab", 2.5, None])
def test_edges_of_bins_are_finite_and_ascend(cuts: Any) -> None:
    with pytest.raises(InputError, match=r"the bins of column 'price' are .*numbers that ascend"):
        Columns(context=("price",), bins={"price": cuts})
    given: Any = np.array([1, 2.5])
    assert Columns(context=("price",), bins={"price": given}).edges == {"price": (1.0, 2.5)}


def test_bins_hold_equal_shares_of_the_users(rng: np.random.Generator) -> None:
    prices = rng.exponential(size=40_000)
    edges = edges_of(priced(np.arange(40_000) % 2_000, prices), 10)
    shares = np.diff(np.searchsorted(np.sort(prices), edges)) / len(prices)
    # A user's 16 votes are quantiles of 20 draws, so the level of a vote is off by at most 1/16;
    # averaging over 2,000 users adds an error of O(1/sqrt(2000)) = .02.
    assert np.abs(shares - 0.1).max() < 0.03


def test_a_flood_moves_edges_at_most_by_its_share_of_users(
    rng: np.random.Generator,
) -> None:
    """The negative control, quantiles over events, is shifted by the same flood."""
    users, prices = np.arange(20_000) % 1_000, rng.random(20_000)
    flood_users = (
        1_000 + np.arange(200_000) % 50
    )  # fewer than 5 % of the users, but 91 % of the events
    table = priced(np.append(users, flood_users), np.append(prices, np.full(200_000, 0.987654321)))
    edges = edges_of(table, 4)
    honest = edges_of(priced(users, prices), 4)
    # 50 of 1,050 users vote at the top: an edge at level q among all lies at level
    # q·1050/1000 ≤ q + .05 among the honest, whose prices are uniform on [0, 1].
    assert np.abs(edges - honest).max() <= 0.05 + 0.01
    control = np.quantile(table["price"].to_numpy(), [0.25, 0.5, 0.75])
    assert np.abs(control - honest).max() > 0.5


def test_given_edges_are_kept() -> None:
    table = priced(np.arange(3), np.array([1.0, 5.0, 9.0]))
    columns = Columns(context=("price",), bins={"price": (4.0, 8.0)})
    events = read_events(table, columns=columns).events
    assert list(events.context_labels) == ["4<=price<8", "8<=price", "price<4"]


def test_binned_and_other_columns_are_joined() -> None:
    table = priced(np.arange(2), np.array([1.0, 5.0])).append_column("land", pa.array(["a", "b"]))
    columns = Columns(context=("land", "price"), bins={"price": (4.0,)})
    events = read_events(table, columns=columns).events
    assert list(events.context_labels) == ["a|price<4", "b|4<=price"]


def test_text_cannot_be_binned() -> None:
    table = priced(np.arange(2), np.array(["cheap", "dear"]))
    with pytest.raises(InputError, match="holds no numbers"):
        edges_of(table, 3)
