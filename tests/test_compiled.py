"""Compiled loops where nothing can be kept: read-only installations, no home, full disks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What a container often is: neither the program's folder nor a home folder can be written.
READ_ONLY = """
from numba.core import caching
caching.CompileResultCacheImpl._locator_classes = [caching.UserProvidedCacheLocator]
"""
USE = """
import numpy as np
from unswayed.policy import Assignment
draw = Assignment(secret=bytes(16))
codes = draw.digests("user", ["ann", "bob"])
print(draw.actions(codes, codes, n_actions=10).tolist())
"""


def run(script: str, temporary: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "TMPDIR": str(temporary), **environment}
    variables.pop("NUMBA_CACHE_DIR", None)
    return subprocess.run(
        [sys.executable, "-W", "default", "-c", script],
        env=variables,
        cwd=temporary,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_writable_cache_a_temporary_one_is_used_again_and_again(tmp_path: Path) -> None:
    expected = run(USE, tmp_path).stdout
    first = run(READ_ONLY + USE, tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout == expected
    assert first.stderr.count("compiled loops are kept in") == 1
    (folder,) = tmp_path.glob("unswayed-compiled-*")
    kept = {path for path in folder.rglob("*") if path.suffix == ".nbc"}
    assert kept
    second = run(READ_ONLY + USE, tmp_path)
    assert second.stdout == expected
    assert {path for path in folder.rglob("*") if path.suffix == ".nbc"} == kept


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    """What is loaded from the cache is run."""
    folder = tmp_path / f"unswayed-compiled-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    result = run(READ_ONLY + USE, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "compiled loops cannot be kept anywhere" in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"\x80\x05K\x01."])
def test_a_damaged_cache_is_compiled_anew(damage: bytes, tmp_path: Path) -> None:
    expected = run(READ_ONLY + USE, tmp_path).stdout
    (folder,) = tmp_path.glob("unswayed-compiled-*")
    files = [path for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc")]
    for path in files:
        path.write_bytes(damage)
    result = run(READ_ONLY + USE, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == expected


def test_a_full_disk_under_the_cache_stops_nothing(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    result = run(READ_ONLY + limit + USE, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == run(USE, tmp_path).stdout
