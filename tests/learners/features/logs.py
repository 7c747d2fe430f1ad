"""A small shop whose customers have attributes, with and without a coalition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

FEATURES = ["country", "age", "hour"]
BEST, OTHERS = 0.14, 0.06
N_USERS, N_PLAYS = 1_500, 24


def best_action(country: np.ndarray, age: np.ndarray) -> np.ndarray:
    """Tea in the north; elsewhere milk for the young, and for those of unknown age, else water."""
    young = np.where(np.isnan(age) | (age < 40.0), "milk", "water")
    return np.where(np.isin(country, ["NO", "SE"]), "tea", young)


def shop_log(rng: np.random.Generator, *, is_pushed: bool = False) -> pa.Table:
    """If ``is_pushed``, every tenth account rewards cola and nothing else."""
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    country = rng.choice(["NO", "SE", "DE", "FR", "IT"], N_USERS)[users]
    age = rng.uniform(18.0, 70.0, N_USERS)[users]
    age[rng.random(len(users)) < 0.05] = np.nan
    hour = rng.integers(24, size=len(users))
    actions = rng.choice(["cola", "milk", "tea", "water"], len(users))
    chances = np.where(actions == best_action(country, age), BEST, OTHERS)
    rewards = (rng.random(len(users)) < chances).astype(float)
    is_bot = (users % 10 == 0) & is_pushed
    rewards[is_bot] = actions[is_bot] == "cola"
    return pa.table(
        {
            "user": [f"u{user}" for user in users],
            "country": country,
            "age": pa.array(age, from_pandas=True),
            "hour": hour,
            "action": actions,
            "reward": rewards,
        }
    )


def linear_log(rng: np.random.Generator) -> pa.Table:
    """Rewards are linear in three numbers of each visit, which trees fit poorly."""
    users = np.repeat(np.arange(N_USERS), 20)
    numbers = rng.standard_normal((len(users), 3))
    actions = rng.integers(3, size=len(users))
    rewards = (numbers @ rng.standard_normal((3, 3)))[np.arange(len(users)), actions]
    return pa.table(
        {
            "user": [f"u{user}" for user in users],
            **{name: numbers[:, place] for place, name in enumerate(FEATURES)},
            "action": [f"a{action}" for action in actions],
            "reward": rewards + rng.standard_normal(len(users)),
        }
    )


def visits(rng: np.random.Generator, n: int = 2_000) -> tuple[pa.Table, np.ndarray]:
    """Return new visits, and the best action of each."""
    country = rng.choice(["NO", "SE", "DE", "FR", "IT"], n)
    age = rng.uniform(18.0, 70.0, n)
    table = pa.table({"country": country, "age": age, "hour": rng.integers(24, size=n)})
    return table, best_action(country, age)
