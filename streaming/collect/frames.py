"""Receive large frames: only as answers to pending requests, in a memory that all servers share.

A server announces any length. So nothing is set aside for a frame before its bytes arrive, and a frame that answers
nothing, or is too large, is received and dropped piece by piece: it fails its own request, and the next frame of the
connection is read as usual. When the memory is full, the slowest frame gives way: so a server that begins frames and
does not end them costs no other server its answer.
"""

import asyncio
import contextlib
import struct
import time
from collections.abc import Iterator

from streaming.base.limits import (
    ANSWER_AT_ONCE_BYTES,
    FRAME_HEADER_BYTES,
    FRAME_STALLED_SECONDS,
    LARGE_FRAMES_BYTES,
)
from streaming.collect import remoting
from streaming.collect.remoting import FrameError, RemotingCommand

LARGE_BYTES = 1_000_000
"""A frame with more bytes is received in pieces."""
_PIECE_BYTES = 262_144
_YOUNG_SECONDS = 0.1
"""A frame is not compared with others before this time."""


class DroppedFrameError(Exception):
    """A frame was dropped, and with it the answer to its request."""


class FrameMemory:
    """The bytes of all large frames that are being received or read."""

    def __init__(self, bytes_max: int = LARGE_FRAMES_BYTES) -> None:
        """Hold so many bytes at most, and one piece more."""
        self._bytes_max = bytes_max
        self._held = 0
        self._arriving: set[LargeFrame] = set()

    @contextlib.contextmanager
    def frame(self) -> Iterator["LargeFrame"]:
        """Hold a frame until it is read."""
        frame = LargeFrame(self)
        self._arriving.add(frame)
        try:
            yield frame
        finally:
            self._arriving.discard(frame)
            self._held -= frame.free()

    def take(self, number: int) -> None:
        """Make room for further bytes: of the frames that have not arrived yet the slowest is dropped."""
        self._held += number
        while self._held > self._bytes_max and self._arriving:
            slowest = min(self._arriving, key=LargeFrame.rate)
            self._arriving.discard(slowest)
            slowest.is_dropped = True
            self._held -= slowest.free()

    def arrived(self, frame: "LargeFrame") -> None:
        """Note that a frame is whole: it is read next, and does not give way."""
        self._arriving.discard(frame)


class LargeFrame:
    """One large frame."""

    def __init__(self, memory: FrameMemory) -> None:
        self.is_dropped = False
        self._memory = memory
        self._began = time.monotonic()
        self._bytes = bytearray()

    def rate(self) -> float:
        """Return how many bytes have arrived in a second."""
        return len(self._bytes) / max(_YOUNG_SECONDS, time.monotonic() - self._began)

    def free(self) -> int:
        """Forget the bytes, and return how many they were."""
        number = len(self._bytes)
        self._bytes = bytearray()
        return number

    async def receive(self, reader: asyncio.StreamReader, front: bytes, length: int) -> bytearray:
        """Receive the rest of a frame after its front; return the whole.

        Raises:
            DroppedFrameError: it was too slow, and others needed the memory; its bytes were received.
            IncompleteReadError: the connection was closed.
        """
        self._bytes += front
        left = length - len(front)
        while left:
            piece = await _piece(reader, left)
            left -= len(piece)
            if not self.is_dropped:
                self._bytes += piece
                self._memory.take(len(piece))
        if self.is_dropped:
            msg = f"a frame of {length} bytes came too slowly, and the memory for large frames was full"
            raise DroppedFrameError(msg)
        self._memory.arrived(self)
        return self._bytes


async def front_of(reader: asyncio.StreamReader, length: int) -> tuple[bytes, RemotingCommand | None]:
    """Receive the front of a large frame, and read its header; None if that is too long, or can't be read."""
    head = await reader.readexactly(4)
    (number,) = struct.unpack(">I", head)
    size = number & 0xFF_FFFF
    if size > min(FRAME_HEADER_BYTES, length - 4):
        return head, None
    front = head + await reader.readexactly(size)
    try:
        return front, remoting.decode(front)
    except FrameError:
        return front, None


async def received(reader: asyncio.StreamReader, length: int) -> bytes:
    """Receive the rest of a frame that is not large.

    Raises:
        TimeoutError: nothing came for `FRAME_STALLED_SECONDS`; not of a small frame, which comes at once.
    """
    if length <= ANSWER_AT_ONCE_BYTES:
        return await reader.readexactly(length)
    frame = bytearray()
    while len(frame) < length:
        frame += await _piece(reader, length - len(frame))
    return bytes(frame)


async def skip(reader: asyncio.StreamReader, number: int) -> None:
    """Receive so many bytes, and drop them."""
    while number:
        number -= len(await _piece(reader, number))


async def _piece(reader: asyncio.StreamReader, left: int) -> bytes:
    async with asyncio.timeout(FRAME_STALLED_SECONDS):
        piece = await reader.read(min(left, _PIECE_BYTES))
    if not piece:
        raise asyncio.IncompleteReadError(b"x", left)  # within a frame
    return piece
