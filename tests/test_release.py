"""The package is built, installed without development dependencies, and used."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.pages import ROOT, Block, Reader, blocks_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SUPPORTED = [
    name.rpartition(" ")[2]
    for name in PROJECT["classifiers"]
    if name.startswith("Programming Language :: Python :: 3.")
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a source distribution of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    for kind in ("sdist", "wheel"):
        source = ROOT
        if kind == "wheel":
            (archive,) = folder.glob("*.tar.gz")
            shutil.unpack_archive(archive, folder, filter="data")
            source = folder / archive.name.removesuffix(".tar.gz")
        run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source)
    (found,) = folder.glob("*.whl")
    return found


def run(*command: str | Path, cwd: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shell_blocks(section: str) -> list[Block]:
    """Return the runnable shell blocks of a section of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = text[: text.index(section)].count("\n") + 1
    last = first + text[text.index(section) + 1 :].partition("\n## ")[0].count("\n")
    return [
        block
        for block in blocks_of(ROOT / "README.md")
        if first <= block.line <= last and block.kind == "sh" and block.reason is None
    ]


def install_beside_runtime_packages(wheel: Path, folder: Path) -> Path:
    """Install the wheel in an environment with only the packages of the runtime lock file.

    Packages are linked from this environment; compiled loops are copied.
    """
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    lock = ROOT / f"requirements/py{sys.version_info[0]}.{sys.version_info[1]}.txt"
    for name in re.findall(r"^([\w.-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE):
        files = importlib.metadata.distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            source = Path(str(importlib.metadata.distribution(name).locate_file(top)))
            if not (site / top).exists():
                (site / top).symlink_to(source)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-compile", "--no-index", wheel)
    for module in (site / "unswayed").rglob("*.py"):
        source = ROOT / "src" / module.relative_to(site)
        shutil.copystat(source, module)
        for loop in source.parent.glob(f"__pycache__/{module.stem}.*.nb?"):
            (module.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy2(loop, module.parent / "__pycache__")
    return folder / "bin"


def test_the_wheel_works_without_development_packages(wheel: Path, tmp_path: Path) -> None:
    """Run the README's commands for analysts."""
    installed = install_beside_runtime_packages(wheel, tmp_path / "environment")
    where = "import unswayed; print(unswayed.__file__)"
    assert str(tmp_path) in run(installed / "python", "-c", where)
    seen = "import importlib.util; print(importlib.util.find_spec('pytest'))"
    assert run(installed / "python", "-c", seen) == "None\n"
    assert run(installed / "unswayed", "--version") == f"unswayed {PROJECT['version']}\n"
    (block,) = shell_blocks("## For analysts")
    lines = [line for line in block.text.splitlines(True) if "evaluate" not in line]
    reader = Reader(tmp_path, installed=installed)
    reader.run(Block("sh", "".join(lines), block.line, None))
    assert (tmp_path / "policy.json").exists()
    assert (tmp_path / "report.html").exists()


def interpreter(version: str) -> Path | None:
    """Return a Python interpreter of this version, from the path or from pyenv."""
    found = [shutil.which(f"python{version}")]
    found += map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in filter(None, found):
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(path)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", [each for each in SUPPORTED if interpreter(each)])
def test_a_clean_environment_runs_the_readme(version: str, wheel: Path, tmp_path: Path) -> None:
    """For every available Python, install locked packages and the wheel, run the README."""
    run(interpreter(version) or "", "-m", "venv", tmp_path / "environment")
    installed = tmp_path / "environment/bin"
    pip = (installed / "python", "-m", "pip", "install", "--quiet")
    run(*pip, "--require-hashes", "-r", ROOT / f"requirements/py{version}.txt")
    run(*pip, "--no-deps", wheel)
    reader = Reader(tmp_path, installed=installed)
    for section in ("## For analysts", "## For planners", "## For researchers"):
        for block in shell_blocks(section):
            reader.run(block)


def test_the_release_checklist_stops_at_the_first_failure(tmp_path: Path) -> None:
    """A version without a section in the changelog is not released, and later steps do not run."""
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/release", tmp_path / "scripts")
    run("git", "init", "-q", cwd=tmp_path)
    run("git", "add", ".", cwd=tmp_path)
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    run("git", *identity, "commit", "-qm", "all", cwd=tmp_path)
    for name, line, change in (
        ("CHANGELOG.md", r"^## .*$", "## Unreleased"),
        ("CITATION.cff", r"^version:.*$", "version: 9"),
    ):
        file = tmp_path / name
        file.write_text(re.sub(line, change, file.read_text(), flags=re.MULTILINE))
        run("git", *identity, "commit", "-qam", "other", cwd=tmp_path)
        done = subprocess.run(
            [tmp_path / "scripts/release"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert f"release: {name}" in done.stderr
    (tmp_path / "new").touch()
    done = subprocess.run(
        [tmp_path / "scripts/release"], capture_output=True, text=True, check=False
    )
    assert "not committed" in done.stderr


def test_unsupported_systems_are_refused_at_import() -> None:
    code = f"import os, sys; os.name = 'nt'; sys.path.insert(0, {str(ROOT / 'src')!r})\n"
    code += "try:\n import unswayed\nexcept ImportError as error:\n print(error)"
    assert "Linux, macOS, or WSL" in run(sys.executable, "-c", code)


def test_metadata_and_readme_name_the_same_systems_and_pythons() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Python {SUPPORTED[0]} or later" in readme.replace("\n", " ")
    assert PROJECT["requires-python"] == f">={SUPPORTED[0]}"
    for system in ("Linux", "macOS"):
        assert system in readme
        assert any(system.casefold() in name.casefold() for name in PROJECT["classifiers"])
