"""The folder on this machine that has a table's Parquet files: its own, or that of their copies.

DuckDB reads files of this machine. For a table in an object store they are copied when a query first needs them. A file
of a Delta table never changes and its name is never used again, so a copy is never stale: the log, which is read from
the store, says which files a version has. Other ways were worse: DuckDB's own client of S3 is an extension that it
downloads, and a query by Arrow's client reads the same columns again each time.

Processes share the copies. A copy's time of modification is when it was last needed. Those that were not needed for
longest are removed when all of them exceed `storage.cache_gb`, and those that were not needed for a day.
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake._internal import DeltaFileSystemHandler  # the public class around it can't write with this pyarrow

from streaming.base.errors import UserError
from streaming.base.files import replace_atomically, temporary_name
from streaming.base.place import ObjectPlace, Place
from streaming.tables.delta import answered
from streaming.tables.unreadable import TableFile

_PARALLEL = 16
_CHUNK_BYTES = 8 << 20
_USED_SECONDS = 60.0
"""A copy that was needed within this time is not removed: a query may be about to open it."""
_UNUSED_SECONDS = 86_400.0
_LOOK_SECONDS = 600.0
"""The interval in which copies are looked through, unless many bytes are fetched."""
_MANY_BYTES = 256 << 20


class TableFolder:
    """The folder of a table whose files are on this machine."""

    is_copy = False
    """True if files are there only after `fetch`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fetch(self, files: Iterable[TableFile]) -> None:
        """Copy the files that are not here yet.

        Raises:
            FileNotFoundError: a file no longer exists.
            UserError: the object store does not answer, refuses it, or the copies would exceed their limit.
        """
        del files

    def publish(self, relative: Path) -> None:
        """Store a file that was written into this folder, so that a commit can add it."""
        del relative

    def names(self, relative: str) -> list[str]:
        """Return the names of the files in a folder, unordered; none if there is no such folder."""
        return [path.name for path in (self.path / relative).glob("*")]

    def write(self, relative: str, content: bytes) -> None:
        """Replace a small file, as a whole."""
        replace_atomically(self.path / relative, content)

    def read(self, relative: str) -> bytes:
        """Return the content of a small file of the table, such as one of its log; it is read each time.

        Raises:
            FileNotFoundError: there is none.
        """
        return (self.path / relative).read_bytes()

    def has(self, relative: str) -> bool:
        """Return whether there is such a file."""
        return (self.path / relative).exists()

    def remove(self, relative: str) -> None:
        """Remove a file of the table, if it is there."""
        (self.path / relative).unlink(missing_ok=True)


class CopiedFolder(TableFolder):
    """The folder for copies of a table's files."""

    is_copy = True

    def __init__(self, table: ObjectPlace) -> None:
        super().__init__(table.cache)
        self._table = table
        with answered(table):
            self._objects = DeltaFileSystemHandler(table.url, dict(table.options))

    def fetch(self, files: Iterable[TableFile]) -> None:
        """Copy the files that are not here yet, several at once; see `TableFolder.fetch`."""
        missing = [file for file in files if not _needed_now(self.path / unquote(file.path))]
        if not missing:
            return
        _COPIES.make_room(self._table, sum(file.size for file in missing))
        with ThreadPoolExecutor(min(_PARALLEL, len(missing))) as pool, answered(self._table):
            for _ in pool.map(self._copy, missing):
                pass

    def publish(self, relative: Path) -> None:
        """Store the file under its name in the object store."""
        with answered(self._table):
            target: Any = self._objects.open_output_stream(relative.as_posix())
            with (self.path / relative).open("rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    target.write(chunk)
            target.close()

    def names(self, relative: str) -> list[str]:
        """Return the names of the objects in a folder; see `TableFolder.names`."""
        with answered(self._table):
            found = self._objects.get_file_info_selector(relative, allow_not_found=True)
        return [one.base_name for one in found]

    def write(self, relative: str, content: bytes) -> None:
        """Replace an object; see `TableFolder.write`."""
        with answered(self._table):
            target: Any = self._objects.open_output_stream(relative)
            target.write(content)
            target.close()

    def read(self, relative: str) -> bytes:
        """Return the content of an object; see `TableFolder.read`."""
        with answered(self._table):
            source = self._objects.open_input_file(relative)
            return source.read(source.size())

    def has(self, relative: str) -> bool:
        """Return whether there is an object: one small request."""
        with answered(self._table):
            try:
                self._objects.open_input_file(relative)
            except FileNotFoundError:
                return False
        return True

    def remove(self, relative: str) -> None:
        """Remove an object; see `TableFolder.remove`."""
        with answered(self._table), suppress(FileNotFoundError):
            self._objects.delete_file(relative)

    def _copy(self, file: TableFile) -> None:
        path = self.path / unquote(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_name(path).with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        source = self._objects.open_input_file(unquote(file.path))
        try:
            with temporary.open("wb") as target:
                while chunk := source.read(_CHUNK_BYTES):
                    target.write(chunk)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


class _Copies:
    """The copies of all tables of a root."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._looking = threading.Lock()

    def make_room(self, table: ObjectPlace, count: int) -> None:
        """Remove copies that are no longer needed, before more bytes are fetched.

        Raises:
            UserError: there is no room for them.
        """
        with self._looking:
            if count < _MANY_BYTES and time.monotonic() < self._look_at:
                return
            self._look_at = time.monotonic() + _LOOK_SECONDS
            found, now = sorted(_files_in(table.root / "cache")), time.time()
            left = table.cache_bytes - count - sum(size for _, size, _ in found)
            for used, size, path in found:
                if now - used > _UNUSED_SECONDS or (left < 0 and now - used > _USED_SECONDS):
                    path.unlink(missing_ok=True)
                    left += size
            if left < 0:
                raise UserError(
                    f"Reading {table.url} needs {-left / 1e9:.1f} GB more for copies of its files than "
                    "storage.cache_gb allows: raise it, or drop old rows with `rebalance-watch maintain --older-than`."
                )


_COPIES = _Copies()


def folder_at(table: Place) -> TableFolder:
    """Return the folder of a table's files on this machine.

    Raises:
        UserError: the settings of the object store can't be used.
    """
    return TableFolder(table.resolve()) if isinstance(table, Path) else CopiedFolder(table)


def _needed_now(path: Path) -> bool:
    """Record that a copy is needed; return whether there is one."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _files_in(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield the last use, the bytes and the path of each copy."""
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file():
            yield status.st_mtime, status.st_size, path
