"""The OpenAPI document, and random requests generated from it."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.service.running import Running, command
from unswayed.service.endpoints import ENDPOINTS


def test_every_route_is_documented_and_every_reference_resolves(sqlite_shop: Running) -> None:
    document = sqlite_shop.get("/openapi.json")
    routes = {
        (method.upper(), path) for path, found in document["paths"].items() for method in found
    }
    assert routes == {(one.method, one.path) for one in ENDPOINTS}
    text = httpx.get(f"{sqlite_shop.address}/openapi.json").text
    for name in set(text.split('"#/components/schemas/')[1:]):
        assert name.partition('"')[0] in document["components"]["schemas"]
    names = [found["operationId"] for path in document["paths"].values() for found in path.values()]
    assert len(set(names)) == len(names)


def fuzzed(folder: Path, n_examples: int) -> str:
    """Send requests generated from the document to a real server; return the findings.

    They address the one existing campaign, since any other name gives 404.
    """
    with command(folder=folder) as (process, address):
        document = httpx.get(f"{address}/openapi.json").json()
        for path in document["paths"].values():
            for operation in path.values():
                for parameter in operation.get("parameters", []):
                    if parameter["name"] == "campaign":
                        parameter["schema"] = {"type": "string", "enum": ["demo"]}
        (folder / "openapi.json").write_text(json.dumps(document))
        result = subprocess.run(
            [
                Path(sys.executable).with_name("st"),
                "run",
                "openapi.json",
                "--url",
                address,
                "--max-examples",
                str(n_examples),
                "--checks",
                "not_a_server_error,content_type_conformance",
                "--exclude-path-regex",
                "export|report|audit|learn|signing-keys|keys",
                "--seed",
                "1",
                "--generation-database",
                "none",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            timeout=1_500,
        )
        assert process.poll() is None, "the server ended"
        assert httpx.get(f"{address}/readyz").status_code == 200
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    return result.stdout


@pytest.mark.slow
def test_fuzzing_finds_no_server_error(tmp_path: Path) -> None:
    fuzzed(tmp_path, 200)


def test_a_short_fuzzing_run_finds_no_server_error(tmp_path: Path) -> None:
    fuzzed(tmp_path, 5)
