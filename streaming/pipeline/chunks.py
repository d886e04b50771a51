"""The state of a shard as Spark keeps it: a list of chunks, to which each batch appends one.

A chunk has the shard's own part, and the groups that its batch has changed; the last of each counts. So a batch reads
once and appends once, however many groups it touches: with a map state, whose every call is a message to the JVM and
back, a touched group cost 0.9 ms in Python and 0.6 ms in the JVM. When all chunks together have twice the bytes of what
counts in them, one chunk with everything replaces them. So the list, which is always read whole, stays bounded.

Each chunk has the position at which its batch ended, not a variable of its own: the JVM sets up the encoders of each
variable for each task.

A chunk is compressed, because the states of groups repeat their names and each other's form: of the bench's telemetry
zstd leaves one byte in 14, and takes 2 µs a kB to write, 1 µs to read. It is text, because Spark passes bytes to Python
one by one.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import msgspec
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.state import UNREADABLE


class Chunk(NamedTuple):
    """A chunk in Spark's list."""

    offset: int
    """The offset of the last row that its batch folded."""
    stamp: int
    """The stamp of that row, epoch milliseconds."""
    seed: str
    """The rebuild whose seed the state began with; empty: none."""
    size: int
    """The bytes of the content before it was compressed."""
    content: str
    """The shard's own part and the groups, in base64."""


CHUNK_SCHEMA = StructType(
    [
        StructField("offset", LongType()),
        StructField("stamp", LongType()),
        StructField("seed", StringType()),
        StructField("size", LongType()),
        StructField("content", StringType()),
    ]
)  # not as text, which Spark would parse for each task
REPLACED_AT = 2
"""The list is replaced when it has this many times the bytes of what counts."""
SMALL = 1_000_000
"""A list below this size is not replaced; bytes before compression."""
_CODEC = pa.Codec("zstd", compression_level=1)
_REMOVED = b""
"""The blob of a group that was removed."""


class _ChunkContent(msgspec.Struct, frozen=True, array_like=True):
    shard: Saved
    groups: dict[str, bytes]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_ChunkContent)


class ShardPosition(NamedTuple):
    """The position up to which a shard was folded."""

    offset: int
    stamp: int


class Appended(NamedTuple):
    """The rows that a batch leaves in the list."""

    chunk: Chunk
    replaces: bool
    """True if it replaces all others."""


class ChunkedGroups(GroupsInMemory):
    """The groups of a shard, and which of them the batch has changed."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        """Read the chunks of a list, in their order; without one the shard begins, and its first chunk replaces all.

        One that is damaged is left out: the shard's own part begins again (`Shard`), and its next chunk replaces all.
        """
        super().__init__()
        self.shard: Saved | None = None
        """The shard's own part after the last batch."""
        self._size = 0
        is_damaged = False
        for chunk in chunks:
            try:
                packed = a2b_base64(chunk.content)
                content = _DECODER.decode(_CODEC.decompress(packed, decompressed_size=chunk.size))
            except (ValueError, OSError, *UNREADABLE):
                is_damaged = True
                continue
            self.shard = content.shard
            self.update(content.groups)
            self._size += chunk.size
        if is_damaged:  # the shard's own part would not fit the groups, of which some are now of an earlier batch
            self.shard, self._size = Saved(b""), 0
        for key in [key for key, blob in self.items() if blob == _REMOVED]:
            del self[key]
        self._changed: dict[str, bytes] = {}

    @classmethod
    def of(cls, groups: Mapping[str, bytes], shard: Saved) -> Self:
        """Return these groups and this shard's own part, as if a batch had made all of it."""
        made = cls()
        made.shard = shard
        for key, blob in groups.items():
            made.put(key, blob)
        return made

    def put(self, key: str, blob: bytes) -> None:
        """Store the blob of a group."""
        if self.get(key) != blob:
            self[key] = self._changed[key] = blob

    def remove(self, key: str) -> None:
        """Remove the blob of a group."""
        super().remove(key)
        self._changed[key] = _REMOVED

    def append(self, shard: Saved, end: ShardPosition, seed: str) -> Appended:
        """Return the chunk that a batch appends, which has folded up to ``end``.

        ``seed`` is the rebuild whose seed the state began with; empty: none.
        """
        content = _ENCODER.encode(_ChunkContent(shard, self._changed))
        counts = len(shard.blob) + sum(map(len, shard.buffer)) + sum(len(key) + len(self[key]) for key in self)
        replaces = self._size + len(content) > REPLACED_AT * counts + SMALL or not self._size
        if replaces:
            content = _ENCODER.encode(_ChunkContent(shard, dict(self)))
        packed = b2a_base64(_CODEC.compress(content, asbytes=True), newline=False).decode("ascii")
        return Appended(Chunk(*end, seed, len(content), packed), replaces)
