"""A recording: events in the order in which they were emitted, one a line, each broadcast once.

It is the form of a capture (`rebalance-watch collect poll --to FILE`). Replayed into a log, each row gets the
partition and key that it would have got from the collector.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Self, cast

from rebalance_model.observe.events import Event
from streaming.errors import UserError
from streaming.log.rows import Row, encode, rows_of_line


class Recorder:
    """Writes a recording; it shows under its own name when it is complete."""

    def __init__(self, path: Path) -> None:
        """Start a new recording; a name that ends in ``.gz`` is compressed."""
        self._path = path
        self._lines = 0
        self._temporary = path.with_name(f".{path.name}.tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._out: BinaryIO = _open(self._temporary, "wb", compressed=path.suffix == ".gz")

    def publish(self, events: Iterable[Event]) -> None:
        """Append events."""
        self.append(map(encode, events))

    def append(self, lines: Iterable[bytes]) -> None:
        """Append lines that another wrote, each without its end."""
        for line in lines:
            self._out.write(line + b"\n")
            self._lines += 1

    @property
    def closed(self) -> bool:
        """Whether everything that was appended can be seen under the recording's own name."""
        return self._out.closed

    def close(self) -> None:
        """Make the recording visible; one without an event leaves nothing behind, nor replaces another."""
        if self._out.closed:
            return
        self._out.close()
        if self._lines:
            self._temporary.rename(self._path)
        else:
            self._temporary.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def recorded_rows(path: Path, partitions: int) -> Iterator[list[Row]]:
    """The rows of each line of a recording.

    Lines end at a line feed alone; what is no event is among them (see `rows_of_line`).

    Raises:
        UserError: the file is not there, or is compressed and torn.
    """
    for line in _lines(path):
        yield rows_of_line(line, partitions)


def _lines(path: Path) -> Iterator[bytes]:
    number = 0
    try:
        with _open(path, "rb", compressed=path.suffix == ".gz") as file:
            for number, line in enumerate(file, start=1):  # noqa: B007  the error below names how far it came
                yield line.removesuffix(b"\n")
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise UserError(f"The recording {path} is damaged after line {number}: {error}.") from None
        raise UserError(f"The recording {path} can't be read: {error.strerror}.") from None
    except (EOFError, zlib.error):
        raise UserError(f"The recording {path} is torn after line {number}: it was not written to its end.") from None


def _open(path: Path, mode: str, *, compressed: bool) -> BinaryIO:
    if not compressed:
        return cast("BinaryIO", path.open(mode))
    return cast("BinaryIO", gzip.GzipFile(path, mode, mtime=0))  # no time in it: equal recordings are equal files
