"""Vowpal Wabbit as a learner from attributes; its package is optional."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from unswayed.errors import InputError

#: Options that had the largest share on logs without an attack (``benchmarks/features.py --tune``).
TUNED = "--cb_type dr -l 0.003"


def actions_of(
    log: pa.Table, visits: pa.Table, choices: Sequence[str] = (TUNED,), *, n_passes: int = 2
) -> Iterator[tuple[list[str], float]]:
    """Yield, for each choice, the actions for visits and the processor seconds of training.

    The model is a contextual bandit with action-dependent features (``cb_adf``), trained on the
    shuffled log, with attributes crossed with actions. ``choices`` are further options.
    """
    try:
        import vowpalwabbit
    except ImportError as error:
        raise InputError(
            "Vowpal Wabbit is not installed; run: pip install vowpalwabbit, or leave it out."
        ) from error
    actions = sorted(set(log["action"].to_pylist()))
    shuffled = log.take(pa.array(np.random.default_rng(0).permutation(len(log))))
    with tempfile.TemporaryDirectory() as folder:
        train, test, model, out = (
            Path(folder) / name for name in ("train", "test", "model", "out")
        )
        for path, table in ((train, shuffled), (test, visits)):
            with path.open("w") as file:
                file.writelines(_examples(table, visits.column_names, actions))
        for options in choices:
            arguments = f"--cb_adf -q sa -b 20 --quiet {options} -d {train} -f {model}"
            more = f" --passes {n_passes} -k --cache_file {folder}/cache --holdout_off"
            started = time.process_time()
            vowpalwabbit.Workspace(arguments + more).finish()
            seconds = time.process_time() - started
            vowpalwabbit.Workspace(f"-t -i {model} -d {test} -p {out} --quiet").finish()
            lines = [line for line in out.read_text().splitlines() if line.strip()]
            yield [actions[int(line.split(":")[0])] for line in lines], seconds


def _examples(table: pa.Table, names: list[str], actions: list[str]) -> Iterator[str]:
    """Yield examples in the multi-line format; costs are negative rewards, centred and scaled."""
    columns = {name: table[name].to_pylist() for name in names}
    is_log = "action" in table.column_names
    logged = table["action"].to_pylist() if is_log else [None] * len(table)
    costs, propensities = np.zeros(len(table)), np.full(len(table), 1.0 / len(actions))
    if is_log:
        rewards = table["reward"].to_numpy()
        costs = (rewards.mean() - rewards) / max(float(np.abs(rewards).max()), 1.0)
    if "propensity" in table.column_names:
        propensities = table["propensity"].to_numpy()
    for row in range(len(table)):
        values = " ".join(_value(name, columns[name][row]) for name in names)
        lines = [f"shared |s {values}"]
        for action in actions:
            label = f"0:{costs[row]:.4f}:{propensities[row]:.4f} " if action == logged[row] else ""
            lines.append(f"{label}|a {action}")
        yield "\n".join(lines) + "\n\n"


def _value(name: str, value: object) -> str:
    if value is None:
        return f"{name}_none"
    return f"{name}:{value:.3f}" if isinstance(value, float) else f"{name}_{value}"
