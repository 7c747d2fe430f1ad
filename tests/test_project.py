"""Invariants of the project itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_lock_files_contain_hashes_but_no_hosts_or_paths(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "--hash=sha256:" in text
    assert not re.search(r"://|--(extra-)?index-url|--find-links|^-e|\s/\w+/", text, re.MULTILINE)


def test_every_supported_python_has_a_lock_file() -> None:
    supported = re.findall(
        r'"Programming Language :: Python :: (3\.\d+)"',
        (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    )
    names = {lock.name for lock in LOCKS}
    assert names == {f"{kind}py{version}.txt" for version in supported for kind in ("", "dev-")}


def test_imports_point_one_way() -> None:
    """Upward imports, and learners that import the simulation, fail here."""
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "Nothing that learns or serves can see the simulation KEPT" in result.stdout


def test_ci_calls_make_test() -> None:
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_test_all_runs_more_than_test() -> None:
    """`make test` skips tests marked slow, `make test-all` runs all, and some are marked."""
    recipes = dict(
        re.findall(
            r"^(test|test-all): check\n\t(.*)$",
            (ROOT / "Makefile").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    assert recipes["test"] == recipes["test-all"] + ' -m "not slow"'
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert any("@pytest.mark.slow" in text for text in texts)
