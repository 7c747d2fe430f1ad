"""The image and the host installation: rewarded decisions survive a restart."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from unswayed import Client
from unswayed.service.settings import load_configuration
from unswayed.service.supervisor import GRACE_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

#: A user without any files.
NOBODY = 65534


def has_engine() -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60)
    return done.returncode == 0


def run(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def in_a_container(tag: str, volume: str) -> Iterator[str]:
    locked = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
    name = run(
        *("docker", "run", "-d", "--rm", *locked, "-v", f"{volume}:/data"),
        *("-p", "127.0.0.1::8321", tag),
    ).strip()
    try:
        yield "http://" + run("docker", "port", name, "8321").strip()
    finally:
        run("docker", "stop", name)


@contextmanager
def as_another_user(prefix: Path, data: Path) -> Iterator[str]:
    """Serve a read-only installation as a user who owns only the data folder."""
    own = {
        "PATH": f"{prefix}/bin:/usr/bin:/bin",
        "NUMBA_CACHE_DIR": f"{data}/compiled",
        "UNSWAYED_STORE": f"sqlite:///{data}/unswayed.db",
    }
    process = subprocess.Popen(
        [prefix / "bin/unswayed", "serve", "--port", "0"],
        cwd=data,
        env=own,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.split(" at ")[1].split(";")[0]
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0
        assert process.stdout is not None
        process.stdout.close()


def wait_for(address: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{address}/readyz", timeout=5.0).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("it did not become ready")


@pytest.mark.slow
def test_rewarded_decisions_survive_a_restart() -> None:
    if has_engine():
        tag, volume = f"unswayed-test-{secrets.token_hex(4)}", f"unswayed-{secrets.token_hex(4)}"
        run("docker", "build", "-q", "-f", str(DEPLOY / "Dockerfile"), "-t", tag, str(ROOT))
        try:
            mount = f"{volume}:/data"
            command = ["docker", "run", "--rm", "-v", mount, tag, "serve", "--make-key"]
            key = run(*command, "*:admin").strip()

            check_restart(lambda: in_a_container(tag, volume), key)
        finally:
            subprocess.run(["docker", "volume", "rm", "-f", volume], check=False)
            subprocess.run(["docker", "rmi", "-f", tag], check=False)
        return
    with open_folder() as folder:
        prefix, data = folder / "prefix", folder / "data"
        # Use the system's Python, since other users cannot run one in a user's home.
        system = {**os.environ, "PATH": f"/usr/bin:{os.environ['PATH']}"}
        run(str(DEPLOY / "install"), str(prefix), env=system)
        data.mkdir()
        os.chown(data, NOBODY, NOBODY)
        check_restart(lambda: as_another_user(prefix, data), None)
        assert {path.stat().st_uid for path in data.rglob("*")} == {NOBODY}


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder that others can enter, but only root can write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def check_restart(started: Callable[[], AbstractContextManager[str]], key: str | None) -> None:
    """Decide and reward, restart, and check that both are still stored."""
    with started() as address:
        wait_for(address)
        with Client(address, "demo", key=key) as client:
            decision = client.decide("ann", "lunch")
            first = client.reward(decision.token, 1.0)
    with started() as address:
        wait_for(address)
        with Client(address, "demo", key=key) as client:
            assert client.reward(decision.token, 1.0) == first
            told = client.get(f"decisions/{decision.id}/explain")
            assert told["is_reproduced"]
            assert [one["reward"] for one in told["rewards"]] == [1.0]


def test_deployment_files_name_existing_options_and_paths() -> None:
    """The options, settings, variables and paths in deployment files exist."""
    load_configuration(DEPLOY / "shop.toml")
    assert tomllib.loads((DEPLOY / "shop.toml").read_text())["campaigns"]["shop"]["is_deferred"]
    docker = (DEPLOY / "Dockerfile").read_text()
    unit = (DEPLOY / "unswayed.service").read_text()
    compose = (DEPLOY / "compose.yaml").read_text()
    assert "deploy/install /opt/unswayed" in docker
    assert re.search(r"^USER unswayed$", docker, re.MULTILINE)
    for text in (docker, unit, compose):
        assert "UNSWAYED_STORE" in text
    help_text = run(str(Path(sys.executable).with_name("unswayed")), "serve", "--help")
    for option in {
        *re.findall(r"--[a-z-]+", unit),
        *re.findall(r"--(?:host|workers|config)", compose),
    }:
        assert option in help_text
    assert "UNSWAYED_STORE" in help_text
    assert "HUP" in unit
    assert "read_only: true" in compose
    seconds = re.findall(r"(?:stop_grace_period: |TimeoutStopSec=)([0-9]+)", compose + unit)
    assert len(seconds) == 2
    assert all(int(one) > GRACE_SECONDS + 5 for one in seconds)  # then workers are killed
