"""The café once more, served: customers and the coalition come over HTTP, day after day."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.demo.shop import (
    ADVERSARIAL_FRACTION,
    CONTEXTS,
    ITEMS,
    N_USERS,
    PURCHASE_RATES,
    VISITS,
)
from unswayed.errors import InputError
from unswayed.learners.baselines import BASELINES
from unswayed.learners.interface import Setting
from unswayed.randomness import generator
from unswayed.reports.style import GREY, STYLE, VERMILION, new_figure, save
from unswayed.service.client import Client, ServiceError
from unswayed.storage import temporary_folder, whole_file

#: Visits of every customer; one is a day.
DAYS = 30

#: Learning starts at the end of these days; from the first on the policy is served.
LEARNING_DAYS = (10, 20)

#: Share of customers who go on exploring once a policy is served.
EXPLORE_SHARE = 0.2

#: Seconds in which a purchase counts for its recommendation, and a little more.
_WINDOW = 1.0
_CLOSED = _WINDOW + 1.5

_SECONDS_TO_LEARN = 300.0

CAMPAIGN = "cafe"


@dataclass(frozen=True, slots=True, eq=False)
class ServedOutcome:
    """What the demo found.

    Attributes
    ----------
    robust, naive
        Shape (days,); the purchases of honest customers, as a share of what the best
        recommendations would bring, with this service and with a naive one on the same traffic.
    served
        What the service recommends in the end, by context.
    naive_policy
        What the naive service recommends in the end.
    """

    robust: FloatArray
    naive: FloatArray
    served: dict[str, str]
    naive_policy: dict[str, str]

    @property
    def best(self) -> dict[str, str]:
        """What honest customers like best."""
        return {
            context: ITEMS[int(np.argmax(rates))]
            for context, rates in zip(CONTEXTS, PURCHASE_RATES, strict=True)
        }

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "settings": {
                "users": N_USERS,
                "days": DAYS,
                "alpha": ADVERSARIAL_FRACTION,
                "learning_days": list(LEARNING_DAYS),
                "explore_share": EXPLORE_SHARE,
            },
            "share_of_honest_purchases": {
                "unswayed": self.robust.tolist(),
                "naive": self.naive.tolist(),
            },
            "best": self.best,
            "served": self.served,
            "naive": self.naive_policy,
        }


def play_served(
    *,
    n_days: int = DAYS,
    learning_days: tuple[int, ...] = LEARNING_DAYS,
    seed: int = 0,
    on_day: Callable[[int], None] = lambda _: None,
) -> ServedOutcome:
    """Start the service, send it customers and colluders, learn, and compare.

    ``on_day`` gets the number of days that are over.
    """
    n_users = N_USERS
    rng = generator(seed, "service demo")
    rates, users = np.array(PURCHASE_RATES), np.arange(n_users)
    is_bad = users < round(ADVERSARIAL_FRACTION * n_users)
    naive = BASELINES["naive-ucb"].make(
        Setting(
            n_users=n_users,
            n_contexts=len(CONTEXTS),
            n_actions=len(ITEMS),
            interactions_per_user=n_days,
            alpha=ADVERSARIAL_FRACTION,
            rng=generator(seed, "service demo", "naive"),
        )
    )
    shares: dict[str, list[float]] = {"robust": [], "naive": []}
    with _server() as address, Client(address, CAMPAIGN, timeout=30.0) as client:
        for day in range(1, n_days + 1):
            contexts = rng.choice(len(CONTEXTS), size=n_users, p=VISITS)
            outcomes = (rng.random((n_users, len(ITEMS))) < rates[contexts]).astype(float)
            outcomes[is_bad] = np.arange(len(ITEMS)) == ITEMS.index("MegaCola")
            order = rng.permutation(n_users)
            played = {
                "robust": _served_day(client, order, contexts, outcomes),
                "naive": _in_order(naive.play(order, contexts[order], outcomes[order]), order),
            }
            best = rates.max(axis=1)[contexts[~is_bad]].sum()
            for name, actions in played.items():
                bought = rates[contexts[~is_bad], actions[~is_bad]].sum()
                shares[name].append(float(bought / best))
            if day in learning_days:
                _learn(client)
                client.patch({"mode": "serve", "explore_share": EXPLORE_SHARE})
            on_day(day)
        served = client.get("policy")["policy"]["policy"]
    chosen = naive.action_probabilities(users).argmax(axis=1)
    return ServedOutcome(
        np.array(shares["robust"]),
        np.array(shares["naive"]),
        {context: served[context] for context in CONTEXTS},
        {context: ITEMS[code] for context, code in zip(CONTEXTS, chosen.tolist(), strict=True)},
    )


def _served_day(
    client: Client, order: IntArray, contexts: IntArray, outcomes: FloatArray
) -> IntArray:
    """Let all users visit once, and return what each was recommended."""
    actions = np.empty(len(order), np.int64)
    for start in range(0, len(order), 500):
        arrivals = order[start : start + 500].tolist()
        rows = [(f"customer-{user:04d}", CONTEXTS[contexts[user]]) for user in arrivals]
        rewards = []
        for user, decision in zip(arrivals, client.decide_many(rows), strict=True):
            if isinstance(decision, ServiceError):
                raise decision
            actions[user] = ITEMS.index(decision.action)
            rewards.append((decision.token, float(outcomes[user, actions[user]])))
        client.reward_many(rewards)
    return actions


def _in_order(actions: IntArray, order: IntArray) -> IntArray:
    """Return actions by user instead of by arrival."""
    by_user = np.empty_like(actions)
    by_user[order] = actions
    return by_user


def _learn(client: Client) -> None:
    """Wait until all windows are closed, learn, and wait until the policy is served."""
    time.sleep(_CLOSED)
    job = client.post("learn")
    end = time.monotonic() + _SECONDS_TO_LEARN
    while job["state"] in ("queued", "running"):
        if time.monotonic() > end:
            raise InputError(f"learning took longer than {_SECONDS_TO_LEARN:.0f} seconds.")
        time.sleep(0.2)
        job = client.get(f"learn/{job['id']}")
    if job["state"] != "done":
        raise InputError(f"learning failed: {job['result'].get('error', job['state'])}")


@contextmanager
def _server() -> Iterator[str]:
    """Start `unswayed serve` on a free port and a new store; yield its address."""
    with temporary_folder() as folder:
        campaign = {
            "contexts": list(CONTEXTS),
            "actions": list(ITEMS),
            "alpha": ADVERSARIAL_FRACTION,
            "reward_window": _WINDOW,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in campaign.items()]
        config = folder / "cafe.toml"
        config.write_text("\n".join([f"[campaigns.{CAMPAIGN}]", *lines]), encoding="utf-8")
        command = [sys.executable, "-c", "from unswayed.cli import start; start()", "serve"]
        command += ["--config", str(config), "--port", "0"]
        command += ["--store", f"sqlite:///{folder}/cafe.db"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if " at " not in line:
                raise InputError("the service did not start; its message is above.")
            yield line.split(" at ")[1].split(";")[0]
        finally:
            process.terminate()
            process.wait(timeout=30)
            assert process.stdout is not None
            process.stdout.close()


def draw_served(outcome: ServedOutcome, folder: Path) -> list[Path]:
    """Write service.svg, service.png and their data, and return the files."""
    with mpl.rc_context(STYLE):
        figure, (ax,) = new_figure(width=9, height=4.2)
        days = np.arange(1, len(outcome.robust) + 1)
        ax.plot(days, 100 * outcome.robust, color=VERMILION, marker="o", markersize=4)
        ax.plot(days, 100 * outcome.naive, color=GREY, marker="s", markersize=4)
        for day in LEARNING_DAYS:
            ax.axvline(day + 0.5, color=VERMILION, linewidth=0.8, linestyle=":")
            ax.text(day + 0.6, 4, "learned,\nserved", color=VERMILION, fontsize=9)
        ax.text(days[-1] + 0.3, 100 * outcome.robust[-1], "unswayed", color=VERMILION, va="center")
        ax.text(days[-1] + 0.3, 100 * outcome.naive[-1], "naive UCB", color=GREY, va="center")
        ax.set(
            xlabel="day",
            ylabel="honest purchases,\n% of what is possible",
            ylim=(0, 102),
            xlim=(0.5, days[-1] + 4),
            title=f"{N_USERS:,} customers over HTTP; {ADVERSARIAL_FRACTION:.0%} buy MegaCola only",
        )
        paths = save(figure, folder, "service")
    data = folder / "service.json"
    with whole_file(data) as draft:
        draft.write_text(json.dumps(outcome.to_json(), indent=2) + "\n", encoding="utf-8")
    return [*paths, data]
