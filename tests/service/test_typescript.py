"""The TypeScript client: generated from the OpenAPI document, and run against a server."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.running import SHOP, Running

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients/typescript"

VISIT = """
import { Client, ServiceError } from %s;
const client = new Client(%s, "shop");
const decision = await client.decide("ann", "lunch", { actions: ["curry", "cola"], top: 2 });
const taken = await client.reward(decision.token, 1);
const again = await client.reward(decision.token, 1);
let code = "";
try {
  await client.reward(decision.token, 0);
} catch (error) {
  code = error instanceof ServiceError ? `${error.status} ${error.code}` : String(error);
}
const status = await client.call("status");
const pixel = await fetch(client.pixel(decision.token));
const same = taken.id === again.id;
console.log(JSON.stringify({ decision, same, code, status, pixel: pixel.status }));
"""


def test_the_client_matches_the_openapi_document(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/write-typescript-client", tmp_path], check=True)
    for name in ("index.mjs", "index.d.mts"):
        assert (CLIENT / name).read_text() == (tmp_path / name).read_text(), (
            "run scripts/write-typescript-client clients/typescript"
        )


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_client_decides_and_rewards(sqlite_shop: Running, tmp_path: Path) -> None:
    script = tmp_path / "visit.mjs"
    script.write_text(
        VISIT % (json.dumps(str(CLIENT / "index.mjs")), json.dumps(sqlite_shop.address))
    )
    done = subprocess.run(["node", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["decision"]["action"] in SHOP.actions[1:]
    assert sorted(found["decision"]["ranked"]) == ["cola", "curry"]
    assert (found["same"], found["code"], found["pixel"]) == (True, "409 reward_conflict", 200)
    assert found["status"]["rewards"] == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_types_of_the_client_are_checked(tmp_path: Path) -> None:
    subprocess.run(
        ["npm", "install", "--silent", "--prefix", tmp_path, "typescript@5"],
        check=True,
        timeout=300,
    )
    shutil.copytree(CLIENT, tmp_path / "unswayed")
    visit = VISIT % ('"./unswayed/index.mjs"', '"http://127.0.0.1"')
    right, wrong = tmp_path / "visit.mts", tmp_path / "wrong.mts"
    right.write_text(visit)
    wrong.write_text(visit.replace('"ann", "lunch", {', '"ann", "lunch", { topp: 1,'))
    codes = [
        subprocess.run(
            [
                tmp_path / "node_modules/.bin/tsc",
                *("--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"),
                *("--lib", "es2022,dom", path),
            ],
            check=False,
        ).returncode
        for path in (right, wrong)
    ]
    assert codes[0] == 0
    assert codes[1] != 0
