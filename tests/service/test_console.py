"""The console in a real browser: its contents, actions, and errors."""

import html
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from tests.browser import NARROW, WIDE, Browser, browser
from tests.service.learned import PLAIN, learned_policy, publish_learned
from tests.service.running import SHOP, Running, close_windows, running, until
from tests.service.traffic import visit
from unswayed.service.console import pages
from unswayed.service.console.pages import ASSETS, content
from unswayed.service.keys import make_key

#: Hostile labels.
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</td></table><a href='javascript:alert(1)'>\u202e",
)
CONTEXTS = (HOSTILE[0], HOSTILE[1])
BAD_SHOP = msgspec.structs.replace(SHOP, contexts=CONTEXTS, actions=HOSTILE)
OF_CAMPAIGN = ("", "/policies", "/policies/0/activate", "/jobs", "/users", "/audit")
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield one browser for all tests of this module."""
    with browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def quiet(tab: Browser) -> Iterator[Browser]:
    """Yield the browser; afterwards check for console errors and requests to other hosts.

    Request this fixture after the server's: the polling page is then left before the server stops.
    """
    tab.complaints.clear()
    tab.requests.clear()
    tab.look()
    yield tab
    tab.leave()
    assert tab.complaints == []
    assert {host.partition(":")[0] for host in tab.hosts()} <= {"127.0.0.1"}


def with_a_policy(shop: Running, rng: np.random.Generator) -> Running:
    """Return the shop with some traffic and a policy learned under attack."""
    visit(shop, rng, n_users=60, visits=1, colluders=0.2)
    publish_learned(shop, SHOP.contexts, SHOP.actions)
    until(lambda: shop.get("/v1/shop/status")["decisions"] == 120)
    return shop


@pytest.fixture
def learned_shop(sqlite_shop: Running, rng: np.random.Generator) -> Running:
    """Return a shop with a policy, on SQLite."""
    return with_a_policy(sqlite_shop, rng)


@pytest.fixture
def learned_shops(shop: Running, rng: np.random.Generator) -> Running:
    """Return a shop with a policy, on each database."""
    return with_a_policy(shop, rng)


def values(tab: Browser, selector: str) -> list[float]:
    """Return the numbers in a part of a page, with all digits."""
    script = f"[...document.querySelectorAll({json.dumps(selector + ' data')})].map(x => x.value)"
    return [float(text) for text in tab.value(script)]


def test_every_page_fits_wide_and_narrow_light_and_dark(
    learned_shop: Running, quiet: Browser, tmp_path: Path
) -> None:
    decision = learned_shop.decide("user-7")["id"]
    until(lambda: learned_shop.get("/v1/shop/status")["decisions"] == 121)
    more = [f"/console/c/shop/decisions/{decision}", "/console/c/shop/users?user=user-7"]
    addresses = ["/", "/console/login", *(f"/console/c/shop{path}" for path in OF_CAMPAIGN), *more]
    backs = set()
    for address in addresses:
        for size, is_dark in ((WIDE, False), (NARROW, True)):
            quiet.look(size=size, is_dark=is_dark)
            quiet.open(learned_shop.address + address)
            assert quiet.value("document.documentElement.scrollWidth") <= size[0], address
            backs.add(quiet.value("getComputedStyle(document.body).backgroundColor"))
            quiet.screenshot(tmp_path / "page.png")
            assert (tmp_path / "page.png").stat().st_size > 3_000
    assert len(backs) == 2  # light and dark differ


def test_a_phone_shows_the_map_first_and_marks_tables_that_scroll(
    learned_shop: Running, quiet: Browser, tmp_path: Path
) -> None:
    """Tables that scroll to the right have a shadow there; others have none."""
    pictures = []
    for size in (NARROW, WIDE):
        quiet.look(size=size)
        quiet.open(f"{learned_shop.address}/console/c/shop/policies")
        for step, script in enumerate(("1", "document.styleSheets[0].insertRule(" + PLAIN_TABLES)):
            quiet.value(script)
            quiet.screenshot(tmp_path / f"{size[0]}-{step}.png")
        first, second = ((tmp_path / f"{size[0]}-{step}.png").read_bytes() for step in (0, 1))
        pictures.append(first == second)
    assert pictures == [False, True]
    quiet.open(f"{learned_shop.address}/console/c/shop")
    assert quiet.value("document.querySelector('h2').textContent") == "Mean rewards"


PLAIN_TABLES = "'.wide{background:none!important}', document.styleSheets[0].cssRules.length)"


def test_numbers_on_the_pages_are_those_of_the_routes(
    learned_shops: Running, quiet: Browser
) -> None:
    status = learned_shops.get("/v1/shop/status")
    policy = learned_shops.get("/v1/shop/policy")["policy"]
    quiet.open(f"{learned_shops.address}/console/c/shop")
    tiles = values(quiet, ".tiles")
    assert tiles == [status["decisions"], status["rewards"], status["explored"]]
    expected = []
    for context in SHOP.contexts:
        expected.append(policy["context_probabilities"][context])
        for action in policy["actions"]:
            cell = policy["mean_rewards"][context][action]
            naive = policy["source"]["plain_means"][context][action]
            expected += [cell["mean"], cell["low"], cell["high"], naive]
    assert values(quiet, ".map") == expected
    marked = "[...document.querySelectorAll('.map td')].map(x => x.className)"
    assert quiet.value(marked) == ["chosen", "", "differs", "", "chosen", "differs"]
    assert PLAIN["lunch"][2] > policy["mean_rewards"]["lunch"]["cola"]["high"]
    recent = learned_shops.get("/v1/shop/decisions")["decisions"]
    rewards = values(quiet, "[aria-label='Latest decisions']")
    assert rewards == [row["reward"] for row in recent[:20]]


def test_the_map_marks_the_cells_of_actions_that_are_ruled_out() -> None:
    policy = learned_policy(SHOP.contexts, SHOP.actions)
    is_excluded = policy.mean_rewards < 0.14
    shown = content("map", replace(policy, is_excluded=is_excluded).to_json())
    assert shown.count("> ruled out<") == is_excluded.sum() == 3
    assert "> ruled out<" not in content("map", policy.to_json())


def test_the_map_names_the_assumptions_of_its_intervals() -> None:
    policy = learned_policy(SHOP.contexts, SHOP.actions).to_json()
    assert "Intervals hold if" not in content("map", policy)
    assumed = {"intervals": {"condition": "rewards can only be 0 or 1, as all in this log"}}
    shown = content("map", {**policy, "source": assumed})
    assert "Intervals hold if rewards can only be 0 or 1, as all in this log." in shown


def test_every_page_is_shown_on_each_database(learned_shops: Running, quiet: Browser) -> None:
    for path in OF_CAMPAIGN:
        quiet.open(f"{learned_shops.address}/console/c/shop{path}")
        assert quiet.text("h1")
        assert "did not work" not in quiet.text()
    user = learned_shops.get("/v1/shop/decisions")["decisions"][0]["user"]
    quiet.open(f"{learned_shops.address}/console/c/shop/users?user={user}")
    assert user in quiet.text()


def test_live_totals_follow_the_traffic(
    learned_shop: Running, quiet: Browser, rng: np.random.Generator
) -> None:
    quiet.open(f"{learned_shop.address}/")
    assert values(quiet, "#totals") == [120, 120, 120]
    # The time axis begins a minute ago, not in 1970.
    assert float(quiet.value("document.getElementById('plot').dataset.from")) > time.time() - 90
    visit(learned_shop, rng, n_users=40, visits=1, colluders=0.0)
    quiet.until("document.getElementById('totals').dataset.decisions === '200'")
    quiet.until("Number(document.getElementById('plot').dataset.points) >= 1")
    assert quiet.value("document.querySelectorAll('#plot canvas').length") == 1
    assert values(quiet, "#totals")[0] == learned_shop.get("/v1/shop/status")["decisions"]


def test_activating_and_rolling_back_ask_for_confirmation(
    learned_shop: Running, quiet: Browser
) -> None:
    quiet.open(f"{learned_shop.address}/console/c/shop/policies")
    quiet.click("[aria-label='Roll back to 0']")
    assert "Serve policy 0 instead of 1?" in quiet.text()
    assert "curry" in quiet.text("table")  # dinner changes from curry to the baseline
    assert learned_shop.get("/v1/shop/policy")["version"] == 1  # not before it is confirmed
    quiet.click("button.main")
    assert learned_shop.get("/v1/shop/policy")["version"] == 0
    assert "Activate" in quiet.text()
    quiet.click("[aria-label='Activate 1']")
    # With the keyboard alone: the button has the focus.
    quiet.until("document.activeElement.innerText === 'Activate policy 1'")
    quiet.press("Enter", 13, "\r")
    until(lambda: learned_shop.get("/v1/shop/policy")["version"] == 1)
    quiet.until("document.querySelectorAll('.mark.good').length === 1")


def test_hostile_labels_are_escaped_on_every_page(quiet: Browser, tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path}/bad.db", tmp_path, BAD_SHOP) as shop:
        publish_learned(shop, CONTEXTS, HOSTILE)
        decision = shop.decide(HOSTILE[2], HOSTILE[1])
        shop.post("/v1/shop/reward", {"token": decision["token"], "reward": 1.0})
        until(lambda: shop.get("/v1/shop/status")["decisions"] == 1)
        user = httpx.QueryParams({"user": HOSTILE[2]})
        for path in (*OF_CAMPAIGN, f"/users?{user}", f"/decisions/{decision['id']}"):
            quiet.open(f"{shop.address}/console/c/shop{path}")
            assert quiet.value("document.title").endswith("· unswayed")
            assert "owned" not in quiet.value("document.title").replace(HOSTILE[2], "")
            assert quiet.value("document.querySelectorAll('main script, main img').length") == 0
            links = quiet.value("[...document.querySelectorAll('main a')].map(x => x.protocol)")
            assert set(links) <= {"http:"}
            shown = quiet.text("main")
            assert "\u202e" not in shown
            if path in ("", "/policies", "/audit"):
                assert HOSTILE[0] in shown
        quiet.open(f"{shop.address}/console/c/shop")
        quiet.click("[aria-label='Latest decisions'] a")  # the user's own page
        assert quiet.value("document.querySelector('input[name=user]').value") == HOSTILE[2]
        quiet.leave()


def test_empty_campaigns_and_services_are_explained(sqlite_shop: Running, quiet: Browser) -> None:
    said = {
        "": ("No decisions yet", "Nothing was learned yet"),
        "/policies": ("nothing learned (0)",),
        "/jobs": ("Nothing was learned yet",),
        "/audit": ("there is no evidence",),
        "/users?user=nobody": ("None.",),
    }
    for path, sentences in said.items():
        quiet.open(f"{sqlite_shop.address}/console/c/shop{path}")
        for sentence in sentences:
            assert sentence in quiet.text("main"), path
    sqlite_shop.call("DELETE", "/v1/shop?confirm=shop").raise_for_status()
    quiet.open(f"{sqlite_shop.address}/")
    assert "There is no campaign yet." in quiet.text("main")


def test_a_learning_job_is_started_and_its_failure_is_shown(
    sqlite_shop: Running, quiet: Browser
) -> None:
    quiet.open(f"{sqlite_shop.address}/console/c/shop/jobs")
    quiet.click("button.main")
    assert len(sqlite_shop.get("/v1/shop/learn")["jobs"]) == 1
    until(lambda: sqlite_shop.get("/v1/shop/learn")["jobs"][0]["state"] == "failed", 120.0)
    error = sqlite_shop.get("/v1/shop/learn")["jobs"][0]["result"]["error"]
    # Polled, without a reload.
    quiet.until(f"document.querySelector('main').innerText.includes({json.dumps(error)})")


def test_the_page_of_a_decision_gives_the_reason(learned_shop: Running, quiet: Browser) -> None:
    decision = learned_shop.decide("user-3", "dinner")["id"]
    until(lambda: learned_shop.get("/v1/shop/status")["decisions"] == 121)
    why = learned_shop.get(f"/v1/shop/decisions/{decision}/explain")
    quiet.open(f"{learned_shop.address}/console/c/shop/users?user={decision}")
    assert quiet.text(".answer").lower() == why["why"].lower()
    assert "gives the same result" in quiet.text("main")
    cells = [
        cell[key]
        for cell in why["policy"]["cells"].values()
        for key in ("mean", "low", "high", "n")
    ]
    assert values(quiet, "[aria-label='Means']") == cells
    found = learned_shop.get("/v1/shop/decisions?user=user-3")
    assert found["decisions"][0]["decision"] == decision
    assert len(found["decisions"]) == 3
    assert all(row["user"] == "user-3" for row in found["decisions"])
    assert found["now"]["dinner"]["action"] == why["action"]  # sticky: kept by the user


def test_the_page_shows_a_current_audit(
    quiet: Browser, tmp_path: Path, rng: np.random.Generator
) -> None:
    settings = msgspec.structs.replace(SHOP, alpha=0.2)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as shop:
        quiet.open(f"{shop.address}/console/c/shop/audit")
        until(lambda: "there is nothing to audit yet" in quiet.text("#audited"), 60.0)
        visit(shop, rng, n_users=100, visits=4, colluders=0.3)
        close_windows(shop)
        quiet.value("document.querySelector('button.main').click()")
        until(lambda: quiet.value("document.querySelector('#audited .answer') !== null"), 60.0)
        assert quiet.text("#audited .answer") == shop.get("/v1/shop/audit")["statement"]
        quiet.leave()


@pytest.mark.slow
def test_learning_and_auditing_from_the_console_find_the_coalition(
    quiet: Browser, tmp_path: Path, rng: np.random.Generator
) -> None:
    settings = msgspec.structs.replace(SHOP, alpha=0.2)
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, settings) as shop:
        visit(shop, rng, n_users=600, visits=6, colluders=0.2)
        close_windows(shop)
        quiet.open(f"{shop.address}/console/c/shop/jobs")
        quiet.click("button.main")
        until(lambda: shop.get("/v1/shop/learn")["jobs"][0]["state"] == "done", 280.0)
        quiet.until("document.querySelector('.mark.good') !== null")
        quiet.open(f"{shop.address}/console/c/shop/audit")
        policy = shop.get("/v1/shop/policy")["policy"]
        assert (
            policy["source"]["plain_means"]["lunch"]["cola"] > 0.25
        )  # the plain mean prefers what colluders push
        assert policy["source"]["changed"] == {"lunch": "cola", "dinner": "cola"}
        assert "no longer count" in quiet.text(".answer")
        quiet.value("document.querySelector('button.main').click()")
        until(lambda: quiet.value("document.querySelector('#audited .answer') !== null"), 280.0)
        audit = shop.get("/v1/shop/audit")
        assert audit["attacked"]
        assert quiet.text("#audited .answer") == audit["statement"]
        tiles = [audit["share"]["estimate"], audit["flagged"], len(audit["changed"]), audit["cost"]]
        assert values(quiet, "#audited .tiles") == tiles
        quiet.leave()


def post(server: Running, path: str, **form: str) -> httpx.Response:
    """Submit a form as a page of the service does."""
    return server.http.post(path, headers={"Origin": server.address}, data=form)


def test_with_keys_an_admin_signs_in_and_nobody_else_sees_anything(
    quiet: Browser, tmp_path: Path
) -> None:
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, needs_keys=True) as shop:
        with shop.prepared.database.connected() as connection, connection.transaction():
            admin = make_key(connection, "*", "admin")
            own = make_key(connection, "shop", "admin")
            decide = make_key(connection, "shop", "decide")
        until(lambda: shop.call("GET", "/v1/shop", key=admin).status_code == 200)
        for path in ("/", *(f"/console/c/shop{path}" for path in OF_CAMPAIGN)):
            answer = shop.http.get(path, headers=HTML)
            assert (answer.status_code, answer.headers["location"]) == (303, "/console/login")
        for wrong in (decide, "nonsense", admin[:-1] + "_"):
            assert post(shop, "/console/login", key=wrong).status_code in (401, 403)
        assert not shop.http.cookies
        cookie = post(shop, "/console/login", key=own).headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert own.rpartition("_")[2] not in cookie  # the key itself is not kept
        shop.http.cookies.clear()
        value = re.match("unswayed_console=([^;]+)", cookie)
        assert value is not None
        for bad in (value[1][:-1] + "x", "", "a.b.c", value[1].replace(".", ".9", 1)):
            answer = shop.http.get("/", headers={**HTML, "Cookie": f"unswayed_console={bad}"})
            assert answer.status_code == 303, bad
        quiet.open(f"{shop.address}/")
        quiet.value(f"document.querySelector('input').value = {json.dumps(admin)}")
        quiet.click("button.main")
        assert "shop" in quiet.text("#totals")
        assert quiet.value("document.cookie") == ""
        shop.call("DELETE", f"/v1/keys/{admin.split('_')[1]}", key=admin).raise_for_status()
        quiet.open(f"{shop.address}/")
        assert "Sign in" in quiet.text("h1")
        quiet.leave()


def test_a_session_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pages.SESSION_SECONDS == 12 * 3600
    with running(f"sqlite:///{tmp_path}/shop.db", tmp_path, needs_keys=True) as shop:
        with shop.prepared.database.connected() as connection, connection.transaction():
            admin = make_key(connection, "*", "admin")
        until(lambda: shop.call("GET", "/v1/shop", key=admin).status_code == 200)
        for seconds, status in ((60, 200), (-1, 303)):
            monkeypatch.setattr(pages, "SESSION_SECONDS", seconds)
            cookie = post(shop, "/console/login", key=admin).headers["set-cookie"].partition(";")[0]
            shop.http.cookies.clear()
            answer = shop.http.get("/", headers={**HTML, "Cookie": cookie})
            assert answer.status_code == status


def test_other_sites_cannot_send_forms(sqlite_shop: Running) -> None:
    version = "/console/c/shop/policies/0/activate"
    for path in (version, "/console/c/shop/learn", "/console/login", "/console/logout"):
        for origin in ("http://evil.example", "null", None):
            headers = {} if origin is None else {"Origin": origin}
            assert sqlite_shop.http.post(path, headers=headers).status_code == 403, path
    assert sqlite_shop.get("/v1/shop/learn")["jobs"] == []
    # A foreign host name that resolves to this machine is not trusted.
    answer = sqlite_shop.http.get("/", headers={**HTML, "Host": "evil.example"})
    assert answer.status_code == 403
    assert post(sqlite_shop, version).status_code == 303


def test_pages_have_no_inline_script_and_load_only_own_files(sqlite_shop: Running) -> None:
    answer = sqlite_shop.http.get("/", headers=HTML)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert re.findall(r"<script(?! src=)|<style| style=| on\w+=", answer.text) == []
    loaded = re.findall(r'(?:src|href)="([^"]*)"', html.unescape(answer.text))
    assert all(address.startswith(("/", "#")) and address[:2] != "//" for address in loaded)
    for address in [one for one in loaded if one.startswith("/console/assets/")]:
        assert sqlite_shop.http.get(address).status_code == 200
    scripts = sum(len(ASSETS[name].encode()) for name in ("htmx.min.js", "uplot.min.js"))
    assert scripts < 95_000
    assert sqlite_shop.get("/")["service"] == "unswayed"  # programs get JSON
    missing = sqlite_shop.http.get("/console/c/nope", headers=HTML)
    assert missing.status_code == 404
    assert "there is no campaign" in missing.text
