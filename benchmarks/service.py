"""Measure the cost of the service as ratios within one run on this machine.

``python benchmarks/service.py`` starts real servers on loopback and prints a line per ratio, with
``--json`` for JSON. Requests are counted per second of the server's processor time, which excludes
the client and other processes, or per second of real time if they wait for a disk. With Vowpal
Wabbit installed (``pip install vowpalwabbit``) in-process decisions are compared to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx

from unswayed import RobustMCB
from unswayed.policy import Decider
from unswayed.service.database import opened
from unswayed.service.planning import make_plan
from unswayed.service.serving import prepare
from unswayed.service.settings import Configuration, Settings
from unswayed.service.tokens import Record, encode_record
from unswayed.service.writing import Report, Writer, write_rewards

SHOP = Settings(contexts=tuple("abcd"), actions=tuple("uvwxyz"), reward_window=3600.0)
TOML = """
[server]
requests_per_second = 1000000.0
[campaigns.shop]
contexts = ["a", "b", "c", "d"]
actions = ["u", "v", "w", "x", "y", "z"]
reward_window = {window}
"""

CONNECTIONS = 32


class Server:
    """A server of one worker process, and its processor time."""

    def __init__(self, process: subprocess.Popen[str], address: str, store: str) -> None:
        self.process, self.address, self.store = process, address, store
        self.host, port = address.removeprefix("http://").split(":")
        self.port = int(port)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        (self.worker,) = children.split()

    def cpu_seconds(self) -> float:
        """Return the processor time that the server's threads have used, to the nanosecond."""
        threads = Path(f"/proc/{self.worker}/task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9

    def resident_bytes(self) -> int:
        """Return the resident memory of the server."""
        pages = int(Path(f"/proc/{self.worker}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serving(window: float = 3600.0) -> Iterator[Server]:
    """Start the command that people run, on a new SQLite store."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "shop.toml").write_text(TOML.format(window=window))
        store = f"sqlite:///{folder}/shop.db"
        command = [str(Path(sys.executable).with_name("unswayed")), "serve", "--port", "0"]
        command += ["--config", "shop.toml", "--store", store]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield Server(process, line.split(" at ")[1].split(";")[0], store)
        finally:
            process.terminate()
            process.wait(timeout=30)
            assert process.stdout is not None
            process.stdout.close()


def request(method: str, path: str, body: Any = None) -> bytes:
    """Return a request as it goes over the wire."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def one_connection(
    server: Server, requests: Iterator[bytes], latencies: list[float]
) -> list[bytes]:
    """Send requests one after another, and return the bodies of the responses."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    bodies = []
    try:
        for data in requests:
            start = time.perf_counter()
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            bodies.append(await reader.readexactly(length))
            latencies.append(time.perf_counter() - start)
            assert head.startswith(b"HTTP/1.1 2"), bodies[-1]
    finally:
        writer.close()
    return bodies


def sent(
    server: Server, requests: list[bytes], connections: int = CONNECTIONS
) -> tuple[list[bytes], list[float], float]:
    """Send requests over some connections; return responses, latencies and seconds."""
    latencies: list[float] = []

    async def run() -> list[bytes]:
        shared = iter(requests)
        found = await asyncio.gather(
            *(one_connection(server, shared, latencies) for _ in range(connections))
        )
        return [body for part in found for body in part]

    start = time.perf_counter()
    bodies = asyncio.run(run())
    return bodies, latencies, time.perf_counter() - start


def per_cpu_second(server: Server, requests: list[bytes]) -> float:
    """Return the number of requests that the server handles per second of processor time."""
    start = server.cpu_seconds()
    sent(server, requests)
    return len(requests) / (server.cpu_seconds() - start)


def decide_request(number: int) -> bytes:
    """Return a request for one decision."""
    body = {"user": f"user-{number % 20_000}", "context": "abcd"[number % 4]}
    return request("POST", "/v1/shop/decide", body)


def batch_request(number: int, size: int) -> bytes:
    """Return a request for many decisions."""
    first = number * size
    rows = [
        {"user": f"user-{n % 20_000}", "context": "abcd"[n % 4]} for n in range(first, first + size)
    ]
    return request("POST", "/v1/shop/decide/batch", {"decisions": rows})


def compare_decides(server: Server, *, n: int, turns: int) -> dict[str, Any]:
    """Compare single decisions with a constant response of the same server."""
    constants, decides = [], []
    sent(server, [decide_request(number) for number in range(200)])
    for _ in range(turns):
        constants.append(per_cpu_second(server, [request("GET", "/healthz")] * n))
        decides.append(per_cpu_second(server, [decide_request(number) for number in range(n)]))
    ratio = statistics.median(d / c for d, c in zip(decides, constants, strict=True))
    return {
        "what": "single decides against a constant response, per processor second",
        "ratio": ratio,
        "target": 0.8,
        "decides": statistics.median(decides),
        "constants": statistics.median(constants),
    }


def batch_rate(server: Server, *, n: int, turns: int) -> dict[str, Any]:
    """Return the rate of decisions in batches of a hundred."""
    rates = [
        100 * per_cpu_second(server, [batch_request(number, 100) for number in range(n)])
        for _ in range(turns)
    ]
    return {
        "what": "decisions in requests for a hundred, per processor second",
        "ratio": statistics.median(rates) / 200_000,
        "target": 1.0,
        "decisions": statistics.median(rates),
    }


def store_alone(n: int) -> float:
    """Return the rewards per second that the store accepts from 32 callers, without HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/shop.db"
        prepare(Configuration(campaigns={"shop": SHOP}), store=store, secret_path=None)
        writer = Writer(opened(store))

        def row(number: int) -> Report:
            id_ = number.to_bytes(16, "big")
            record = Record("shop", id_, f"user-{number}", "a", "u", 0.25, "explore", 1)
            return Report(record, encode_record(record), number, is_late=False, value=1.0)

        async def caller(numbers: Iterator[int]) -> None:
            for number in numbers:
                await writer.written(write_rewards, (row(number),))

        async def run() -> None:
            shared = iter(range(n))
            await asyncio.gather(*(caller(shared) for _ in range(CONNECTIONS)))

        start = time.perf_counter()
        asyncio.run(run())
        seconds = time.perf_counter() - start
        writer.stop()
        return n / seconds


def compare_rewards(server: Server, *, n: int, turns: int) -> dict[str, Any]:
    """Compare durable single rewards over HTTP with the store alone."""
    alone, served = [], []
    for turn in range(turns):
        alone.append(store_alone(n))
        batches = [batch_request(turn * 1_000 + number, 100) for number in range(n // 100)]
        responses, _, _ = sent(server, batches)
        tokens = [one["token"] for body in responses for one in json.loads(body)["decisions"]]
        rewards = [
            request("POST", "/v1/shop/reward", {"token": token, "reward": 1.0}) for token in tokens
        ]
        _, _, seconds = sent(server, rewards)
        served.append(len(rewards) / seconds)
    return {
        "what": "durable single rewards on 32 connections against the store alone, per second",
        "ratio": statistics.median(s / a for s, a in zip(served, alone, strict=True)),
        "target": 0.5,
        "served": statistics.median(served),
        "alone": statistics.median(alone),
    }


def rate_of(decide: Callable[[str, str], object], n: int) -> float:
    """Return the number of single decisions per second of processor time."""
    users = [f"user-{number % 1_000}" for number in range(n)]
    for user in users[:1_000]:
        decide(user, "a")
    start = time.process_time()
    for user in users:
        decide(user, "a")
    return n / (time.process_time() - start)


def compare_in_process(*, n: int, turns: int) -> dict[str, Any]:
    """Compare single decisions in this process with Vowpal Wabbit's predictions."""
    decider = Decider(make_plan("shop", SHOP), bytes(16))
    # With more contexts than actions, an action is drawn at every play; otherwise users keep one.
    kept, drawn = (
        RobustMCB(0.1, actions=SHOP.actions, contexts=contexts, secret=bytes(16))
        for contexts in (SHOP.contexts, tuple("abcdefgh"))
    )
    ways: dict[str, Callable[[str, str], object]] = {
        "Decider.decide": lambda user, context: decider.decide(user, context, 7),
        "RobustMCB.decide": kept.decide,
        "RobustMCB.decide, drawn at every play": drawn.decide,
    }
    predict = wabbit()
    if predict is not None:
        ways["vowpalwabbit"] = predict
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, decide in ways.items():
            rates[name].append(rate_of(decide, n))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratios = {
        f"ratio of {way}": statistics.median(
            o / w for o, w in zip(rates[way], rates["vowpalwabbit"], strict=True)
        )
        for way in ways
        if "vowpalwabbit" in rates
    }
    return {
        "what": "single decisions in process against Vowpal Wabbit with a parsed example",
        "ratio": ratios.get("ratio of RobustMCB.decide"),
        "target": 5.0,
        **medians,
        **ratios,
    }


def wabbit() -> Callable[[str, str], object] | None:
    """Return Vowpal Wabbit's prediction for a context of four, if it is installed."""
    try:
        from vowpalwabbit import LabelType, Workspace
    except ImportError:
        return None
    workspace = Workspace(f"--cb_explore {len(SHOP.actions)} --quiet")
    workspace.learn(f"1:0.5:{1 / len(SHOP.actions)} | a")
    # Parsed once, since parsing text for each prediction takes twice as long.
    parsed = {c: workspace.parse(f"| {c}", LabelType.CONTEXTUAL_BANDIT) for c in SHOP.contexts}
    return lambda _, context: workspace.predict(parsed[context])


def memory_growth(server: Server, *, n: int) -> dict[str, Any]:
    """Return the growth of memory after a million decisions."""
    per_request = 1_000
    warm = [batch_request(number, per_request) for number in range(200)]
    sent(server, warm, connections=4)
    time.sleep(3.0)
    before = server.resident_bytes()
    for start in range(0, n // per_request, 100):
        rows = range(start, min(start + 100, n // per_request))
        sent(server, [batch_request(number, per_request) for number in rows], connections=4)
    time.sleep(3.0)
    after = server.resident_bytes()
    return {
        "what": f"memory after {n:,} more decisions, as a share of before",
        "ratio": after / before,
        "target": 1.1,
        "before": before,
        "after": after,
    }


def latency_while_learning(*, n: int) -> dict[str, Any]:
    """Compare the 99th percentile of single decisions at rest and while a learner runs."""
    with serving(window=1.0) as server:
        responses, _, _ = sent(server, [batch_request(number, 1_000) for number in range(200)])
        for body in responses:
            rows = json.loads(body)["decisions"]
            rewards = [
                {"token": row["token"], "reward": float(row["action"] == "u")} for row in rows
            ]
            sent(server, [request("POST", "/v1/shop/reward/batch", {"rewards": rewards})], 1)
        time.sleep(3.0)
        decides = [decide_request(number) for number in range(n)]
        resting = [percentile_99(sent(server, decides, 4)[1]) for _ in range(3)]
        busy: list[float] = []
        with httpx.Client(base_url=server.address, timeout=60.0) as http:
            path = f"/v1/shop/learn/{http.post('/v1/shop/learn').json()['id']}"
            # Poll between the measurements, because a polling thread would delay this client.
            while http.get(path).json()["state"] in ("queued", "running"):
                busy.append(percentile_99(sent(server, decides, 4)[1]))
        # Measure before and after, because other load on the machine may change.
        resting += [percentile_99(sent(server, decides, 4)[1]) for _ in range(3)]
    return {
        "what": "99th percentile of a decision while learning against at rest",
        "ratio": statistics.median(busy) / statistics.median(resting),
        "target": 3.0,
        "at_rest_ms": 1000 * statistics.median(resting),
        "learning_ms": 1000 * statistics.median(busy),
    }


#: Mean rewards of honest users by context; each context has another best action, which pays more.
RATES = dict(zip(SHOP.contexts, (0.15, 0.1, 0.15, 0.1), strict=True))


def silent_traffic(times: int, rate: float, visits: int, seed: int, lead: float) -> dict[str, Any]:
    """Learn and audit with additional accounts that request one decision and report no reward.

    No account lies. ``rate`` scales all mean rewards, and the mean of the best action is ``lead``
    times that of the others.
    """
    best = dict(zip(SHOP.contexts, SHOP.actions, strict=False))
    rng, n_users = random.Random(seed), 24_000 // visits
    rows = [(f"user-{n}", rng.choice(SHOP.contexts)) for n in range(n_users) for _ in range(visits)]
    rows += [(f"crawler-{n}", rng.choice(SHOP.contexts)) for n in range(times * n_users)]
    rng.shuffle(rows)
    with serving(window=1.0) as server, httpx.Client(base_url=server.address, timeout=600) as http:
        for start in range(0, len(rows), 1_000):
            part = rows[start : start + 1_000]
            asked = [{"user": user, "context": context} for user, context in part]
            made = http.post("/v1/shop/decide/batch", json={"decisions": asked}).json()["decisions"]
            rewards = [
                {"token": one["token"], "reward": 1.0}
                for (user, context), one in zip(part, made, strict=True)
                if user.startswith("user")
                and rng.random()
                < rate * RATES[context] * (lead if one["action"] == best[context] else 1.0)
            ]
            http.post("/v1/shop/reward/batch", json={"rewards": rewards or [{}]})
        time.sleep(2.5)
        path = f"/v1/shop/learn/{http.post('/v1/shop/learn').json()['id']}"
        while (job := http.get(path).json())["state"] in ("queued", "running"):
            time.sleep(0.2)
        policy = http.get("/v1/shop/policy").json()["policy"]
        audit = http.get("/v1/shop/audit").json()
    means = policy["source"]["plain_means"]
    plain = {context: max(means[context], key=means[context].__getitem__) for context in best}
    return {
        "what": f"{times} silent accounts for each user with {visits} visits",
        "rate": rate,
        "lead": lead,
        "seed": seed,
        "plain means right": sum(plain[context] == best[context] for context in best),
        "served right": sum(policy["policy"][context] == best[context] for context in best),
        "of": len(best),
        "silent share": job["result"]["silent_share"],
        "flagged": audit.get("flagged"),
        "audit": audit.get("statement", audit.get("error")),
    }


def percentile_99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(values, n=100)[98]


def main() -> None:
    """Measure all ratios and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--silent", action="store_true", help="learn with accounts that never report, instead"
    )
    parser.add_argument(
        "--lead",
        type=float,
        default=2.0,
        help="factor of the best action's mean reward, with --silent",
    )
    arguments = parser.parse_args()
    if arguments.silent:
        for times, rate, visits in product((0, 3, 5), (1.0, 0.2), (24, 6)):
            for seed in range(arguments.turns):
                found = silent_traffic(times, rate, visits, seed, arguments.lead)
                print(json.dumps(found), flush=True)
        return
    n, turns = arguments.requests, arguments.turns
    results = [compare_in_process(n=25 * n, turns=turns)]
    with serving() as server:
        results.append(compare_decides(server, n=n, turns=turns))
        results.append(batch_rate(server, n=n // 10, turns=turns))
        results.append(compare_rewards(server, n=n, turns=turns))
        results.append(memory_growth(server, n=250 * n))
    results.append(latency_while_learning(n=n))
    if arguments.json:
        print(json.dumps(results))
        return
    for result in results:
        ratio = "not measured" if result["ratio"] is None else f"{result['ratio']:.3g}"
        rest = "  ".join(
            f"{name}: {value:,.4g}"
            for name, value in result.items()
            if name not in ("what", "ratio", "target")
        )
        print(f"{result['what']}: {ratio} (target {result['target']:g})   {rest}")


if __name__ == "__main__":
    main()
