"""Compiled loops without a writable cache: read-only installations, no home, full disks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# As in many containers, neither the installation nor a home folder is writable.
READ_ONLY = """
from numba.core import caching
caching.CompileResultCacheImpl._locator_classes = [caching.UserProvidedCacheLocator]
"""
USE = """
import numpy as np
from unswayed.tallies.summing import row_sums
print(row_sums(np.array([0, 2, 3]), np.array([1.0, 2.0, 4.0])))
"""


def run(script: str, temporary: Path, **environment: str) -> str:
    """Run a script that must print the sums, and return its standard error."""
    variables = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    result = subprocess.run(
        [sys.executable, "-W", "default", "-c", script],
        env=variables | environment,
        cwd=temporary,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "[3. 4.]\n"), result.stderr
    return result.stderr


def test_without_a_writable_cache_loops_are_compiled_with_a_note(tmp_path: Path) -> None:
    assert run(READ_ONLY + USE, tmp_path).count("set NUMBA_CACHE_DIR") == 1


@pytest.mark.parametrize("damage", [b"", b"\x80\x05K\x01."])
def test_a_damaged_cache_is_compiled_again(damage: bytes, tmp_path: Path) -> None:
    run(USE, tmp_path, NUMBA_CACHE_DIR=str(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert files
    for path in files:
        path.write_bytes(damage)
    run(USE, tmp_path, NUMBA_CACHE_DIR=str(tmp_path))


def test_a_full_disk_does_not_prevent_compilation(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    run(limit + USE, tmp_path, NUMBA_CACHE_DIR=str(tmp_path))
