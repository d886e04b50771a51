"""The log as files: ``partition=N/<20-digit number>.jsonl[.gz]``, like one Kafka topic on disk.

Spark's file source reads files in the order of their mtime, not of their names. So the writer sets every file's
mtime, strictly increasing over all partitions, and makes a file visible by a rename when it is complete: whenever Spark
lists them, the files of a partition are in the order of their numbers. A temporary name begins with a dot: Spark,
`parse_path` and `files_of` ignore such files.
"""

import gzip
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from streaming.base.durable import sync
from streaming.base.errors import UserError
from streaming.base.files import Closable, FileLock, temporary_name
from streaming.base.times import now_ms
from streaming.log.identity import mark_files
from streaming.log.rows import KeyedRow

FILE_BYTES_MAX = 2**24
"""16 MiB of rows, before compression, because a reader loads a whole file. A line has at least one byte (its end), so a
file has less than 2**24 lines, and an offset has room for the number of the file and the line."""
ROLL_SECONDS = 10.0
"""A file is completed after this time, however small, which bounds the delay of a row for readers; seconds."""

_NAME = re.compile(r"partition=(\d+)/(\d{20})\.jsonl(?:\.gz)?$")


def parse_path(path: str) -> tuple[int, int]:
    """Return the partition and number of a log file, from its path or URI.

    Raises:
        ValueError: the path is not a log file's.
    """
    match = _NAME.search(path)
    if match is None:
        raise ValueError(f"{path} is not a file of a log: expected partition=N/<20-digit number>.jsonl or .jsonl.gz")
    return int(match[1]), int(match[2])


def offset_of(number: int, line: int) -> int:
    """Return the offset of a row from its file's number and its line (both from 0); it increases within a partition."""
    return number * FILE_BYTES_MAX + line


def position_of(offset: int) -> tuple[int, int]:
    """Return the file number and line of an offset: the inverse of `offset_of`."""
    return divmod(offset, FILE_BYTES_MAX)


def files_of(root: Path, partition: int) -> list[Path]:
    """Return the complete files of a partition, in the order of their numbers."""
    return sorted(file for file in root.glob(f"partition={partition}/*.jsonl*") if _NAME.search(file.as_posix()))


class FilePublisher(Closable):
    """The only writer of a file log. Numbering continues after a restart."""

    def __init__(
        self,
        root: Path,
        partitions: int,
        *,
        compress: bool = True,
        roll_seconds: float = ROLL_SECONDS,
        file_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        """Lock the log at ``root``, creating it if it is missing.

        Raises:
            UserError: another writer has the log, or it has another number of partitions.
        """
        self.partitions = partitions
        self.flush_seconds = roll_seconds
        self.flushes = 0
        self._root = root
        self._suffix = ".jsonl.gz" if compress else ".jsonl"
        self._file_bytes_max = file_bytes_max
        root.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(
            root / "_writer.lock",
            f"Another process writes the log {root}: stop it, or set source.path to another one.",
        )
        try:
            self._shape(partitions)
            mark_files(root)
            self._finish_what_a_crash_left()
            logs = [files_of(root, partition) for partition in range(partitions)]
            self._next = [parse_path(files[-1].as_posix())[1] + 1 if files else 0 for files in logs]
            self._mtime_ms = max((files[-1].stat().st_mtime_ns // 1_000_000 for files in logs if files), default=0)
        except BaseException:
            self._lock.close()
            raise
        self._open: dict[int, _OpenFile] = {}
        self._opened_at = 0.0

    def write(self, rows: Iterable[KeyedRow]) -> None:
        """Append rows; make files visible that are full or old enough."""
        try:
            for row in rows:
                self._append(row)
        except OSError as error:
            raise self._unwritable(error) from error
        if self._open and time.monotonic() - self._opened_at >= self.flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Make every row written so far visible."""
        try:
            for partition in sorted(self._open):
                self._finish(partition)
        except OSError as error:
            raise self._unwritable(error) from error
        self.flushes += 1

    def close(self) -> None:
        """Flush, and release the log for another writer."""
        if not self._lock.closed:
            try:
                self.flush()
            finally:
                self._lock.close()

    def _append(self, row: KeyedRow) -> None:
        size = len(row.value) + 1
        if size > self._file_bytes_max:
            raise UserError(f"A row of {size} bytes exceeds the size of a log file ({self._file_bytes_max}): omit it.")
        file = self._open.get(row.partition)
        if file is not None and file.size + size > self._file_bytes_max:
            self._finish(row.partition)
            file = None
        if file is None:
            if not self._open:
                self._opened_at = time.monotonic()
            number = self._next[row.partition]
            self._next[row.partition] += 1
            file = _OpenFile(self._root / f"partition={row.partition}" / f"{number:020d}{self._suffix}")
            self._open[row.partition] = file
        file.append(row.value)

    def _finish(self, partition: int) -> None:
        self._mtime_ms = max(self._mtime_ms + 1, now_ms())
        self._open.pop(partition).finish(self._mtime_ms)

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(f"The log {self._root} can't be written ({error.strerror}): correct that and start again.")

    def _shape(self, partitions: int) -> None:
        """Create the partitions' folders, which record the number of partitions."""
        folders = len(list(self._root.glob("partition=*")))
        if folders not in (0, partitions):
            raise UserError(
                f"The log {self._root} has {folders} partitions, not {partitions}: set source.partitions to {folders}, "
                "or source.path to a new folder."
            )
        for partition in range(partitions):
            (self._root / f"partition={partition}").mkdir(exist_ok=True)

    def _finish_what_a_crash_left(self) -> None:
        """Publish the rows of a writer that was killed; readers reject a torn last row."""
        leftovers = sorted(self._root.glob("partition=*/.*.tmp"))
        visible = [file for partition in range(self.partitions) for file in files_of(self._root, partition)]
        mtime_ms = max((file.stat().st_mtime_ns // 1_000_000 for file in visible), default=0)
        for leftover in leftovers:
            if leftover.stat().st_size == 0:
                leftover.unlink()
                continue
            mtime_ms = max(mtime_ms + 1, leftover.stat().st_mtime_ns // 1_000_000)
            os.utime(leftover, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))
            leftover.rename(leftover.with_name(leftover.name.removeprefix(".").removesuffix(".tmp")))


class _OpenFile:
    """A file that is being written, under a name that readers ignore."""

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._path = path
        self._temporary = temporary_name(path)
        self._raw: BinaryIO = self._temporary.open("xb")
        self._out: BinaryIO | gzip.GzipFile = self._raw
        if path.suffix == ".gz":
            self._out = gzip.GzipFile(filename="", mode="wb", fileobj=self._raw, compresslevel=6, mtime=0)

    def append(self, value: bytes) -> None:
        self._out.write(value)
        self._out.write(b"\n")
        self.size += len(value) + 1

    def finish(self, mtime_ms: int) -> None:
        self._out.close()
        if not self._raw.closed:
            self._raw.flush()
            os.fsync(self._raw.fileno())
            self._raw.close()
        os.utime(self._temporary, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))
        self._temporary.rename(self._path)
        sync(self._path.parent)
