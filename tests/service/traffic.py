"""Visitors of a shop over HTTP, some of them colluders."""

from __future__ import annotations

import numpy as np

from tests.service.running import Running

#: Purchase rates of honest customers; lunch and dinner by soup, curry and cola.
RATES = {
    "lunch": {"soup": 0.3, "curry": 0.15, "cola": 0.12},
    "dinner": {"soup": 0.12, "curry": 0.3, "cola": 0.12},
}
BEST = {"lunch": "soup", "dinner": "curry"}


def visit(
    server: Running, rng: np.random.Generator, *, n_users: int, visits: int, colluders: float
) -> dict[tuple[str, str], list[float]]:
    """Let every user visit each context several times; return rewards by (context, action).

    The first users are colluders, who buy nothing but cola.
    """
    rewards: dict[tuple[str, str], list[float]] = {}
    for _ in range(visits):
        for context, rates in RATES.items():
            rows = [{"user": f"user-{n}", "context": context} for n in range(n_users)]
            for start in range(0, n_users, 1_000):
                part = rows[start : start + 1_000]
                responses = server.post("/v1/shop/decide/batch", {"decisions": part})["decisions"]
                reported = []
                for number, response in enumerate(responses, start):
                    action = response["action"]
                    if number < colluders * n_users:
                        value = float(action == "cola")
                    else:
                        value = float(rng.random() < rates[action])
                    reported.append({"token": response["token"], "reward": value})
                    rewards.setdefault((context, action), []).append(value)
                taken = server.post("/v1/shop/reward/batch", {"rewards": reported})["rewards"]
                assert all("error" not in one for one in taken)
    return rewards
