"""Coverage-guided fuzzing: ``python -m tests.faults.fuzz [SHARE [TARGET …]]``.

Without arguments every target gets its recorded number of inputs, a million in total; SHARE is the
fraction of them to run. Each input may take a minute and two gigabytes. Prints a line of JSON for
each target. Inputs that cause any other exception than an ``InputError`` are saved, and the command
fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

#: Number of recorded inputs of each target.
INPUTS = {
    "policy": 300_000,
    "index": 250_000,
    "texts": 200_000,
    "header": 130_000,
    "online": 60_000,
    "piece": 50_000,
    "csv": 2_500,
    "csv.gz": 2_500,
    "jsonl": 2_500,
    "parquet": 2_500,
}

#: Limits for one input.
SECONDS = 60
MEGABYTES = 2_048

ROOT = Path(__file__).parents[2]


def fuzz(name: str, n_inputs: int) -> dict[str, object]:
    """Fuzz a target in a child process, and return the outcome."""
    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory) as scratch:
        command = [sys.executable, "-m", "tests.faults.fuzz", "--inside", name, scratch]
        result = subprocess.run(
            [*command, str(n_inputs)], cwd=ROOT, capture_output=True, text=True, check=False
        )
    if result.returncode:
        sys.stderr.write(result.stderr[-5_000:])
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", result.stderr))
    return {
        "target": name,
        "inputs": int(stats.get("number_of_executed_units", 0)),
        "slowest_seconds": int(stats.get("slowest_unit_time_sec", 0)),
        "peak_megabytes": int(stats.get("peak_rss_mb", 0)),
        "is_sound": result.returncode == 0,
    }


def fuzz_inside(name: str, scratch: Path, n_inputs: str) -> None:
    """Fuzz a target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["unswayed"], exclude=_compiled_modules()):
        from tests.faults.targets import TARGETS
    warnings.simplefilter("error")
    target = TARGETS[name]
    corpus, work, words = scratch / "corpus", scratch / "work", scratch / "words"
    corpus.mkdir()
    work.mkdir()
    for number, seed in enumerate(target.seeds()):
        (corpus / str(number)).write_bytes(seed)
    words.write_text("".join(f'"{word}"\n' for word in ("user", *target.words)))
    options = [
        f"-runs={n_inputs}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-dict={words}",
        f"-artifact_prefix={tempfile.gettempdir()}/unswayed-fuzz-{name}-",
        "-seed=1",
        "-max_len=8192",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: target.run(work, data))
    atheris.Fuzz()


def _compiled_modules() -> list[str]:
    """Return the modules with loops that numba compiles, which cannot be instrumented."""
    source = ROOT / "src"
    paths = [p for p in source.rglob("*.py") if "unswayed.compiled" in p.read_text("utf-8")]
    return [".".join(path.relative_to(source).with_suffix("").parts) for path in paths]


def main() -> None:
    """Fuzz the named targets, and print the outcome of each."""
    if sys.argv[1:2] == ["--inside"]:
        fuzz_inside(sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    is_sound = True
    for name in sys.argv[2:] or INPUTS:
        result = fuzz(name, max(int(INPUTS[name] * share), 1))
        is_sound &= bool(result["is_sound"])
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
    sys.exit(0 if is_sound else 1)


if __name__ == "__main__":
    main()
