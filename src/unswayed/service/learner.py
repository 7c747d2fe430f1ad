"""Learning from what the store has, the way `unswayed learn` does from a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from unswayed.errors import InputError
from unswayed.events import Columns
from unswayed.learners.from_log import LearnedLog, learn_log
from unswayed.learners.in_words import decision_rows
from unswayed.service.catalogue import add_policy
from unswayed.service.catalogue import campaign as campaign_of
from unswayed.service.database import Connection, Database, StoreError
from unswayed.service.errors import Refusal
from unswayed.service.export import SCHEMA, export_batches
from unswayed.service.jobs import (
    DONE,
    FAILED,
    HEARTBEAT_SECONDS,
    RUNNING,
    update_job,
)
from unswayed.service.settings import Settings
from unswayed.storage import temporary_folder

#: Ours: how often a learner looks whether the one before it is done.
_LOCK_SECONDS = 0.5


def learn_campaign(
    connection: Connection, name: str, on_step: Callable[[str], None] = lambda _: None
) -> LearnedLog:
    """Learn from what a campaign has recorded, the way ``unswayed learn`` does from a log."""
    settings = campaign_of(connection, name).settings
    on_step("exporting")
    with temporary_folder() as folder:
        path = folder / "events.parquet"
        write_learnable(export_batches(connection, name), settings, path)
        learned = learn_log(
            path,
            adversarial_fraction=settings.alpha,
            method=settings.method,
            columns=Columns(),
            max_interactions_per_user=settings.max_interactions_per_user,
            # Every action can be drawn; one that was added of late may not have been.
            allow_unplayed=True,
            on_step=on_step,
        )
        source = {**learned.policy.source, "plain_means": plain_means(path)}
        return replace(learned, policy=replace(learned.policy, source=source))


def plain_means(path: Path) -> dict[str, dict[str, float]]:
    """Return the plain mean reward of each action in each context of the events in a file.

    It is what anybody would compute who trusts all users alike; pages show it beside the estimate.
    """
    events = pq.read_table(path, columns=["context", "action", "reward"])
    means: dict[str, dict[str, float]] = {}
    for row in events.group_by(["context", "action"]).aggregate([("reward", "mean")]).to_pylist():
        means.setdefault(row["context"], {})[row["action"]] = row["reward_mean"]
    return means


def write_learnable(batches: Iterable[pa.RecordBatch], settings: Settings, path: Path) -> None:
    """Write the events that are learned from: explorers', and shadow ones of known propensity.

    Explorers are a random share of the users, each of whom draws evenly: what the theory asks for.
    Others always play the policy, and say nothing of the other actions.
    """
    kept = []
    for batch in batches:
        is_drawn = pc.equal(batch["mode"], "explore")
        is_shadow = pc.and_(
            pc.equal(batch["mode"], "shadow"), pc.is_valid(batch["mode_propensity"])
        )
        kept.append(batch.filter(pc.or_(is_drawn, is_shadow)))
    table = pa.Table.from_batches(kept, SCHEMA)
    columns = {name: table[name] for name in ("user", "context", "action", "reward")}
    propensities = table["mode_propensity"].to_numpy()
    if not np.allclose(propensities, 1.0 / len(settings.actions)):
        columns["propensity"] = table["mode_propensity"]
    pq.write_table(pa.table(columns), path)


def work_on(database: Database, name: str, job_id: str) -> None:
    """Work on a job: wait for other learners, learn, and publish in one transaction."""
    stopping = threading.Event()

    def tell() -> None:
        while not stopping.wait(HEARTBEAT_SECONDS):
            with suppress(StoreError), database.connected() as found, found.transaction():
                update_job(found, job_id)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        _learn_and_publish(database, name, job_id)
    except (InputError, Refusal, StoreError) as error:
        with database.connected() as connection, connection.transaction():
            update_job(connection, job_id, state=FAILED, result={"error": str(error)})
    finally:
        stopping.set()
        teller.join()


def _learn_and_publish(database: Database, name: str, job_id: str) -> None:
    def on_step(text: str) -> None:
        with database.connected() as connection, connection.transaction():
            update_job(connection, job_id, state=RUNNING, step=text)

    while True:
        with database.learner_lock() as is_held:
            if not is_held:
                time.sleep(_LOCK_SECONDS)
                continue
            with database.connected() as connection:
                learned = learn_campaign(connection, name, on_step)
                on_step("publishing")
                with connection.transaction():
                    settings = campaign_of(connection, name).settings
                    version = add_policy(
                        connection,
                        name,
                        learned.policy,
                        job=job_id,
                        activate=settings.activate_learned,
                    )
                    result = {
                        "version": version,
                        "is_active": settings.activate_learned,
                        "findings": learned.findings.to_json(),
                        "decisions": decision_rows(learned.policy),
                        "notes": list(learned.notes),
                    }
                    # In the same transaction: a job that is done has its policy, and none twice.
                    update_job(connection, job_id, state=DONE, step="", result=result)
            return
