"""`unswayed demo`: a small shop under attack, in under a minute; or a click log to learn from."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa

from unswayed.cli.options import Json, Seed
from unswayed.demo.news import write_news
from unswayed.demo.shop import (
    ADVERSARIAL_FRACTION,
    CONTEXTS,
    INTERACTIONS_PER_USER,
    ITEMS,
    N_USERS,
    Outcome,
    draw,
    play,
)
from unswayed.names import find
from unswayed.reports.policies import write_table
from unswayed.reports.tables import print_json, print_line, print_table, progress_bar
from unswayed.storage import check_writable_folder


def demo(out: Path = Path("demo"), world: str = "cafe", seed: Seed = 0, json: Json = False) -> None:
    """Show what a coalition of fake customers does to a naive bandit, and to unswayed.

    out: Folder for the picture and the log.
    world: cafe: simulate and compare; news: only write two days of a click log with bots, its true
        click rates and the bots' names.
    """
    write = find(world, {"cafe": None, "news": write_news}, kind="world")
    check_writable_folder(out)
    if write is not None:
        files = [str(file) for file in write(out, seed)]
        if json:
            print_json({"files": files})
        else:
            print_line(f"Written: {', '.join(files)}.")
        return
    import_module("matplotlib")  # Fail early if the extra is missing.
    with progress_bar() as bar:
        bar.add_task("simulating customers and learning", total=None)
        outcome = play(seed)
    pictures = draw(outcome, out)
    log = out / "log.csv"
    _write_log(outcome, log)
    columns = ("context", "best", "naive", "unswayed")
    choices = (np.array(ITEMS)[codes] for codes in (outcome.best, outcome.naive, outcome.robust))
    rows = [tuple(map(str, row)) for row in zip(CONTEXTS, *choices, strict=True)]
    shares = {"naive": outcome.naive_share, "unswayed": outcome.robust_share}
    if json:
        print_json(
            {
                "settings": {
                    "users": N_USERS,
                    "interactions": INTERACTIONS_PER_USER,
                    "alpha": ADVERSARIAL_FRACTION,
                },
                "results": [dict(zip(columns, row, strict=True)) for row in rows],
                "share_of_honest_purchases": shares,
                "files": [str(file) for file in (*pictures, log)],
            }
        )
        return
    print_line(
        f"A café recommends one item per visit to {N_USERS:,} customers, {INTERACTIONS_PER_USER} "
        f"visits each. {ADVERSARIAL_FRACTION:.0%} of the accounts belong to the maker of MegaCola: "
        "they buy it whenever they see it, and nothing else. Nobody knows which accounts.\n"
    )
    print_table(
        "What is recommended",
        ["when", "honest customers like best", "a naive bandit says", "unswayed says"],
        [
            [when, best, *(f"{'✓' if item == best else '✗'} {item}" for item in said)]
            for when, best, *said in rows
        ],
    )
    print_line(
        f"\nOf the purchases that honest customers could make, the naive bandit gets "
        f"{shares['naive']:.0%} and unswayed {shares['unswayed']:.0%}."
        f"\n\nPicture: {pictures[-1]}   Log: {log}"
    )


def _write_log(outcome: Outcome, path: Path) -> None:
    log = outcome.log
    table = {
        "user": log.user_labels.values[log.users],
        "context": log.context_labels.values[log.contexts],
        "action": log.action_labels.values[log.actions],
        "reward": log.rewards,
    }
    write_table(pa.table(table), path)
