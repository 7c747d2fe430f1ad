"""What learning needs is compiled before the first learning."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.service.learned import publish_learned
from tests.service.running import SHOP, Running
from unswayed.service import app
from unswayed.service.jobs import offline_command
from unswayed.service.service import Service
from unswayed.service.settings import ServerSettings


def test_one_worker_warms_up_until_something_was_learned(
    sqlite_shop: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(app, "start", lambda _, method: started.append(method))
    secrets = sqlite_shop.prepared.secrets
    service = Service(sqlite_shop.store, secrets, tmp_path, ServerSettings())
    try:
        for _ in range(3):
            app.warm_if_first(service)
        assert started == ["bounded"]
        (tmp_path / "bounded.warm").unlink()
        publish_learned(sqlite_shop, SHOP.contexts, SHOP.actions)
        service.watcher.refresh()
        app.warm_if_first(service)
        assert started == ["bounded"]
    finally:
        service.stop()


def compiled_files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.nbc")}


@pytest.mark.slow
def test_after_warming_up_learning_compiles_nothing(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    kept = tmp_path / "compiled"
    kept.mkdir()
    own = {**os.environ, "NUMBA_CACHE_DIR": str(kept)}
    request = json.dumps({"method": "bounded"})
    subprocess.run(offline_command("warm"), input=request, text=True, env=own, check=True)
    before = compiled_files(kept)
    assert before
    n = 6_000
    actions = rng.choice(["soup", "curry", "cola"], size=n)
    log = tmp_path / "log.csv"
    rows = [
        f"user-{user},{context},{action},{int(rng.random() < 0.3)}"
        for user, context, action in zip(
            rng.integers(500, size=n), rng.choice(["lunch", "dinner"], size=n), actions, strict=True
        )
    ]
    log.write_text("user,context,action,reward\n" + "\n".join(rows) + "\n")
    code = f"from unswayed.learners.from_log import learn_log; learn_log({str(log)!r})"
    subprocess.run([offline_command("learn")[0], "-c", code], env=own, check=True)
    assert compiled_files(kept) == before
