"""Files are written completely or not at all; folders are changed by one process at a time."""

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from unswayed import storage
from unswayed.errors import InputError
from unswayed.storage import (
    check_writable,
    discard_unfinished,
    locked_folder,
    temporary_folder,
    whole_file,
)


def write(path: Path, text: str) -> None:
    with whole_file(path) as draft:
        draft.write_text(text)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "policy.json"
    write(target, "old")

    def fail_halfway() -> None:
        with whole_file(target) as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["policy.json"]


def test_a_full_disk_leaves_the_old_file_and_an_error_message(tmp_path: Path) -> None:
    target = tmp_path / "policy.json"
    write(target, "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(InputError, match=r"cannot write .*policy.json: File too large"):
            write(target, "new" * 1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["policy.json"]


def test_links_are_kept_and_their_targets_are_replaced(tmp_path: Path) -> None:
    """The target of a dangling link is created, and a cycle of links is refused."""
    (tmp_path / "real").mkdir()
    target, link, loop = tmp_path / "real/policy.json", tmp_path / "current.json", tmp_path / "loop"
    write(target, "old")
    link.symlink_to(target)
    write(link, "new")
    target.unlink()
    write(link, "again")
    assert link.is_symlink()
    assert target.read_text() == "again"
    loop.symlink_to("loop")
    with pytest.raises(InputError, match="cannot write"):
        write(loop, "new")


def test_a_file_keeps_its_permissions_and_the_longest_name(tmp_path: Path) -> None:
    target = tmp_path / ("ü" * 120 + ".json")
    write(target, "old")
    target.chmod(0o640)
    write(target, "new")
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """Otherwise root would replace /dev/null by a regular file."""
    write(Path("/dev/null"), "away")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write(pipe, "through")
    reader.join()
    assert got == ["through"]


@pytest.mark.parametrize("name", ["missing/policy.json", ".", "file/policy.json", "n" * 300])
def test_unwritable_outputs_are_reported_before_any_work(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for attempt in (check_writable, lambda path: write(path, "new")):
        with pytest.raises(InputError, match="cannot write") as caught:
            attempt(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_temporary_files_of_killed_processes_are_removed_and_others_kept(tmp_path: Path) -> None:
    target = tmp_path / "policy.json"
    script = (
        "import sys, time; from unswayed.storage import whole_file\n"
        "with whole_file(sys.argv[1]) as draft:\n"
        "    draft.write_text('half'); print('writing', flush=True); time.sleep(60)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, target], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    write(target, "first")
    assert len(names_in(tmp_path)) == 2  # the other process is still writing this file
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert len(names_in(tmp_path)) == 2
    write(target, "second")
    assert names_in(tmp_path) == ["policy.json"]


def test_temporary_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stale = tmp_path / "unswayed-stale"
    stale.mkdir()
    (stale / ".lock").touch()
    with temporary_folder() as first, temporary_folder() as second:
        (second / "spill").write_text("rows")
        assert {path.name for path in tmp_path.iterdir()} == {first.name, second.name}
    assert names_in(tmp_path) == []


def test_a_missing_temporary_folder_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    with pytest.raises(InputError, match="TMPDIR"), temporary_folder():
        pass


def test_discarding_unfinished_files_leaves_nothing(tmp_path: Path) -> None:
    draft_of = whole_file(tmp_path / "policy.json")
    draft_of.__enter__().write_text("half")
    discard_unfinished()
    assert names_in(tmp_path) == []


def test_a_writer_waits_for_the_previous_one(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with locked_folder(tmp_path):
            order.append("second")

    with locked_folder(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_readers_share_a_folder_and_keep_writers_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked_folder(tmp_path):
        pass
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.2)

    def hold(*, is_reader: bool) -> None:
        with locked_folder(tmp_path, is_reader=is_reader):
            pass

    with locked_folder(tmp_path, is_reader=True):
        hold(is_reader=True)
        with pytest.raises(InputError, match="another run has used"):
            hold(is_reader=False)
    with locked_folder(tmp_path), pytest.raises(InputError, match="try again"):
        hold(is_reader=True)


def test_a_reader_creates_no_file_in_a_folder_without_tallies(tmp_path: Path) -> None:
    with locked_folder(tmp_path, is_reader=True), locked_folder(tmp_path / "no", is_reader=True):
        pass
    assert names_in(tmp_path) == []
