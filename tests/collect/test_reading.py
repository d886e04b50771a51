"""The processor time for answers is shared: one that took more than its share waits, small answers are read at once.

A reader here only says that it took so long; `test_rpc` has one that does.
"""

import asyncio

import pytest

from streaming.collect import reading as module
from streaming.collect.client import UnreadableError
from streaming.collect.reading import Reading

LARGE = b"x" * 70_000


class Clock:
    """Stands for the module `time`: the processor time that readers say to have taken."""

    seconds = 0.0

    def thread_time(self):
        return self.seconds


def taking(seconds):
    """Return a reader that takes so long."""

    def read(body):
        module.time.seconds += seconds
        return len(body)

    return read


def read(reading, server, subject, seconds, body=LARGE):
    """Return whether an answer is read."""
    [read] = asyncio.run(_gathered(reading.read(server, subject, taking(seconds), body)))
    assert read == len(body) or "in this round" in read.remark
    return not isinstance(read, UnreadableError)


async def _gathered(reading):
    return await asyncio.gather(reading, return_exceptions=True)


@pytest.fixture
def reading(monkeypatch):
    """A budget of one second."""
    monkeypatch.setattr(module, "time", Clock())
    one = Reading(1.0)
    yield one
    one.close()


def test_those_that_took_more_than_their_share_wait_for_the_others(reading):
    names = [f"g{number}" for number in range(6)]
    turns = []
    for _ in range(3):
        reading.begin_round()
        turns.append([name for name in names if read(reading, name, name, 0.4)])
    assert turns[0] == ["g0", "g1", "g2"]
    assert turns[1] == ["g3", "g4", "g5"]


def test_a_small_answer_is_read_although_the_round_has_no_time_left(reading):
    assert read(reading, "evil", "a", 0.6)
    assert read(reading, "evil", "b", 0.6)
    assert not read(reading, "good", "large", 0.0)
    assert read(reading, "good", "small", 0.0, b"x")


def test_a_server_whose_small_answers_take_more_than_its_share_has_no_more(reading):
    assert all(read(reading, "evil", f"g{number}", 0.09, b"x") for number in range(12))
    assert read(reading, "good", "g", 0.0, b"x")
    assert not read(reading, "evil", "another", 0.0, b"x")
    assert read(reading, "good", "h", 0.0, b"x")


def test_nobody_owes_anything_if_there_was_time_for_all(reading):
    for _ in range(3):
        reading.begin_round()
        assert read(reading, "a", "large", 0.5)
        assert read(reading, "a", "little", 0.02)
