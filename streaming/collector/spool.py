"""One incarnation of a source on disk: ``<source id>/<20-digit number>.jsonl``, one event a line.

The writer (the broker's hook) appends to the newest file and makes the next one only after it has closed that: a file
with a successor is complete. The reader deletes what is safely sent. It remembers how far that is in ``.shipped``,
written after the log's acknowledgement: a crash between the two sends lines again, which their ``seq`` shows, and
never leaves one out.
"""

import fcntl
import os
import re
import time
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import unquote

import msgspec
import structlog

from rebalance_model.entities import Natural
from rebalance_model.observe.events import instance_of
from streaming.errors import UserError

CHUNK_BYTES = 2**21
"""2 MiB are read at once. A longer line goes in pieces of this size: each is over the largest event that a reader
takes (1 MB) and is rejected as such, so that it is seen, and it needs no more memory."""
QUIET_SECONDS = 10.0
"""A writer ticks every second. One that has been silent for so long and has a successor is gone; without the silence
a second broker, started by mistake, would declare the first one dead."""

_NAME = re.compile(r"(\d{20})\.jsonl", re.ASCII)
_POSITION = ".shipped"

log = structlog.get_logger()


class Position(msgspec.Struct, frozen=True, order=True):
    """Everything before this byte of this file, and all files before it."""

    file: Natural = 0
    offset: Natural = 0


class Lag(NamedTuple):
    """What is not yet safely sent."""

    bytes: int
    files: int
    age_seconds: float
    """Since the last write to the oldest of these files; 0 where nothing is behind."""


class Spool:
    """Reads the lines of one incarnation in order, each at least once.

    `take` goes ahead, `acknowledge` says that all taken is safe, `rewind` that it has to be taken again.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder.

        Raises:
            UserError: another process ships it.
            OSError: it can't be read.
        """
        self.folder = folder
        self.instance, self.start = instance_of(unquote(folder.name))
        self._finished = False
        self._cannot_keep: str | None = None
        self._lock = _lock(folder)
        try:
            self._safe = self._stored()
        except BaseException:
            os.close(self._lock)
            raise
        self._at = self._safe

    @property
    def at(self) -> Position:
        """How far lines have been taken."""
        return self._at or Position()

    def see_whether_finished(self, newest_start: int, quiet_seconds: float) -> None:
        """Its writer is gone if the instance has started anew at ``newest_start`` and nothing is written here."""
        if not self._finished and self.start < newest_start:
            numbers = self._numbers()
            newest = self._path(numbers[-1]) if numbers else self.folder
            self._finished = time.time() - newest.stat().st_mtime >= quiet_seconds

    def take(self) -> list[bytes]:
        """The next lines without their ends, about `CHUNK_BYTES` of them at most; none if there is nothing new.

        The end of a complete file is taken as it is, torn or not: the log's reader rejects it where all can see it.
        """
        while (found := self._next()) is not None:
            at, is_complete = found
            chunk = self._read(at)
            ends = len(chunk) < CHUNK_BYTES
            taken = chunk.rfind(b"\n") + 1
            if (ends and is_complete) or not (ends or taken):
                taken = len(chunk)
            if taken:
                self._at = Position(at.file, at.offset + taken)
                return chunk[:taken].removesuffix(b"\n").split(b"\n")
            if not is_complete:
                break
            self._at = Position(at.file + 1)
        return []

    def rewind(self) -> None:
        """Take again what is not acknowledged."""
        self._at = self._safe

    def acknowledge(self) -> None:
        """All that was taken is safe: remember that, then delete the files that are behind it."""
        if self._at is None or self._at == self._safe:
            return
        try:
            self._store(self._at)
        except OSError as error:  # a full disk, for instance: then deleting is what helps
            self._warn_once("its position can't be kept: after a restart lines are sent again", error)
        self._safe = self._at
        self._delete_sent()

    def end(self) -> Position:
        """Where the files end now."""
        numbers = self._numbers()
        return Position(numbers[-1], self._size(numbers[-1])) if numbers else self.at

    def lag(self) -> Lag:
        """How far what is safe lies behind what is written."""
        safe = self._safe or Position()
        unsent = {number: self._size(number) for number in self._from(safe)}
        if safe.file in unsent:
            unsent[safe.file] -= safe.offset
        behind = {number: size for number, size in unsent.items() if size > 0}
        if not behind:
            return Lag(0, 0, 0.0)
        age = time.time() - self._path(min(behind)).stat().st_mtime
        return Lag(sum(behind.values()), len(behind), round(max(age, 0.0), 1))

    def remove_if_done(self) -> bool:
        """Remove the folder of a writer that is gone, when all of it is safe."""
        if not self._finished or self._at != self._safe or self._numbers():
            return False
        try:
            for left in (_POSITION, f"{_POSITION}.tmp"):
                (self.folder / left).unlink(missing_ok=True)
            self.folder.rmdir()
        except OSError as error:
            self._warn_once("all of it is sent, but its folder can't be removed", error)
            return False
        self.close()
        return True

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _numbers(self) -> list[int]:
        names = os.listdir(self.folder)  # noqa: PTH208  five times a second: without a Path for each name
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:020d}.jsonl"

    def _size(self, number: int) -> int:
        return self._path(number).stat().st_size

    def _read(self, at: Position) -> bytes:
        with self._path(at.file).open("rb", buffering=0) as file:
            file.seek(at.offset)
            return file.read(CHUNK_BYTES)

    def _next(self) -> tuple[Position, bool] | None:
        """Where to read on and whether that file is complete; a file that is not as expected is told of.

        The folder is listed before a file is read: what has a successor then can be read to its very end.
        """
        at = self._at
        following = self._from(at)
        if at is not None and following and following[0] > at.file:
            following = self._from(at)  # a listing may miss a file that came during it, but not twice
        if not following:
            return None
        first = following[0]
        if at is None:
            at = Position(first)
        elif first > at.file:
            log.warning(
                "files of a spool are missing", spool=str(self.folder), first=at.file, last=first - 1, goes_on_at=first
            )
            at = Position(first)
        elif at.offset > self._size(first):
            log.warning(
                "a file of a spool is shorter than what was sent of it: it is sent anew", path=str(self._path(first))
            )
            at = Position(first)
        self._at = at
        return at, self._finished or len(following) > 1

    def _from(self, at: Position | None) -> list[int]:
        return [number for number in self._numbers() if at is None or number >= at.file]

    def _stored(self) -> Position | None:
        try:
            return msgspec.json.decode((self.folder / _POSITION).read_bytes(), type=Position)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            log.warning(
                "a spool's position can't be read: all that is there is sent again, which does no harm",
                path=str(self.folder / _POSITION),
                error=str(error),
            )
            return None

    def _store(self, position: Position) -> None:
        # Without fsync: what a power failure makes of it is an older position or none, and lines are sent again.
        temporary = self.folder / f"{_POSITION}.tmp"
        temporary.write_bytes(msgspec.json.encode(position))
        temporary.replace(self.folder / _POSITION)

    def _delete_sent(self) -> None:
        try:
            for number in self._numbers():
                if number < self.at.file:
                    self._path(number).unlink(missing_ok=True)
        except OSError as error:
            self._warn_once("what is sent can't be deleted", error)

    def _warn_once(self, what: str, error: OSError) -> None:
        if self._cannot_keep != what:
            self._cannot_keep = what
            log.warning(what, spool=str(self.folder), error=error.strerror)


def _lock(folder: Path) -> int:
    """The folder itself is locked: nothing is left in it that a removal would have to know."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UserError(f"Another process ships the spool {folder}: stop it, or give another folder.") from None
    return lock
