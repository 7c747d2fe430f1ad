"""A worked example: two days of a news page's click log with bots, and the true click rates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from unswayed.randomness import generator
from unswayed.storage import whole_file

COUNTRIES, DEVICES = ("de", "fr", "pl"), ("mobile", "desktop")
STORIES = ("politics", "football", "weather", "recipes", "gossip")
#: Honest readers' click rates; one row per country and device.
CLICK_RATES = (
    (0.011, 0.024, 0.015, 0.009, 0.013),
    (0.022, 0.014, 0.010, 0.008, 0.012),
    (0.010, 0.016, 0.012, 0.025, 0.014),
    (0.024, 0.011, 0.009, 0.016, 0.012),
    (0.012, 0.026, 0.018, 0.010, 0.014),
    (0.013, 0.021, 0.012, 0.008, 0.011),
)
DAYS = ("monday", "tuesday")
N_USERS = 20_000
#: Share of bots, and their click rate on gossip; on other stories they click like other readers.
BOTS, BOT_RATE = 0.04, 0.6
#: Half of the visits get politics, the others one of the stories at random.
EXPLORED = 0.5
#: Visits per account and day are Poisson; their mean is log-normal with this median and spread.
MEDIAN_VISITS, SPREAD, MOST_VISITS = 6.0, 1.3, 500


def write_news(folder: Path, seed: int = 0) -> list[Path]:
    """Write the logs of both days, the click rates and the bots to a folder; return the files."""
    rng = generator(seed, "news")
    country = rng.integers(len(COUNTRIES), size=N_USERS)
    is_bot = rng.random(N_USERS) < BOTS
    mobile = rng.random(N_USERS)
    activity = rng.lognormal(np.log(MEDIAN_VISITS), SPREAD, N_USERS)
    names = np.array([f"u{code:05d}" for code in rng.permutation(N_USERS)])
    rates = np.array(CLICK_RATES).reshape(len(COUNTRIES), len(DEVICES), len(STORIES))
    tables = {}
    for number, day in enumerate(DAYS):
        visits = np.minimum(rng.poisson(activity), MOST_VISITS)
        user = rng.permutation(np.repeat(np.arange(N_USERS), visits))
        n = len(user)
        device = (rng.random(n) > mobile[user]).astype(np.int64)
        story = np.where(rng.random(n) < EXPLORED, rng.integers(len(STORIES), size=n), 0)
        is_paid = is_bot[user] & (story == STORIES.index("gossip"))
        rate = np.where(is_paid, BOT_RATE, rates[country[user], device, story])
        midnight = np.datetime64("2026-03-02T00:00:00") + np.timedelta64(number, "D")
        tables[f"{day}.parquet"] = {
            "time": midnight + np.sort(rng.integers(86_400, size=n)).astype("m8[s]"),
            "user": names[user],
            "country": np.array(COUNTRIES)[country[user]],
            "device": np.array(DEVICES)[device],
            "story": np.array(STORIES)[story],
            "propensity": EXPLORED / len(STORIES) + (1 - EXPLORED) * (story == 0),
            "click": (rng.random(n) < rate).astype(np.int64),
        }
    where = np.indices(rates.shape).reshape(3, -1)
    labels = zip(("country", "device", "story"), (COUNTRIES, DEVICES, STORIES), where, strict=True)
    tables["rates.csv"] = {
        **{name: np.array(values)[codes] for name, values, codes in labels},
        "rate": rates.ravel(),
    }
    tables["bots.csv"] = {"user": np.sort(names[is_bot])}
    for name, columns in tables.items():
        write = pq.write_table if name.endswith(".parquet") else pc.write_csv
        with whole_file(folder / name) as draft:
            write(pa.table(columns), draft)
    return [folder / name for name in tables]
