"""Compiling what learning needs before anybody waits for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unswayed.events import Columns
from unswayed.learners.from_log import learn_log
from unswayed.randomness import generator
from unswayed.storage import temporary_folder

#: A small log with a coalition, so that every stage of the learner has something to do.
_N_USERS, _N_CONTEXTS, _N_ACTIONS, _PLAYS = 600, 2, 3, 8
_COLLUDERS = 0.2


def warm_up(method: str) -> None:
    """Learn from a small log, by which all compiled loops are compiled and kept on disk.

    The first learning after an installation would otherwise compile them, which takes a minute of
    a free processor, and many of a busy one.
    """
    rng = generator(0, "warming up")
    users = np.repeat(np.arange(_N_USERS), _PLAYS)
    contexts = rng.integers(_N_CONTEXTS, size=len(users))
    actions = rng.integers(_N_ACTIONS, size=len(users))
    rates = 0.2 + 0.3 * (actions == contexts % _N_ACTIONS)
    honest = (rng.random(len(users)) < rates).astype(np.float64)
    lies = (actions == _N_ACTIONS - 1).astype(np.float64)
    columns = {
        "user": [f"user {code}" for code in users.tolist()],
        "context": [f"context {code}" for code in contexts.tolist()],
        "action": [f"action {code}" for code in actions.tolist()],
        "reward": np.where(users < _COLLUDERS * _N_USERS, lies, honest),
    }
    with temporary_folder() as folder:
        path = folder / "events.parquet"
        pq.write_table(pa.table(columns), path)
        learn_log(path, adversarial_fraction=_COLLUDERS, method=method, columns=Columns())
