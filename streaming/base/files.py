"""Files that several processes share: a lock that one of them holds, and a file that is replaced as a whole."""

import fcntl
import os
import time
from pathlib import Path
from typing import Self

from streaming.base.durable import sync
from streaming.base.errors import UserError

_LOOK_SECONDS = 0.05


class Closable:
    """Anything that is closed at the end of its ``with``."""

    def close(self) -> None:
        """Close it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileLock(Closable):
    """An exclusive lock on a file or a folder, from its construction to `close` or the end of the process."""

    def __init__(
        self, path: Path, refusal: str | None = None, *, patience_seconds: float = 0.0, is_folder: bool = False
    ) -> None:
        """Lock a file, which is made if it is missing, or a folder, which is never made and must be no link.

        ``refusal`` is the sentence for a lock that another process holds, after ``patience_seconds``; None: wait until
        it is free.

        Raises:
            UserError: another process holds the lock.
            OSError: the file can't be opened.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW if is_folder else os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(path, flags, 0o666)
        try:
            self._acquire(refusal, patience_seconds)
        except BaseException:
            self.close()
            raise

    @property
    def descriptor(self) -> int:
        """The open file or folder."""
        return self._descriptor

    @property
    def closed(self) -> bool:
        """Return whether the lock has been released."""
        return self._descriptor < 0

    def close(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _acquire(self, refusal: str | None, patience_seconds: float) -> None:
        if refusal is None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            return
        deadline = time.monotonic() + patience_seconds
        while not _lock_now(self._descriptor):
            if time.monotonic() >= deadline:
                raise UserError(refusal)
            time.sleep(_LOOK_SECONDS)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the `FileLock` of a file; a missing file is not locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _lock_now(descriptor)
    finally:
        os.close(descriptor)


def replace_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file atomically: a reader finds the old content or the new one, even if the writer is killed.

    ``durable``: this also holds after a power failure, and the new content is there then (two fsyncs).
    """
    temporary = temporary_name(path)
    with temporary.open("wb") as out:
        out.write(content)
        if durable:
            out.flush()
            os.fsync(out.fileno())
    temporary.replace(path)
    if durable:
        sync(path.parent)


def close_to_others() -> None:
    """Let what this process and its children write be read by their user and its group alone, or by fewer."""
    os.umask(os.umask(0o077) | 0o027)


def write_private(path: Path, text: str) -> Path:
    """Write a file that only its owner can read, and its folder if that is missing; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
        out.write(text)
    return path


def temporary_name(path: Path) -> Path:
    """Return the name, in the same folder, under which a file is written until it is complete."""
    return path.with_name(f".{path.name.removeprefix('.')}.tmp")


def _lock_now(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
