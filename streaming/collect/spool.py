"""One incarnation of a source on disk: ``<source id>/<20-digit number>.jsonl``, one event per line.

The writer (the broker's hook) appends to the newest file and creates the next one only after closing it: a file with a
successor is complete. The reader deletes lines that are safely sent. It writes its progress to ``.shipped`` after the
log's acknowledgement: after a crash between the two, lines are sent again, which readers recognise by their ``seq``,
and none is skipped.
"""

import os
import re
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import msgspec
import structlog

from rebalance_model.entities import Natural
from rebalance_model.observe.events import instance_of
from streaming.base.files import FileLock, replace_atomically, temporary_name

CHUNK_BYTES = 2**21
"""2 MiB are read at once. A longer line is sent in pieces of this size: each exceeds the largest event that a reader
accepts (1 MB) and is rejected as such. So the line is reported, and its length does not matter for memory."""
QUIET_SECONDS = 10.0
"""A writer ticks every second. A writer with a successor is considered gone only after it has been silent for this
long: otherwise a second broker, started by mistake, would declare the first one dead."""

_NAME = re.compile(r"(\d{20})\.jsonl", re.ASCII)
_POSITION = ".shipped"

log = structlog.get_logger()


class Position(msgspec.Struct, frozen=True, order=True):
    """The lines before this byte of this file, and all earlier files."""

    file: Natural
    offset: Natural


_START = Position(0, 0)


class Lag(NamedTuple):
    """The lines that are not safely sent yet."""

    bytes: int
    files: int
    age_seconds: float
    """The time since the last write to the oldest of these files; 0 if there are none."""


class Spool:
    """Reads the lines of one incarnation in order, each at least once.

    `take` reads ahead, `acknowledge` marks all taken lines as safe, `rewind` takes them again.
    """

    def __init__(self, folder: Path) -> None:
        """Lock the folder.

        Raises:
            UserError: another process ships it.
            OSError: it can't be read.
        """
        self.folder = folder
        self.instance, self.start = instance_of(unquote(folder.name))
        self._finished = False
        self._told: set[str] = set()
        self._lock = FileLock(  # the folder itself: a lock file would have to be removed with it
            folder, f"Another process ships the spool {folder}: stop it, or give another folder.", is_folder=True
        )
        try:
            self._at = self._safe = self._stored()
            self._delete_sent()  # a crash may have prevented this after the position was written
        except BaseException:
            self.close()
            raise

    @property
    def at(self) -> Position:
        """The position up to which lines have been taken."""
        return self._at or _START

    def see_whether_finished(self, newest_start: int, quiet_seconds: float) -> None:
        """Mark the writer as gone if the instance restarted at ``newest_start`` and writes nothing here."""
        if not self._finished and self.start < newest_start:
            numbers = self._numbers()
            newest = self._path(numbers[-1]) if numbers else self.folder
            was_finished = self._safe is not None and not numbers  # else the file being written would still be there
            self._finished = was_finished or time.time() - newest.stat().st_mtime >= quiet_seconds

    def take(self) -> list[bytes]:
        """Return the next lines without line ends, about `CHUNK_BYTES` of them; empty if there is nothing new.

        The last line of a complete file is taken even if it is torn: the log's reader then rejects and records it.

        Raises:
            OSError: a file can't be read; lines before it have been taken by earlier calls.
        """
        lines: list[bytes] = []
        size = 0
        # Listed before a file is read: a file with a successor in this list can be read to its end.
        following = self._following()
        for number in following:
            is_complete = self._finished or number < following[-1]
            while size < CHUNK_BYTES:
                try:
                    at = self._begin(number)
                    taken, ends = self._read(at, is_complete=is_complete)
                except OSError:
                    if not lines:
                        raise
                    return lines
                if taken:
                    lines += taken.removesuffix(b"\n").split(b"\n")
                    size += len(taken)
                    self._at = Position(number, at.offset + len(taken))
                if ends:
                    break
            if size >= CHUNK_BYTES or not is_complete:
                break
            self._at = Position(number + 1, 0)
        return lines

    def rewind(self) -> None:
        """Take again the lines that are not acknowledged."""
        self._at = self._safe

    def acknowledge(self) -> None:
        """Mark all taken lines as safe: write the position, then delete the files before it."""
        if self._at is None or self._at == self._safe:
            return
        try:
            self._store(self._at)
        except OSError as error:  # for example a full disk: then deleting helps
            self._tell("its position can't be kept: after a restart lines are sent again", error=error.strerror)
        self._safe = self._at
        self._delete_sent()

    def end(self) -> Position:
        """Return the current end of the files."""
        numbers = self._numbers()
        return Position(numbers[-1], self._size(numbers[-1])) if numbers else self.at

    def lag(self) -> Lag:
        """Return how far the safe position is behind the end."""
        safe = self._safe or _START
        unsent = {number: self._size(number) for number in self._from(safe)}
        if safe.file in unsent:
            unsent[safe.file] -= safe.offset
        behind = {number: size for number, size in unsent.items() if size > 0}
        if not behind:
            return Lag(0, 0, 0.0)
        age = time.time() - self._path(min(behind)).stat().st_mtime
        return Lag(sum(behind.values()), len(behind), round(max(age, 0.0), 1))

    def remove_if_done(self) -> bool:
        """Remove the folder of a writer that is gone, once all its lines are safe."""
        if not self._finished or self._at != self._safe or self._numbers():
            return False
        try:
            position = self.folder / _POSITION
            for left in (position, temporary_name(position)):
                left.unlink(missing_ok=True)
            self.folder.rmdir()
        except OSError as error:
            self._tell("all of it is sent, but its folder can't be removed", error=error.strerror)
            return False
        self.close()
        return True

    def close(self) -> None:
        """Release the folder for another process."""
        self._lock.close()

    def _numbers(self) -> list[int]:
        names = os.listdir(self.folder)  # noqa: PTH208  five times a second: without a Path for each name
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:020d}.jsonl"

    def _size(self, number: int) -> int:
        return self._path(number).stat().st_size

    def _read(self, at: Position, *, is_complete: bool) -> tuple[bytes, bool]:
        """Return the complete lines from a position on, and whether an incomplete line follows them."""
        with self._path(at.file).open("rb", buffering=0) as file:
            file.seek(at.offset)
            chunk = file.read(CHUNK_BYTES)
        if len(chunk) < CHUNK_BYTES:
            return (chunk if is_complete else chunk[: chunk.rfind(b"\n") + 1]), True
        return chunk[: chunk.rfind(b"\n") + 1] or chunk, False

    def _following(self) -> list[int]:
        """Return the numbers of the files from the position on."""
        following = self._from(self._at)
        if not following:
            return following
        begin = self._at.file if self._at else following[0]
        if len(following) != following[-1] + 1 - begin:
            return self._from(self._at)  # a listing may miss a file that is created meanwhile, but not twice
        return following

    def _begin(self, number: int) -> Position:
        """Return the position at which to continue in a file; log a file that has changed."""
        begin = Position(number, 0)
        at = self._at or begin
        if number > at.file:
            self._tell(f"files {at.file} to {number - 1} of a spool are missing; shipping continues after them")
            at = begin
        elif at.offset > self._size(number):
            self._tell(f"file {number} of a spool is shorter than the part that was sent; it is sent again")
            at = begin
        self._at = at
        return at

    def _from(self, at: Position | None) -> list[int]:
        return [number for number in self._numbers() if at is None or number >= at.file]

    def _stored(self) -> Position | None:
        numbers = self._numbers()
        try:
            stored = msgspec.json.decode((self.folder / _POSITION).read_bytes(), type=Position)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._tell("the position of a spool makes no sense; all that is there is sent again", error=str(error))
            return None
        if numbers and stored.file > numbers[-1] + 1:
            self._tell("the position of a spool is behind its end; all that is there is sent again", file=stored.file)
            return None
        return stored

    def _store(self, position: Position) -> None:
        # Not durable: after a power failure the position may be older or missing, and lines are sent again.
        replace_atomically(self.folder / _POSITION, msgspec.json.encode(position), durable=False)

    def _delete_sent(self) -> None:
        try:
            for number in self._numbers():
                if number < self.at.file:
                    self._path(number).unlink(missing_ok=True)
        except OSError as error:
            self._tell("what is sent can't be deleted", error=error.strerror)

    def _tell(self, what: str, **more: object) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning(what, spool=str(self.folder), **more)
