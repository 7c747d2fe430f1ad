"""Learning from what the store has, the way `unswayed learn` does from a log."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from unswayed.arrays import IntArray
from unswayed.errors import InputError
from unswayed.events import Columns
from unswayed.learners.epochs.planning import ALARM_WEIGHT
from unswayed.learners.explaining import decision_rows
from unswayed.learners.from_log import LearnedLog, learn_log
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
from unswayed.service.planning import Progress
from unswayed.service.settings import Settings
from unswayed.service.tokens import Record
from unswayed.service.writing import CountKey, count_restored
from unswayed.storage import temporary_folder

#: Ours: how often a learner looks whether the one before it is done.
_LOCK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class LearnedCampaign:
    """What was learned from a campaign, and how far it was.

    ``restored`` are decisions known from their rewards alone; ``silent_share`` is that of the users
    who never reported a reward.
    """

    log: LearnedLog
    progress: Progress
    restored: Mapping[CountKey, int]
    silent_share: float


def learn_campaign(
    connection: Connection, name: str, on_step: Callable[[str], None] = lambda _: None
) -> LearnedCampaign:
    """Learn from what a campaign has recorded, the way ``unswayed learn`` does from a log."""
    settings = campaign_of(connection, name).settings
    on_step("exporting")
    restored: Counter[CountKey] = Counter()

    def on_restored(record: Record) -> None:
        restored[CountKey(name, record.context, record.mode)] += 1

    with temporary_folder() as folder:
        path = folder / "events.parquet"
        activity = write_learnable(export_batches(connection, name, on_restored=on_restored), path)
        learned = learn_log(
            path,
            alpha=settings.alpha,
            method=settings.method,
            columns=Columns(),
            max_interactions_per_user=settings.max_interactions_per_user,
            # Every action can be drawn; one that was added of late may not have been.
            allow_unplayed=True,
            on_step=on_step,
        )
        source = {**learned.policy.source, "plain_means": plain_means(path)}
        learned = replace(learned, policy=replace(learned.policy, source=source))
    is_active = learned.interactions > 0
    removed = 1.0 - float(learned.user_weights[is_active].mean())
    plays = activity.plays
    age = float(np.minimum(plays, settings.max_interactions_per_user or plays.max()).mean())
    progress = Progress(age, len(plays), removed > ALARM_WEIGHT)
    return LearnedCampaign(learned, progress, restored, activity.n_silent / len(plays))


def plain_means(path: Path) -> dict[str, dict[str, float]]:
    """Return the plain mean reward of each action in each context of the events in a file.

    It is what anybody would compute who trusts all users alike; pages show it beside the estimate.
    """
    events = pq.read_table(path, columns=["context", "action", "reward"])
    means: dict[str, dict[str, float]] = {}
    for row in events.group_by(["context", "action"]).aggregate([("reward", "mean")]).to_pylist():
        means.setdefault(row["context"], {})[row["action"]] = row["reward_mean"]
    return means


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """How many decisions each user had, and how many users never reported a reward."""

    plays: IntArray
    n_silent: int


def write_learnable(batches: Iterable[pa.RecordBatch], path: Path) -> Activity:
    """Write the events that are learned from, and return how active the users were.

    Explorers are a random share of the users, each of whom draws evenly from the actions that
    survived: what the theory asks for, and what the epoch learner learns from. Others always play
    the policy, and say nothing of the other actions. Shadow events count if their propensity is
    known; only with them propensities matter.
    """
    kept, users = [], []
    for batch in batches:
        is_drawn = pc.equal(batch["mode"], "explore")
        is_shadow = pc.and_(
            pc.equal(batch["mode"], "shadow"), pc.is_valid(batch["mode_propensity"])
        )
        kept.append(batch.filter(pc.or_(is_drawn, is_shadow)))
        users.append(
            pa.table({"user": batch["user"], "n_rewards": batch["n_rewards"]})
            .group_by("user")
            .aggregate([("n_rewards", "count"), ("n_rewards", "sum")])
        )
    table = pa.Table.from_batches(kept, SCHEMA)
    names = ["user", "context", "action", "reward"]
    if pc.any(pc.equal(table["mode"], "shadow")).as_py():
        table = table.set_column(
            table.schema.get_field_index("propensity"), "propensity", table["mode_propensity"]
        )
        names.append("propensity")
    pq.write_table(table.select(names), path)
    if not users:
        return Activity(np.zeros(0, np.int64), 0)
    sums = [("n_rewards_count", "sum"), ("n_rewards_sum", "sum")]
    by_user = pa.concat_tables(users).group_by("user").aggregate(sums)
    plays: IntArray = by_user["n_rewards_count_sum"].to_numpy()
    return Activity(plays, int((by_user["n_rewards_sum_sum"].to_numpy() == 0).sum()))


#: Ours: from this share on silence is worth a note; with rare rewards it is usual.
_SILENT = 0.5


def silence_notes(found: LearnedCampaign, settings: Settings) -> list[str]:
    """Return what to do about users who only ask, such as crawlers, if there are many."""
    if found.silent_share < _SILENT:
        return []
    note = f"{found.silent_share:.0%} of the accounts never reported a reward"
    if settings.is_deferred:
        return [f"{note}, though their decisions were shown."]
    return [
        f"{note} and count with the default; if crawlers or prefetching are among them, set "
        "is_deferred and report what was shown."
    ]


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
                found = learn_campaign(connection, name, on_step)
                on_step("publishing")
                with connection.transaction():
                    settings = campaign_of(connection, name).settings
                    version = add_policy(
                        connection,
                        name,
                        found.log.policy,
                        job=job_id,
                        activate=settings.activate_learned,
                        progress=found.progress,
                    )
                    count_restored(connection, found.restored)
                    result = {
                        "version": version,
                        "is_active": settings.activate_learned,
                        "age": found.progress.age,
                        "users": found.progress.n_users,
                        "silent_share": found.silent_share,
                        "findings": found.log.summary.to_json(),
                        "decisions": decision_rows(found.log.policy),
                        "notes": [*found.log.notes, *silence_notes(found, settings)],
                    }
                    # In the same transaction: a job that is done has its policy, and none twice.
                    update_job(connection, job_id, state=DONE, step="", result=result)
            return
