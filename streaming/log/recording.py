"""A recording: events in the order in which they were emitted, one per line, each broadcast once.

`rebalance-watch collect poll --to FILE` writes this format. When a recording is replayed into a log, each row gets the
partition and key that the collector would have given it.

A reader of the log waits for each source until it has sent a tick marked ``end``. A source that stops cleanly sends
one; since a recording is finite, it ends with such a tick for every source that is still running, too (`ended`).
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import msgspec

from rebalance_model.entities import TIME_MAX, Name, Natural, Time
from rebalance_model.observe.events import Event, Source, Tick, instance_of
from streaming.base.errors import UserError
from streaming.base.files import Closable, temporary_name
from streaming.log.rows import KeyedRow, encode, rows_of_line

T = TypeVar("T", Event, bytes)

END_MS = 1_000
"""Time from a source's last event to its generated last tick; milliseconds."""


class _Header(msgspec.Struct, gc=False):
    """The fields that all lines have in common, and those that identify a last tick."""

    type: str
    time: Time
    cluster: Name
    source: Source
    source_id: Name
    seq: Natural
    broker: str = ""
    broker_id: Natural = 0
    group: str = ""
    end: bool = False


_HEADERS = msgspec.json.Decoder(_Header)


class SourceEnds:
    """Follows the sources of a finite log, and creates the last ticks that are missing."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], _Header] = {}
        """The last header of each (cluster, source_id)."""
        self._ticks: dict[tuple[str, str], _Header] = {}
        """The last tick of each: it names a broker where its source is one."""
        self._seq: dict[str, int] = {}
        """The highest number of each source_id's broadcasts."""

    def see(self, line: bytes) -> None:
        """Record the next line; a line that is not an event is ignored."""
        try:
            header = _HEADERS.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        key = header.cluster, header.source_id
        self._last[key] = header
        if header.type == "TICK":
            self._ticks[key] = header
        if not header.group:
            self._seq[header.source_id] = max(self._seq.get(header.source_id, 0), header.seq)

    def missing(self) -> list[Tick]:
        """Return a last tick for each source that lacks it, `END_MS` after its last event, ordered by time.

        If a source has several incarnations, only the newest one gets a tick: it ends those before it.
        """
        newest = {(cluster, instance_of(name)[0]): (cluster, name) for cluster, name in sorted(self._last, key=_start)}
        running = [self._last[key] for key in newest.values() if not self._last[key].end]
        return [self._tick(last) for last in sorted(running, key=lambda last: (last.time, last.source_id))]

    def _tick(self, last: _Header) -> Tick:
        model = self._ticks.get((last.cluster, last.source_id), last)
        is_of_broker = model.type == "TICK" or model.source == "hook"
        self._seq[last.source_id] = seq = self._seq.get(last.source_id, 0) + 1
        return Tick(
            time=min(last.time + END_MS, TIME_MAX),
            cluster=last.cluster,
            broker=model.broker if is_of_broker else "",
            broker_id=model.broker_id if is_of_broker else 0,
            source=last.source,
            source_id=last.source_id,
            seq=seq,
            end=True,
        )


def _start(key: tuple[str, str]) -> int:
    return instance_of(key[1])[1]


def ended(log: Iterable[T]) -> Iterator[T]:
    """Yield a finite log (events, or lines), then a last tick for each source that lacks one."""
    ends, are_lines = SourceEnds(), False
    for item in log:
        are_lines = isinstance(item, bytes)
        ends.see(item if isinstance(item, bytes) else encode(item))
        yield item
    for tick in ends.missing():
        yield cast("T", encode(tick) if are_lines else tick)


class Recorder(Closable):
    """Writes a recording; it appears under its own name when it is complete."""

    def __init__(self, path: Path) -> None:
        """Start a new recording; a name that ends in ``.gz`` is compressed."""
        self._path = path
        self._lines = 0
        self._ends = SourceEnds()
        self._temporary = temporary_name(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._out: BinaryIO = _open(self._temporary, "wb", compressed=path.suffix == ".gz")

    def publish(self, events: Iterable[Event]) -> None:
        """Append events."""
        self.append(map(encode, events))

    def append(self, lines: Iterable[bytes]) -> None:
        """Append lines, each without its end."""
        for line in lines:
            self._out.write(line + b"\n")
            self._lines += 1
            self._ends.see(line)

    @property
    def closed(self) -> bool:
        """Return whether all appended lines are visible under the recording's own name."""
        return self._out.closed

    def close(self) -> None:
        """End its sources and make the recording visible; if it has no event, write and replace no file."""
        if self._out.closed:
            return
        self.publish(self._ends.missing())
        self._out.close()
        if self._lines:
            self._temporary.rename(self._path)
        else:
            self._temporary.unlink()


def replayed_rows(path: Path, partitions: int) -> Iterator[list[KeyedRow]]:
    """Yield the rows of each line of a recording, and of the missing last ticks (`ended`).

    Only a line feed ends a line; a line that is not an event is included (see `rows_of_line`).

    Raises:
        UserError: the file does not exist, or is compressed and torn.
    """
    for line in ended(_lines(path)):
        yield rows_of_line(line, partitions)


def _lines(path: Path) -> Iterator[bytes]:
    number = 0
    try:
        with _open(path, "rb", compressed=path.suffix == ".gz") as file:
            for number, line in enumerate(file, start=1):  # noqa: B007  the error below names the last line read
                yield line.removesuffix(b"\n")
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise UserError(f"The recording {path} is damaged after line {number}: {error}.") from None
        raise UserError(f"The recording {path} can't be read: {error.strerror}.") from None
    except (EOFError, zlib.error):
        raise UserError(
            f"The recording {path} is incomplete after line {number}: it was not written to its end."
        ) from None


def _open(path: Path, mode: str, *, compressed: bool) -> BinaryIO:
    if not compressed:
        return cast("BinaryIO", path.open(mode))
    return cast("BinaryIO", gzip.GzipFile(path, mode, mtime=0))  # no time in it: equal recordings are equal files
