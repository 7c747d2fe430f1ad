"""Metrics for Prometheus, summed over the worker processes, and logs. Neither names a user."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import secrets
import sys
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

from unswayed.service.settings import ServerSettings

#: Upper ends of the latency histogram, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

#: Name, kind and help of every metric.
METRICS = {
    "unswayed_requests_total": ("counter", "Requests by route and status."),
    "unswayed_request_seconds": ("histogram", "Response time, by route."),
    "unswayed_decisions_total": ("counter", "New decisions by campaign and mode."),
    "unswayed_rewards_total": ("counter", "New rewards, by campaign."),
    "unswayed_refusals_total": ("counter", "Refusals by code."),
    "unswayed_store_commits_total": ("counter", "Transactions committed."),
    "unswayed_store_commit_seconds_total": ("counter", "Time that these transactions took."),
    "unswayed_writes_waiting": ("gauge", "Requests that wait for their commit."),
    "unswayed_store_healthy": ("gauge", "Worker processes whose store works."),
    "unswayed_decisions_waiting": ("gauge", "Decisions that wait to be recorded."),
    "unswayed_decisions_dropped_total": ("counter", "Decisions lost while the store failed."),
    "unswayed_workers": ("gauge", "Worker processes."),
    "unswayed_worker_restarts_total": ("counter", "Worker processes that ended unexpectedly."),
    "unswayed_learning_running": ("gauge", "Queued and running learning jobs, by campaign."),
    "unswayed_learning_seconds": ("gauge", "Duration of the last learning job, by campaign."),
    "unswayed_learning_success_timestamp_seconds": ("gauge", "When that job ended, by campaign."),
    "unswayed_epoch": ("gauge", "Epoch of the served plan, by campaign."),
    "process_cpu_seconds_total": ("counter", "Processor time of the workers."),
    "process_resident_memory_bytes": ("gauge", "Memory of the workers; shared pages count twice."),
    "process_open_fds": ("gauge", "Open descriptors of the workers."),
}


class Metrics:
    """The metrics of this process, and through a shared folder those of the others.

    The counts of a process that ended stay there, so that counters never decrease; its gauges are
    dropped.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{os.getpid()}.json"
        self.folder = folder
        self.numbers: defaultdict[str, float] = defaultdict(float)
        #: For each route: the number of responses in each bucket, and the sum of their seconds.
        self._latencies: defaultdict[str, list[float]] = defaultdict(
            lambda: [0.0] * (len(BUCKETS) + 2)
        )
        self._series: dict[tuple[str, ...], str] = {}
        self._lock = threading.Lock()

    def add_response(self, route: str, status: int, seconds: float) -> None:
        """Count a response and its latency."""
        self.count("unswayed_requests_total", route=route, status=str(status))
        latency = self._latencies[route]
        latency[bisect_left(BUCKETS, seconds)] += 1
        latency[-1] += seconds

    def count(self, name: str, number: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        key = (name, *labels.values())
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = labelled(name, labels)
        self.numbers[series] += number

    def save(self) -> None:
        """Write this process's metrics to the shared folder."""
        own = {"pid": os.getpid(), "numbers": dict(self.numbers), "latencies": self._latencies}
        with self._lock, suppress(OSError):  # an error here must not stop the service
            draft = self._path.with_suffix(".new")
            draft.write_text(json.dumps(own))
            draft.replace(self._path)

    def text(self, of_store: Mapping[str, float]) -> str:
        """Return all metrics in Prometheus' text format, including those of the store."""
        numbers: defaultdict[str, float] = defaultdict(float, of_store)
        latencies: dict[str, list[float]] = {}
        for path in sorted(self.folder.glob("*.json")):
            with suppress(OSError, ValueError):
                found = json.loads(path.read_text())
                is_alive = _is_alive(found["pid"])
                for series, number in found["numbers"].items():
                    if is_alive or METRICS[series.partition("{")[0]][0] == "counter":
                        numbers[series] += number
                for route, values in found["latencies"].items():
                    before = latencies.get(route, [0.0] * len(values))
                    latencies[route] = [a + b for a, b in zip(before, values, strict=True)]
        lines = []
        for name, (kind, text) in METRICS.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [
                f"{series} {number:.15g}"
                for series, number in sorted(numbers.items())
                if series.partition("{")[0] == name
            ]
            if kind != "histogram":
                continue
            for route, (*values, seconds) in sorted(latencies.items()):
                totals = list(accumulate(values))
                lines += [
                    f'{name}_bucket{{route="{route}",le="{end}"}} {total:.0f}'
                    for end, total in zip((*BUCKETS, "+Inf"), totals, strict=True)
                ]
                lines.append(f'{name}_sum{{route="{route}"}} {seconds:.6f}')
                lines.append(f'{name}_count{{route="{route}"}} {totals[-1]:.0f}')
        return "\n".join(lines) + "\n"


def process_numbers() -> dict[str, float]:
    """Return the processor time and open resources of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {"process_cpu_seconds_total": used.ru_utime + used.ru_stime}
    with suppress(OSError):  # on systems other than Linux
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        found["process_resident_memory_bytes"] = float(pages * resource.getpagesize())
        found["process_open_fds"] = float(sum(1 for _ in Path("/proc/self/fd").iterdir()))
    return found


def labelled(name: str, labels: Mapping[str, str]) -> str:
    """Return the name of a series, with its labels."""
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    inner = ",".join(f'{key}="{value.translate(escapes)}"' for key, value in labels.items())
    return f"{name}{{{inner}}}" if inner else name


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


_NAMES = ("unswayed.service", "uvicorn.error")  # Loggers that write to standard error

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class Lines(logging.Formatter):
    """Formats each log record as a line of text or JSON."""

    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; in text format, a traceback follows on lines of its own."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        time, level = time.replace("+00:00", "Z"), record.levelname.lower()
        message, fields = record.getMessage(), getattr(record, "fields", {})
        traceback = self.formatException(record.exc_info) if record.exc_info else ""
        if not self._is_json:
            more = "".join(f" {name}={value}" for name, value in fields.items())
            return f"{time} {level} {message}{more}" + (f"\n{traceback}" if traceback else "")
        said = {"time": time, "level": level, "process": record.process, "message": message}
        said |= fields | ({"traceback": traceback} if traceback else {})
        return json.dumps(said, default=str)


def start_logs(settings: ServerSettings) -> None:
    """Log to standard error, in the format and from the level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(is_json=settings.log_format == "json"))
    for name in _NAMES:
        one = logging.getLogger(name)
        one.handlers = [handler]
        one.propagate = False
        one.setLevel(settings.log_level.upper())
    # Its warnings are about malformed requests, which anybody can send.
    logging.getLogger("uvicorn.error").setLevel("ERROR")


def request_id(given: bytes | None) -> str:
    """Return the caller's request id if it can be logged, else a new one."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return secrets.token_hex(8)
