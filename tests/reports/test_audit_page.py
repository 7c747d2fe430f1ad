"""The report: a single file that loads nothing, and in which labels are escaped."""

import base64
import hashlib
import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.audit.markets import market
from tests.browser import FLAGS, NARROW, WIDE, browser
from unswayed.audit.auditing import audit_log
from unswayed.audit.results import Audit
from unswayed.reports.audits import audit_page
from unswayed.reports.page import write_page
from unswayed.reports.svg import bars, text_of

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def audit() -> Audit:
    """Return an audit in which every label contains an attack on the page."""
    drawn = market(np.random.default_rng(6), n_groups=12)
    table = drawn.table()
    hostile = pa.table(
        {
            "user": [f"{HOSTILE}{name}" for name in table["user"].to_pylist()],
            "action": [f'"><svg onload=alert(1)>{name}' for name in table["action"].to_pylist()],
            "reward": table["reward"],
            "time": table["time"],
        }
    )
    return audit_log(hostile)


@pytest.fixture(scope="module")
def page(audit: Audit) -> str:
    return audit_page(audit)


def test_nothing_is_fetched_and_nothing_of_the_log_is_run(page: str) -> None:
    body, script, end = re.split(r"<script>|</script>", page)
    assert not re.search(r"<(script|img|link|iframe|object|embed|form)\b", body + end)
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", body + end))
    # The only script is a constant that contains nothing from the log.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page


def test_the_result_comes_first_and_error_rates_are_stated(page: str, audit: Audit) -> None:
    text = html.unescape(re.sub(r"<[^>]+>", " ", page))
    places = [text.index(word) for word in ("were found", "Plain means decide", "Items: shift")]
    assert places == sorted(places)
    assert "never a verdict on a person" in text
    assert f"{audit.rates['realised']:.2%} measured on" in text
    assert "What no method could have detected" in text


def test_pictures_have_captions_and_numbers_are_decimals(page: str) -> None:
    assert len(page.encode()) < 1_000_000
    pictures = re.findall(r"<svg.*?</svg>", page)
    assert len(pictures) > 6
    for picture in pictures:
        (title,) = re.findall(r"<title>(.*?)</title>", picture)
        first, *ticks = re.findall(r"<text[^>]*>(.*?)</text>", picture)
        assert first == title
        assert len(ticks) >= 3
    shown = re.sub(r"<[^>]+>", " ", page.partition("<main>")[2].partition("<script>")[0])
    assert not re.search(r"\de[-+]\d", shown)


def test_the_same_audit_gives_the_same_page(page: str, audit: Audit) -> None:
    assert audit_page(audit) == page


def test_pictures_escape_their_labels() -> None:
    drawn = bars([(HOSTILE, 1.0), ("b", -2.0)], title=HOSTILE)
    assert "<script" not in drawn
    assert text_of("a\x00\u202eb") == "a\\x00\\u202eb"


def test_a_browser_shows_it_without_errors(page: str, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    assert chromium is not None, "scripts/install-system-packages installs it"
    path, shot = tmp_path / "report.html", tmp_path / "shot.png"
    write_page(page, path)
    command = [
        chromium,
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr",
        "--window-size=390,800",
        f"--screenshot={shot}",
        path.as_uri(),
    ]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert shot.stat().st_size > 5_000
    # Messages in the console would include blocked styles and scripts.
    assert "CONSOLE" not in seen.stderr
    dumped = subprocess.run(
        [*command[:-2], "--dump-dom", command[-1]],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert "<title>Audit: attacked, " in dumped
    assert "owned</title>" not in dumped
    assert dumped.count("<script") == 1


def test_tables_are_sorted_filtered_and_downloaded_without_a_network(
    page: str, audit: Audit, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    write_page(page, path)
    with browser(tmp_path) as tab:
        tab.open(path.as_uri())
        accounts = "document.querySelector('table[data-name=accounts]')"
        column = f"[...{accounts}.tBodies[0].rows].map(r => parseFloat(r.cells[2].textContent))"
        tab.value(f"{accounts}.tHead.rows[0].cells[2].click()")
        tab.value(f"{accounts}.tHead.rows[0].cells[2].click()")
        scores = tab.value(column)
        assert scores == sorted(scores)
        assert len(scores) == sum(audit.listed_accounts()["score"].to_numpy() > 0)
        name = "user 1600"
        tab.value(
            f"(f => {{ f.value = '{name}'; f.dispatchEvent(new Event('input')) }})"
            f"({accounts}.parentElement.parentElement.querySelector('input:not([type])'))"
        )
        left = tab.value(
            f"[...{accounts}.tBodies[0].rows].filter(r => !r.hidden)"
            ".map(r => r.cells[0].textContent)"
        )
        assert all(name in text for text in left)
        assert len(left) < len(scores)
        # The saved file contains the whole table, also if it is filtered.
        tab.value(
            "window.Blob = class extends Blob"
            " { constructor(p, o) { super(p, o); window.saved = p[0] } }; 1"
        )
        tab.value(f"{accounts}.parentElement.parentElement.querySelector('.tools a').click()")
        assert tab.value("window.saved").count("\n") == len(scores) + 1
        contents = tab.value("[...document.querySelectorAll('nav a')].map(a => a.hash.slice(1))")
        assert tab.value("[...document.querySelectorAll('section')].map(s => s.id)") == contents
        assert tab.complaints == []


def test_labels_of_any_length_fit_wide_and_narrow(tmp_path: Path) -> None:
    names = ["x" * 10_000, "\u05e9\u05dc\u05d5\u05dd \u202egnp.exe", "\N{GRINNING FACE}", HOSTILE]
    rng = np.random.default_rng(1)
    users, actions = np.repeat(np.arange(300), 20), rng.integers(4, size=6_000)
    rewards = np.where((users < 45) & (actions == 0), 1.0, rng.random(6_000) < 0.1)
    log = pa.table(
        {
            "user": [f"{names[user % 4]} {user}" for user in users],
            "action": [names[action] for action in actions],
            "reward": rewards,
        }
    )
    found = audit_log(log, alpha=0.2, regime="server")
    assert found.verdict == "attacked"
    assert len(found.statement) < 500
    path = tmp_path / "report.html"
    write_page(audit_page(found), path)
    with browser(tmp_path) as tab:
        for size in (WIDE, NARROW):
            tab.look(size=size)
            tab.open(path.as_uri())
            assert tab.value("document.documentElement.scrollWidth") <= size[0]
        assert tab.complaints == []
