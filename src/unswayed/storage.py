"""Atomic writes of files, and folders that one process changes at a time.

All files are written through ``whole_file``. A draft beside the target replaces it in one step once
it is on disk; until then, and after any failure, the old file stays.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unswayed.errors import InputError, Note

#: Ours: seconds to wait for another run that uses a folder, and seconds until that is reported.
LOCK_SECONDS = 600.0
_NOTE_SECONDS = 1.0
_POLL_SECONDS = 0.05

_LOCK = ".lock"
_DRAFT_ENDING = ".part"
_FOLDER_PREFIX = "unswayed-"

#: Maximum bytes of the target's name within its draft's name, as file names have at most 255.
_NAME_BYTES = 180

#: Errors of file systems that cannot sync a folder.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)

#: Errors that freeing disk space resolves.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: Unfinished drafts and temporary folders of this process.
_unfinished: set[Path] = set()

Target = str | os.PathLike[str]


@contextmanager
def whole_file(path: Target) -> Iterator[Path]:
    """Yield a draft to write to, and move it to ``path`` if nothing failed.

    The draft and its folder are synced, so that a power failure leaves the old file or the new one.
    A symbolic link stays, and the file it points to is replaced; the file keeps its permissions. A
    device or a pipe is written to directly. If anything fails, the old file stays unchanged, and
    system errors become one-sentence messages.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "a.txt") as draft:
    ...     _ = draft.write_text("whole")
    >>> [path.name for path in folder.iterdir()]
    ['a.txt']
    """
    try:
        if _is_special(path):
            yield Path(path)
            return
        target = Path(os.path.realpath(path))
        _sweep_drafts(target.parent, _draft_prefix(target))
        with _draft_of(target) as draft:
            yield draft
            _sync(draft)
            draft.replace(target)
            _sync_folder(target.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def check_writable(path: Target) -> None:
    """Reject a file that could not be written, before any work is done for it."""
    try:
        if _is_special(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        with _draft_of(Path(os.path.realpath(path))):
            pass
    except OSError as error:
        raise _unwritable(path, error) from error


def check_writable_folder(folder: Target) -> None:
    """Create a folder if it is missing, and reject one that cannot be written to."""
    make_folder(folder)
    check_writable(Path(folder) / "unswayed")


def make_folder(folder: Target) -> None:
    """Create a folder and its parents, or raise with the reason."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make the folder {os.fspath(folder)}: {_reason(error)}; name another one."
        ) from error


@contextmanager
def locked_folder(folder: Target, *, is_reader: bool = False) -> Iterator[None]:
    """Lock a folder so that no other run changes it; wait while another run has it locked.

    Several readers can share a lock. It is released when the process ends, even if it is killed.
    After ``LOCK_SECONDS`` of waiting an error is raised.
    """
    if not is_reader:
        make_folder(folder)
    handle = _opened_lock(Path(folder) / _LOCK, is_reader=is_reader)
    if handle is None:
        yield
        return
    try:
        _wait_for(handle, folder, fcntl.LOCK_SH if is_reader else fcntl.LOCK_EX)
        if not is_reader:
            _sweep_drafts(Path(folder))
        yield
    finally:
        os.close(handle)  # this releases the lock


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder for scratch files, and remove it; those of killed runs are removed too."""
    _sweep_temporary_folders()
    try:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
    except OSError as error:
        raise InputError(
            f"cannot make a temporary folder in {tempfile.gettempdir()}: {_reason(error)}; set "
            "TMPDIR to a folder that can be written."
        ) from error
    with _removed_later(folder, folder / _LOCK, os.O_CREAT, 0o600):
        yield folder


def discard_unfinished() -> None:
    """Remove this process's drafts and temporary folders, before it exits without cleaning up."""
    for path in tuple(_unfinished):
        if path.is_dir():
            _remove_folder(path)
        else:
            with suppress(OSError):
                path.unlink()


def _is_special(path: Target) -> bool:
    """Whether a path exists and is no regular file, such as a pipe; raise for a folder."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return not stat.S_ISREG(mode)


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """Yield a new, locked draft for a target, with the permissions that the target has."""
    draft = target.with_name(f"{_draft_prefix(target)}{secrets.token_hex(8)}{_DRAFT_ENDING}")
    with _removed_later(draft, draft, os.O_CREAT | os.O_EXCL, 0o666) as handle:
        with suppress(OSError):  # there is no such file yet, or it belongs to somebody else
            old = target.stat()
            os.fchmod(handle, stat.S_IMODE(old.st_mode))
            os.fchown(handle, old.st_uid, old.st_gid)
        yield draft


@contextmanager
def _removed_later(path: Path, lock: Path, flags: int, mode: int) -> Iterator[int]:
    """Create and lock ``lock``, yield its handle, and finally remove ``path``."""
    handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC | flags, mode)
    _unfinished.add(path)
    try:
        _try_lock(handle)
        yield handle
    finally:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        _unfinished.discard(path)
        os.close(handle)


def _draft_prefix(target: Path) -> str:
    name = os.fsencode(target.name)
    return f".{os.fsdecode(name[:_NAME_BYTES])}."


def _sweep_drafts(folder: Path, prefix: str = "") -> None:
    """Remove drafts whose writers have ended; a running writer holds a lock on its draft."""
    with suppress(OSError):
        for path in folder.iterdir():
            is_draft = path.name.startswith(prefix) and path.name.endswith(_DRAFT_ENDING)
            if is_draft and _is_unlocked(path):
                path.unlink(missing_ok=True)


def _sweep_temporary_folders() -> None:
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
            if folder.lstat().st_uid == os.getuid() and _is_unlocked(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def _remove_folder(folder: Path) -> None:
    """Remove a temporary folder into which others may still write.

    Its lock is removed last, so that the next run deletes the remaining files.
    """
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _LOCK:
            path.unlink(missing_ok=True)
    if [path.name for path in folder.iterdir()] == [_LOCK]:
        shutil.rmtree(folder, ignore_errors=True)


def _is_unlocked(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return _try_lock(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held by another process, or locks are not supported
        return False
    return True


def _opened_lock(path: Path, *, is_reader: bool) -> int | None:
    """Open the lock file; return None if a reader cannot open it."""
    access = os.O_RDONLY if is_reader else os.O_RDWR | os.O_CREAT
    try:
        return os.open(path, access | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if is_reader:
            return None
        raise _unwritable(path.parent, error) from error


def _wait_for(handle: int, folder: Target, kind: int) -> None:
    start, is_noted = time.monotonic(), False
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - start
            if waited > LOCK_SECONDS:
                raise InputError(
                    f"another run has used the folder {os.fspath(folder)} for {waited:.0f} "
                    "seconds; try again when it has ended."
                ) from None
            if waited > _NOTE_SECONDS and not is_noted:
                is_noted = True
                warnings.warn(
                    f"waiting for another run that uses {os.fspath(folder)}.", Note, stacklevel=4
                )
            time.sleep(_POLL_SECONDS)
        except OSError as error:
            raise InputError(
                f"the folder {os.fspath(folder)} cannot be locked ({_reason(error)}), so two runs "
                "could overwrite each other; use a folder on another file system."
            ) from error
        else:
            return


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    try:
        _sync(folder)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def _unwritable(path: Target, error: OSError) -> InputError:
    if error.errno == errno.ENOENT:
        folder = Path(path).parent
        return InputError(
            f"cannot write {os.fspath(path)}: there is no folder {folder}; make it, or name "
            "another place."
        )
    advice = "make room or name" if error.errno in _NO_ROOM else "name"
    return InputError(
        f"cannot write {os.fspath(path)}: {_reason(error)}. What was there before is unchanged; "
        f"{advice} another place."
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error).rstrip(".") or type(error).__name__
