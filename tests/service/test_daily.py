"""The daily report: changes, new suspects, and notifications."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.service.learned import publish_learned
from tests.service.running import SHOP, Running, close_windows, running, until
from tests.service.test_learning import ATTACKED
from tests.service.traffic import visit
from unswayed.service import jobs, offline


def test_reports_list_changes_and_a_webhook_is_called(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as hook:
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{hook.server_port}/"
        settings = msgspec.structs.replace(ATTACKED, webhook=address, webhook_share=0.05)
        with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as server:
            database = server.prepared.database

            def report(day: str) -> dict[str, Any]:
                monkeypatch.setattr(jobs, "today", lambda: day)
                with database.connected() as connection:
                    with connection.transaction():
                        row = ("shop", day, 0, "{}")
                        connection.insert_new("reports", [row])
                    return offline.make_report(connection, "shop")

            first = report("2026-01-01")
            assert (first["since"], first["share"], first["suspects"]) == (None, None, [])
            visit(server, rng, n_users=400, visits=8, colluders=0.2)
            publish_learned(server, SHOP.contexts, SHOP.actions)
            close_windows(server)
            second = report("2026-01-02")
            third = report("2026-01-03")
            assert [one["day"] for one in server.get("/v1/shop/reports")["reports"]] == [
                "2026-01-03",
                "2026-01-02",
                "2026-01-01",
            ]
            assert server.get("/v1/shop/reports/2026-01-02") == second
            assert server.refused("GET", "/v1/shop/reports/2025-01-01") == (404, "unknown_day")
        hook.shutdown()
    assert second["since"] == "2026-01-01"
    assert second["changed"] == [{"context": "dinner", "from": "soup", "to": "curry"}]
    fakes = {f"user-{number}" for number in range(80)}
    assert second["new_suspects"] == second["suspects"]
    assert len(fakes & set(second["suspects"])) > 40
    assert len(set(second["suspects"]) - fakes) < 20
    assert (third["changed"], third["new_suspects"]) == ([], [])
    assert [one["day"] for one in told] == ["2026-01-02", "2026-01-03"]
    assert second["webhook"] == "status 204"
    assert told[0]["new_suspects"] == len(second["suspects"])
    assert "user-" not in json.dumps(told)


def test_a_report_whose_process_was_killed_is_made_again(shop: Running) -> None:
    with shop.prepared.database.connected() as connection, connection.transaction():
        assert [jobs.claim(connection, "shop") for _ in range(3)] == [True, False, False]
        connection.execute("UPDATE reports SET created_ms = created_ms - 7200000")
        assert [jobs.claim(connection, "shop") for _ in range(3)] == [True, False, False]
        connection.execute('UPDATE reports SET created_ms = 0, report = \'{"day": ""}\'')
        assert not jobs.claim(connection, "shop")  # it is finished


def test_a_server_makes_one_report_a_day(sqlite_shop: Running) -> None:
    sqlite_shop.call("PATCH", "/v1/shop", {"daily_report": True}).raise_for_status()
    until(lambda: len(sqlite_shop.get("/v1/shop/reports")["reports"]) == 1, 240.0)
    (found,) = sqlite_shop.get("/v1/shop/reports")["reports"]
    assert found["audit"].startswith("there is nothing to audit yet")
