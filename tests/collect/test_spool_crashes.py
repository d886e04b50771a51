"""Wherever a shipper is killed, every line arrives once and in order."""

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import structlog
from hypothesis import given
from hypothesis import strategies as st

from streaming.collect import shipper as shipping
from streaming.collect import spool as spooling
from streaming.collect.shipper import LogOutlet, Shipper
from tests.support.spool_logs import MemoryLog
from tests.support.spool_writer import SpoolWriter, check_delivery


class Crash(BaseException):
    """Stands for a SIGKILL: nothing catches it."""


class Fuse:
    """Crashes before or after the shipper's n-th operation on the log or the disk."""

    def __init__(self):
        self.left = None

    def touch(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash

    def on(self, name):
        real = getattr(os, name)

        def touching(*arguments, **options):
            self.touch()
            result = real(*arguments, **options)
            self.touch()
            return result

        return mock.patch.object(os, name, touching)


WRITERS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), WRITERS, st.integers(1, 12)),
        st.tuples(st.sampled_from(["write_half", "roll", "reboot"]), WRITERS),
        st.tuples(st.just("ship"), st.one_of(st.none(), st.integers(0, 60)), st.integers(0, 0xFFF)),
        st.tuples(st.just("stop")),
    ),
    max_size=40,
)


@given(steps=STEPS, flush_seconds=st.sampled_from([0.0, 1e9]), chunk=st.sampled_from([300, 700, 2**21]))
def test_every_line_arrives_once_in_order_despite_kills_and_restarts(steps, flush_seconds, chunk):
    fuse = Fuse()
    memory = MemoryLog(flush_seconds=flush_seconds, touch=fuse.touch)
    with TemporaryDirectory() as name, ExitStack() as patches:
        for patch in (
            *(fuse.on(operation) for operation in ("write", "replace", "unlink", "rmdir")),
            mock.patch.object(spooling, "CHUNK_BYTES", chunk),
            mock.patch.object(shipping, "BATCH_BYTES", 2 * chunk),
            structlog.testing.capture_logs(),
        ):
            patches.enter_context(patch)
        roots = [Path(name) / "one", Path(name) / "two"]
        writers = [SpoolWriter(roots[number % 2], f"hook-broker {number}/x") for number in range(3)]
        world = World(roots, memory, fuse)
        for kind, *arguments in steps:
            if kind in {"ship", "stop"}:
                getattr(world, kind)(*arguments)
            else:
                number, *more = arguments
                getattr(writers[number], kind)(*more)
        world.stop()
        world.ship(None, 0)  # an ended incarnation goes when what it had is safe
        world.stop()
        check_delivery(writers, memory.safe)
        for root in roots:
            for folder in root.iterdir():
                assert len(list(folder.glob("*.jsonl"))) == 1, "what is sent is deleted, but for the file being written"
        assert {folder for root in roots for folder in root.iterdir()} == {writer.folder for writer in writers}


class World:
    def __init__(self, roots, memory, fuse):
        self._roots, self._memory, self._fuse = roots, memory, fuse
        self._shipper = None

    def ship(self, fuse, kept):
        self._fuse.left = fuse
        try:
            self._start()
            self._shipper.step()
        except Crash:
            self._fuse.left = None
            self._memory.crash(kept)
            if self._shipper:
                self._shipper.close()  # the kernel lets go of a killed process's locks
                self._shipper = None
        self._fuse.left = None

    def stop(self):
        self._start()
        self._shipper.drain()
        self._memory.flush()
        self._shipper.finish()
        self._shipper.close()
        self._shipper = None

    def _start(self):
        if self._shipper is None:
            self._shipper = Shipper(self._roots, quiet_seconds=0)
            self._shipper.send_to(LogOutlet(self._memory))
