"""Background learning: same result as from a log, one job at a time, published atomically."""

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.service.learned import publish_learned
from tests.service.running import SHOP, Running, close_windows, running, until
from tests.service.traffic import BEST, RATES, visit
from unswayed.errors import InputError
from unswayed.service import jobs
from unswayed.service.catalogue import now_ms
from unswayed.service.jobs import offline_command
from unswayed.service.offline import learn_campaign, report, work_on
from unswayed.service.settings import ServerSettings

ATTACKED = msgspec.structs.replace(SHOP, alpha=0.2)


def learned(server: Running) -> dict[str, Any]:
    """Start a learning job, and return it when it has finished."""
    job = server.post("/v1/shop/learn", status=202)
    path = f"/v1/shop/learn/{job['id']}"
    until(lambda: server.get(path)["state"] not in ("queued", "running"), 120.0)
    found: dict[str, Any] = server.get(path)
    return found


def test_the_service_learns_the_right_policy_under_attack_and_rolls_back(
    store: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    with running(store, tmp_path, ATTACKED) as one, running(store, tmp_path, ATTACKED) as other:
        rewards = visit(one, rng, n_users=1_000, visits=8, colluders=0.2)
        naive = {
            context: max(rates, key=lambda action: np.mean(rewards[context, action]))
            for context, rates in RATES.items()
        }
        assert naive == {"lunch": "cola", "dinner": "cola"}  # what colluders push
        until(lambda: one.get("/v1/shop/status")["explored"] == 1_000 * 8 * 2)
        close_windows(one)
        job = learned(one)
        assert job["state"] == "done", job
        until(lambda: other.decide("new")["plan"] == one.decide("new")["plan"] == 3)
        for server in (one, other):
            active = server.get("/v1/shop/policy")
            assert (active["version"], active["policy"]["policy"]) == (1, BEST)
            assert active["plan"]["epoch"] == 3  # 16 decisions per user; epochs end at 4, 8 and 16
            for context, rule in active["plan"]["contexts"].items():
                assert rule["action"] == BEST[context]
                assert rule["explorer_share"] < 0.5
        one.call("PATCH", "/v1/shop", {"mode": "serve", "explore_share": 0.0}).raise_for_status()
        assert {c: one.decide("new", c)["action"] for c in RATES} == BEST
        plan = one.post("/v1/shop/policy/0/activate")["plan"]
        until(lambda: other.decide("new")["plan"] == plan)
        assert {c: other.decide("new", c)["action"] for c in RATES} == {
            "lunch": "soup",
            "dinner": "soup",  # the baseline, since nothing was learned
        }
        one.post("/v1/shop/policy/1/activate")
        versions = one.get("/v1/shop/policy/versions")["versions"]
        assert [version["is_active"] for version in versions] == [False, True]
        metrics = one.call("GET", "/metrics").text
        assert 'unswayed_epoch{campaign="shop"} 3\n' in metrics
        assert 'unswayed_learning_running{campaign="shop"} 0\n' in metrics
        for name in ("learning_seconds", "learning_success_timestamp_seconds"):
            (value,) = re.findall(rf'unswayed_{name}{{campaign="shop"}} (\S+)', metrics)
            assert float(value) > 0.0
        status = one.get("/v1/shop/status")
        assert status["interactions_per_user"]["users"] == 1_000
        assert status["epoch"]["number"] == 3
        assert (status["epoch"]["age"], status["epoch"]["ends_at_age"]) == (16.0, 32.0)
        for start in range(0, 20_000, 1_000):  # new users, who did not take part in learning
            rows = [{"user": f"new {start + n}", "context": "lunch"} for n in range(1_000)]
            one.post("/v1/shop/decide/batch", {"decisions": rows})
        until(lambda: one.get("/v1/shop/status")["decisions"] >= 36_000)
        assert one.get("/v1/shop/status")["epoch"]["age"] == 16.0


def test_reviewed_accounts_a_stated_range_and_silence_reach_the_learner(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    known = tmp_path / "accounts.csv"
    known.write_text("user,status\nuser-1,honest\nuser-2,fake\n")
    settings = msgspec.structs.replace(ATTACKED, lowest_reward=0.0, highest_reward=1.0)
    server = ServerSettings(known=str(known)).checked()
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings, server=server) as shop:
        visit(shop, rng, n_users=100, visits=4, colluders=0.0)
        # Crawlers request decisions and never come back.
        silent = [{"user": f"crawler {n}", "context": "lunch"} for n in range(150)]
        shop.post("/v1/shop/decide/batch", {"decisions": silent})
        until(lambda: shop.get("/v1/shop/status")["decisions"] == 100 * 8 + 150)
        close_windows(shop)
        job = learned(shop)
        assert job["state"] == "done", job
        notes = " ".join(job["result"]["notes"])
        assert "1 fake" in notes
        assert "1 honest" in notes
        assert "means have no worst-case bound" not in notes
        assert "60% of the accounts never reported a reward" in notes
        assert shop.get("/v1/shop/status")["interactions_per_user"]["silent_share"] == 0.6
    known.write_text("user,status\nuser-1,nice\n")
    with pytest.raises(InputError, match="status is honest or fake"):
        server.checked()


def test_learning_without_decisions_fails_with_a_message(sqlite_shop: Running) -> None:
    job = learned(sqlite_shop)
    assert job["state"] == "failed"
    assert job["result"]["error"]
    assert sqlite_shop.get("/v1/shop/policy")["version"] == 0


def test_old_jobs_are_removed(shop: Running) -> None:
    """Otherwise a campaign that learns every minute would soon list thousands of jobs."""
    with shop.prepared.database.connected() as connection, connection.transaction():
        for number in range(150):
            connection.execute(
                "INSERT INTO jobs (id, campaign, state, step, created_ms, alive_ms, result) "
                "VALUES (?, 'shop', 'failed', '', ?, ?, '{}')",
                f"old-{number}",
                number,
                number,
            )
    job = shop.post("/v1/shop/learn", status=202)
    listed = [one["id"] for one in shop.get("/v1/shop/learn")["jobs"]]
    assert listed == [job["id"], *(f"old-{number}" for number in range(149, 50, -1))]
    assert shop.refused("GET", "/v1/shop/learn/old-50") == (404, "unknown_job")


def test_jobs_from_before_a_clock_change_do_not_block_learning(store: str, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(ATTACKED, learn_every=1.0)
    with running(store, tmp_path, settings) as server:
        year = now_ms() + 366 * 86_400_000
        with server.prepared.database.connected() as connection, connection.transaction():
            connection.execute(
                "INSERT INTO jobs (id, campaign, state, step, created_ms, alive_ms, result) "
                "VALUES ('future', 'shop', 'running', '', ?, ?, '{}')",
                year,
                year,
            )
        until(lambda: len(server.get("/v1/shop/learn")["jobs"]) >= 2, 20.0)
        assert server.get("/v1/shop/learn/future")["state"] == "lost"
        server.call("PATCH", "/v1/shop", {"learn_every": 0.0}).raise_for_status()


def test_the_service_learns_by_itself_if_configured(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(ATTACKED, learn_every=0.5)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        until(lambda: len(server.get("/v1/shop/learn")["jobs"]) >= 1, 20.0)
        assert server.get("/v1/shop")["settings"]["learn_every"] == 0.5
        server.call("PATCH", "/v1/shop", {"learn_every": 0.0}).raise_for_status()
        until(
            lambda: all(job["state"] == "failed" for job in server.get("/v1/shop/learn")["jobs"]),
            60.0,
        )


def test_users_have_no_more_weight_beyond_the_cap(tmp_path: Path, rng: np.random.Generator) -> None:
    settings = msgspec.structs.replace(ATTACKED, max_interactions_per_user=10)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        visit(server, rng, n_users=200, visits=3, colluders=0.0)
        flood = [{"user": "user-0", "context": "lunch"}] * 500
        responses = server.post("/v1/shop/decide/batch", {"decisions": flood})["decisions"]
        assert all("token" in response for response in responses)
        until(lambda: server.get("/v1/shop/status")["decisions"] == 200 * 6 + 500)
        close_windows(server)
        with server.prepared.database.connected() as connection:
            found, progress, _ = learn_campaign(connection, "shop")
    assert progress.age == (199 * 6 + 10) / 200
    assert found.interactions.max() == 10
    assert found.summary.n_events == 200 * 6 + 10 - 6


def test_one_learner_works_at_a_time(shop: Running) -> None:
    first = shop.post("/v1/shop/learn", status=202)
    again = [shop.post("/v1/shop/learn", status=202)["id"] for _ in range(3)]
    assert again == [first["id"]] * 3
    database, has_begun = shop.prepared.database, threading.Event()

    def learn() -> None:
        with database.learner_lock():
            has_begun.set()

    other = threading.Thread(target=learn)
    with database.learner_lock():
        other.start()
        assert not has_begun.wait(0.7)
    assert has_begun.wait(30.0)
    other.join()
    until(lambda: shop.get(f"/v1/shop/learn/{first['id']}")["state"] == "failed", 60.0)


def test_a_killed_learner_is_replaced(
    sqlite_shop: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_SILENCE_MS", dict.fromkeys(jobs._SILENCE_MS, 3_000))
    started = []
    start = subprocess.Popen

    def kept(*arguments: Any, **more: Any) -> Any:
        started.append(start(*arguments, **more))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", kept)
    job = sqlite_shop.post("/v1/shop/learn", status=202)
    os.kill(started[0].pid, signal.SIGKILL)
    until(lambda: sqlite_shop.get(f"/v1/shop/learn/{job['id']}")["state"] == "lost", 20.0)
    assert sqlite_shop.post("/v1/shop/learn", status=202)["id"] != job["id"]


def test_the_report_shows_the_uplift_over_users_held_back(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    settings = msgspec.structs.replace(
        ATTACKED, mode="serve", explore_share=0.1, control_share=0.5, baseline="cola", alpha=0.05
    )
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
        # Before anything is learned all but explorers get the baseline, so there is no uplift.
        visit(server, rng, n_users=1_000, visits=1, colluders=0.0)
        close_windows(server)
        with server.prepared.database.connected() as connection:
            same = report(connection, "shop")
    assert same["uplift"]["exploit"]["low"] < 0.0 < same["uplift"]["exploit"]["high"]
    arms = same["arms"]
    assert arms["control"]["users"] + arms["exploit"]["users"] + arms["explore"]["users"] == 1_000
    assert arms["control"]["low"] < 0.12 < arms["control"]["high"]
    assert arms["explore"]["plain_mean"] > arms["control"]["plain_mean"]
    assert same["note"].startswith("decisions under policy 0, first served ")


def test_a_report_right_after_a_rollout_explains_why_it_is_empty(sqlite_shop: Running) -> None:
    publish_learned(sqlite_shop, SHOP.contexts, SHOP.actions)
    found = sqlite_shop.get("/v1/shop/report")
    assert (found["policy"], found["decisions"]) == (1, 0)
    assert found["since_ms"] is not None
    assert found["note"].startswith("policy 1, first served ")
    assert found["note"].endswith("?policy=0 reports on the one before.")
    assert sqlite_shop.get("/v1/shop/report?policy=0")["policy"] == 0
    assert sqlite_shop.get("/v1/shop/report?policy=7")["note"] == "policy 7 was never served."
    assert sqlite_shop.refused("GET", "/v1/shop/report?policy=x") == (400, "bad_request")


def test_decisions_restored_from_their_rewards_are_counted(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, ATTACKED) as server:
        visit(server, rng, n_users=100, visits=2, colluders=0.0)
        until(lambda: server.get("/v1/shop/status")["decisions"] == 400)
        database = server.prepared.database
        with database.connected() as connection, connection.transaction():
            connection.execute("DELETE FROM decisions")
            connection.execute("UPDATE counts SET decisions = 0")
        close_windows(server)
        for _ in range(2):
            with database.connected() as connection, connection.transaction():
                job, _ = jobs.add_job(connection, "shop")
            work_on(database, "shop", job.id)
            assert server.get("/v1/shop/status")["decisions"] == 400


def test_the_command_line_of_background_tasks_hides_the_store() -> None:
    """The store's address may contain a password, and every user can list processes."""
    assert len(offline_command("learn")) == 4


@pytest.mark.slow
def test_a_learner_that_is_killed_at_any_moment_leaves_a_whole_policy_or_none(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, ATTACKED) as server:
        visit(server, rng, n_users=1_000, visits=8, colluders=0.2)
        close_windows(server)
        start = time.monotonic()
        assert learned(server)["state"] == "done"
        seconds = time.monotonic() - start
        n_killed = 0
        for _ in range(20):
            with server.prepared.database.connected() as connection, connection.transaction():
                connection.execute("DELETE FROM jobs WHERE state <> 'done'")
                job, _ = jobs.add_job(connection, "shop")
            process = jobs.start("learn", store=server.store, campaign="shop", job=job.id)
            time.sleep(float(rng.uniform(0.0, 1.2)) * seconds)
            n_killed += process.poll() is None
            process.kill()
            process.wait()
            active = server.get("/v1/shop/policy")
            assert active["policy"]["policy"] == BEST
            versions = server.get("/v1/shop/policy/versions")["versions"][1:]
            done = [one for one in server.get("/v1/shop/learn")["jobs"] if one["state"] == "done"]
            assert {one["result"]["version"] for one in done} == {
                one["version"] for one in versions
            }
            for version in versions:
                found = server.get(f"/v1/shop/policy/{version['version']}")["policy"]
                assert found["policy"] == BEST
        assert n_killed >= 5
