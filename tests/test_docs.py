"""The documentation agrees with the code."""

import dataclasses
import importlib
import inspect
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import unswayed
from tests.browser import browser
from unswayed.cli import COMMANDS

ROOT = Path(__file__).parent.parent
NOTATION = re.findall(
    r"^\|[^|]*\|[^|]*\| `([\w.]+)` \| `(\w+)` \|$",
    (ROOT / "docs/notation.md").read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)


def names_of(thing: object) -> set[str]:
    """Return attributes, fields and parameters that a module, class or function has."""
    names = set(dir(thing))
    if dataclasses.is_dataclass(thing):
        names |= {field.name for field in dataclasses.fields(thing)}
    if callable(thing):
        names |= set(inspect.signature(thing).parameters)
    return names


def resolve(path: str) -> object:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(resolve(module), name)


def test_the_notation_table_is_read() -> None:
    assert len(NOTATION) > 20


@pytest.mark.parametrize(("path", "name"), NOTATION)
def test_every_name_in_the_notation_table_exists(path: str, name: str) -> None:
    assert name in names_of(resolve(path))


def test_every_term_of_the_glossary_is_used_on_a_page() -> None:
    words = (ROOT / "docs/notation.md").read_text(encoding="utf-8").partition("## Words")[2]
    terms = {term for row in re.findall(r"^\| ([^|]+) \|", words, re.M) for term in row.split(", ")}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "notation.md"]
    text = " ".join(" ".join(page.read_text(encoding="utf-8").casefold().split()) for page in pages)
    assert len(terms) > 60
    assert sorted(term for term in terms if term.casefold() not in text) == []


def test_every_line_of_algorithm_2_is_marked_in_the_code() -> None:
    code = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src/unswayed/learners").rglob("*.py")
    )
    named = {int(number) for number in re.findall(r"\b[Ll]ines? (\d+)", code)}
    for first, last in re.findall(r"\b[Ll]ines (\d+)\u2013(\d+)", code):
        named |= set(range(int(first), int(last) + 1))
    assert set(range(1, 13)) <= named


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"unswayed {name}" not in readme] == []


def test_the_architecture_diagram_shows_the_actual_imports() -> None:
    """Run ``scripts/draw-architecture docs/images`` when this fails."""
    drawn = json.loads((ROOT / "docs/images/architecture.json").read_text(encoding="utf-8"))
    script = runpy.run_path(str(ROOT / "scripts/draw-architecture"))
    assert drawn["packages"] == script["packages"]()
    assert [tuple(pair) for pair in drawn["imports"]] == script["imports"]()
    order = {name: place for place, name in enumerate(drawn["packages"])}
    assert all(order[importer] > order[imported] for importer, imported in drawn["imports"])


def test_every_linked_page_exists() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("reference/"):  # generated
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the documentation and return its folder; The build has no Sphinx warnings."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, ROOT / "scripts/build-docs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_link_anchor_and_image_of_the_site_exists(site: Path) -> None:
    """Nothing is loaded from other hosts; links within the site resolve."""
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in pages.items()}
    assert len(pages) > 60
    for path, text in pages.items():
        loaded = re.findall(
            r'<(?:script|img)[^>]* src="([^"]+)|<link rel="stylesheet"[^>]* href="([^"]+)', text
        )
        linked = re.findall(r'<a [^>]*href="([^"]+)"', text)
        assert not [each for each in loaded if "//" in "".join(each)], path.name
        for address in ["".join(each) for each in loaded] + linked:
            if address.startswith(("http", "data:", "mailto:")):
                continue
            file, _, anchor = address.partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            assert target.exists(), f"{path.name} links to {address}"
            is_found = not anchor or target not in anchors or anchor in anchors[target]
            assert is_found, f"{path.name} links to {address}"


def test_the_reference_contains_every_command_and_route(site: Path) -> None:
    commands = (site / "reference/commands.html").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"unswayed {name}" not in commands] == []
    assert "sqlite:///shop.db with --query" in commands
    assert "--install-completion" not in commands
    routes = (site / "reference/http.html").read_text(encoding="utf-8")
    assert "/v1/{campaign}/decide" in routes


def test_the_search_of_the_site_works_without_a_network(site: Path, tmp_path: Path) -> None:
    with browser(tmp_path) as tab:
        tab.open(f"{(site / 'search.html').as_uri()}?q=propensity")
        found = "document.querySelector('#search-results')?.innerText"
        tab.until(f"{found}?.includes('Learning from logs')")
        assert tab.hosts() == {""}


def prose(page: Path) -> int:
    """Return the number of words outside code and tables."""
    text = re.sub(
        r"^```.*?^```$|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.S | re.M
    )
    return len(re.sub(r"^\|.*$", "", text, flags=re.MULTILINE).split())


def test_pages_are_short_enough() -> None:
    """How-to pages have fewer than 1,200 words of prose, other pages fewer than 2,000."""
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    how_to = index.partition(":caption: How to")[2].partition(":::")[0].split()[2:]
    assert "learn" in how_to
    most = dict.fromkeys(how_to, 1200)
    pages = (ROOT / "docs").glob("*.md")
    assert [page.name for page in pages if prose(page) >= most.get(page.stem, 2000)] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/notebooks/*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_reproduces_its_outputs(path: Path) -> None:
    """Run ``scripts/run-notebooks`` when this fails and the new output is right."""
    script = runpy.run_path(str(ROOT / "scripts/run-notebooks"))
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert script["run"](notebook) == script["outputs"](notebook)


def test_the_page_of_stable_names_lists_everything_the_package_exports() -> None:
    page = (ROOT / "docs/stable.md").read_text(encoding="utf-8")
    assert [name for name in unswayed.__all__ if f"`{name}`" not in page] == []


def test_the_citation_is_for_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in citation
