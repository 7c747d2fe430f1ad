"""A real PostgreSQL server on loopback; scripts/install-system-packages installs it."""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def command(name: str, *arguments: str) -> None:
    """Run a command of PostgreSQL as an account that is allowed to."""
    found = shutil.which(name) or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), name
    )
    # The server refuses to run as root.
    account = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run(
        [*account, found, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/"
    )


@contextmanager
def running_server() -> Iterator[str]:
    """Yield the address of a fresh cluster, and stop it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="unswayed-pg-"))
    user = "postgres" if os.geteuid() == 0 else getpass.getuser()
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data = str(folder / "data")
        command("initdb", "-D", data, "-A", "trust", "-U", user, "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        command("pg_ctl", "-D", data, "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql://{user}@127.0.0.1:{port}/postgres"
        finally:
            command("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
