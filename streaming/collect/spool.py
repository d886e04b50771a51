"""One incarnation of a source on disk: ``<source id>/<20-digit number>.jsonl``, one event per line.

The writer (the broker's hook) appends to the newest file and creates the next one only after closing it: a file with a
successor is complete. The reader deletes lines that are safely sent. It writes its progress to ``.shipped`` after the
log's acknowledgement: after a crash between the two, lines are sent again, which readers recognise by their ``seq``,
and none is skipped.
"""

import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from rebalance_model.entities import Natural
from rebalance_model.observe.events import instance_of
from streaming.base.limits import SPOOL_LINES
from streaming.collect.spool_folder import OtherFileError, SpoolFolder, Tell

CHUNK_BYTES = 2**21
"""2 MiB are read at once. A longer line is sent in pieces of this size: each exceeds the largest event that a reader
accepts (1 MB) and is rejected as such. So the line is reported, and its length does not matter for memory."""
QUIET_SECONDS = 10.0
"""A writer ticks every second. A writer with a successor is considered gone only after it has been silent for this
long: otherwise a second broker, started by mistake, would declare the first one dead."""


class SpoolPosition(msgspec.Struct, frozen=True, order=True):
    """The lines before this byte of this file, and all earlier files."""

    file: Natural
    offset: Natural


_START = SpoolPosition(0, 0)


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

    def __init__(self, path: Path, tell: Tell) -> None:
        """Lock the folder; ``tell`` logs what is wrong with it.

        Raises:
            UserError: another process ships it.
            OSError: it can't be read.
        """
        self.instance, self.start = incarnation(path)
        self._finished = False
        self._tell = tell
        self._folder = SpoolFolder(path, tell)
        try:
            self._at = self._safe = self._stored()
            self._delete_sent()  # a crash may have prevented this after the position was written
        except BaseException:
            self.close()
            raise

    @property
    def at(self) -> SpoolPosition:
        """The position up to which lines have been taken."""
        return self._at or _START

    def see_whether_finished(self, newest_start: int, quiet_seconds: float) -> None:
        """Mark the writer as gone if the instance restarted at ``newest_start`` and writes nothing here."""
        if not self._finished and self.start < newest_start:
            numbers = self._folder.numbers()
            was_finished = self._safe is not None and not numbers  # else the file being written would still be there
            written_at = self._folder.written_at(numbers[-1] if numbers else None)
            self._finished = was_finished or time.time() - written_at >= quiet_seconds

    def is_there(self) -> bool:
        """Return whether the folder still has its name; if not, nothing more comes."""
        return self._folder.is_there()

    def take(self) -> list[bytes]:
        """Return the next lines without line ends; empty if there is nothing new.

        There are at most `SPOOL_LINES`, of about `CHUNK_BYTES`: a spool of short lines does not delay the others.

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
            while size < CHUNK_BYTES and len(lines) < SPOOL_LINES:
                try:
                    at = self._begin(number)
                    taken, length, ends = self._read(at, SPOOL_LINES - len(lines), is_complete=is_complete)
                except OtherFileError:  # another file took the name; it is not among the next numbers
                    break
                except OSError:
                    if not lines:
                        raise
                    return lines
                lines += taken
                size += length
                self._at = SpoolPosition(number, at.offset + length)
                if ends:
                    break
            if size >= CHUNK_BYTES or len(lines) >= SPOOL_LINES or not is_complete:
                break
            self._at = SpoolPosition(number + 1, 0)
        return lines

    def rewind(self) -> None:
        """Take again the lines that are not acknowledged."""
        self._at = self._safe

    def acknowledge(self) -> None:
        """Mark all taken lines as safe: write the position, then delete the files before it."""
        if self._at is None or self._at == self._safe:
            return
        try:
            self._folder.keep_position(msgspec.json.encode(self._at))
        except OSError as error:  # for example a full disk: then deleting helps
            self._tell("its position can't be kept: after a restart lines are sent again", str(error.strerror))
        self._safe = self._at
        self._delete_sent()

    def end(self) -> SpoolPosition:
        """Return the current end of the files."""
        numbers = self._folder.numbers()
        return SpoolPosition(numbers[-1], self._folder.size(numbers[-1])) if numbers else self.at

    def lag(self) -> Lag:
        """Return how far the safe position is behind the end."""
        safe = self._safe or _START
        unsent = {number: self._folder.size(number) for number in self._from(safe)}
        if safe.file in unsent:
            unsent[safe.file] -= safe.offset
        behind = {number: size for number, size in unsent.items() if size > 0}
        if not behind:
            return Lag(0, 0, 0.0)
        age = time.time() - self._folder.written_at(min(behind))
        return Lag(sum(behind.values()), len(behind), round(max(age, 0.0), 1))

    def remove_if_done(self) -> bool:
        """Remove the folder of a writer that is gone, once all its lines are safe."""
        if not self._finished or self._at != self._safe or self._folder.numbers():
            return False
        try:
            self._folder.remove()
        except OSError as error:
            self._tell("all of it is sent, but its folder can't be removed", str(error.strerror))
            return False
        self.close()
        return True

    def close(self) -> None:
        """Release the folder for another process."""
        self._folder.close()

    def _read(self, at: SpoolPosition, lines_max: int, *, is_complete: bool) -> tuple[list[bytes], int, bool]:
        """Return the lines from a position on, their bytes in the file, and whether there are no more for now."""
        chunk = self._folder.read(at.file, at.offset, CHUNK_BYTES)
        *lines, rest = chunk.split(b"\n", lines_max)
        size = len(chunk) - len(rest)
        if len(lines) == lines_max:
            return lines, size, False
        ends = len(chunk) < CHUNK_BYTES
        if rest and (is_complete if ends else not lines):  # a torn last line, or a piece of one that is too long
            return [*lines, rest], len(chunk), ends
        return lines, size, ends

    def _following(self) -> list[int]:
        following = self._from(self._at)
        if not following:
            return following
        begin = self._at.file if self._at else following[0]
        if len(following) != following[-1] + 1 - begin:
            return self._from(self._at)  # a listing may miss a file that is created meanwhile, but not twice
        return following

    def _begin(self, number: int) -> SpoolPosition:
        """Return the position at which to continue in a file; log a file that has changed."""
        begin = SpoolPosition(number, 0)
        at = self._at or begin
        if number > at.file:
            self._tell(f"files {at.file} to {number - 1} of a spool are missing; shipping continues after them", "")
            at = begin
        elif at.offset > self._folder.size(number):
            self._tell(f"file {number} of a spool is shorter than the part that was sent; it is sent again", "")
            at = begin
        self._at = at
        return at

    def _from(self, at: SpoolPosition | None) -> list[int]:
        return [number for number in self._folder.numbers() if at is None or number >= at.file]

    def _stored(self) -> SpoolPosition | None:
        numbers, kept = self._folder.numbers(), self._folder.position()
        if kept is None:
            return None
        try:
            stored = msgspec.json.decode(kept, type=SpoolPosition)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._tell("the position of a spool makes no sense; all that is there is sent again", str(error))
            return None
        if numbers and stored.file > numbers[-1] + 1:
            self._tell("the position of a spool is behind its end; all that is there is sent again", str(stored.file))
            return None
        return stored

    def _delete_sent(self) -> None:
        try:
            for number in self._folder.numbers():
                if number < self.at.file:
                    self._folder.delete(number)
        except OSError as error:
            self._tell("what is sent can't be deleted", str(error.strerror))


def incarnation(path: Path) -> tuple[str, int]:
    """Return the source's instance and the start of this incarnation, which a folder's name has."""
    return instance_of(unquote(path.name))
