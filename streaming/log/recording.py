"""A recording: events in the order in which they were emitted, one a line, each broadcast once.

It is the form of a capture (`rebalance-watch collect poll --to FILE`). Replayed into a log, each row gets the
partition and key that it would have got from the collector.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Self, cast

from rebalance_model.entities import INT64_MAX
from rebalance_model.observe.decoding import RejectedError, decode
from rebalance_model.observe.events import Event
from streaming.errors import UserError
from streaming.log.rows import Row, encode, rows_of


class Recorder:
    """Writes a recording; it shows under its own name when it is complete."""

    def __init__(self, path: Path) -> None:
        """Start a new recording; a name that ends in ``.gz`` is compressed."""
        self._path = path
        self._events = 0
        self._temporary = path.with_name(f".{path.name}.tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._out: BinaryIO = _open(self._temporary, "wb", compressed=path.suffix == ".gz")

    def publish(self, events: Iterable[Event]) -> None:
        """Append events."""
        for event in events:
            self._out.write(encode(event) + b"\n")
            self._events += 1

    def close(self) -> None:
        """Make the recording visible; one without an event leaves nothing behind, nor replaces another."""
        if self._out.closed:
            return
        self._out.close()
        if self._events:
            self._temporary.rename(self._path)
        else:
            self._temporary.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def recorded_rows(path: Path, partitions: int) -> Iterator[list[Row]]:
    """The rows of each line of a recording.

    Lines end at a line feed alone. A line that is no event goes, as it is and without a key, to partition 0: the job is
    to see it and to reject it.

    Raises:
        UserError: the file is not there, or is compressed and torn.
    """
    for line in _lines(path):
        try:
            event = decode(line, key=None, stamp=INT64_MAX, keyed=False)
        except RejectedError:
            yield [Row(0, None, line)]
        else:
            yield rows_of(event, line, partitions)


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
