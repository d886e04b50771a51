"""The state of a shard between batches: its list of chunks has what was there at the end of the last one."""

import random

import pytest

from rebalance_model.observe.engine.salvage import Saved
from streaming.pipeline.chunks import REPLACED_AT, SMALL, Chunk, ChunkedGroups, ShardPosition


class List:
    """Spark's list state of a shard."""

    def __init__(self) -> None:
        self.rows: list[Chunk] = []
        self.replaced = 0

    def take(self, groups: ChunkedGroups, shard: Saved) -> int:
        """Do what the operator does at the end of a batch; return the bytes of the chunk before compression."""
        chunk, replaces = groups.append(shard, ShardPosition(len(self.rows), 0), "")
        self.replaced += replaces
        self.rows = [chunk] if replaces else [*self.rows, chunk]
        return chunk.size

    def read(self) -> ChunkedGroups:
        return ChunkedGroups(self.rows)


SHARD = Saved(b"shard", (b"one", b"two"))


def test_the_last_chunk_of_a_group_counts():
    kept = List()
    groups = kept.read()
    assert (groups, groups.shard) == ({}, None)
    for number in range(3):
        groups = kept.read()
        groups.put("c/g", b"%d" % number)
        groups.put(f"c/{number}", b"x")
        kept.take(groups, Saved(b"%d" % number))
    assert len(kept.rows) == 3
    assert kept.read() == {"c/g": b"2", "c/0": b"x", "c/1": b"x", "c/2": b"x"}
    assert kept.read().shard == Saved(b"2")


def test_a_removed_group_is_gone_and_may_come_back():
    kept = List()
    groups = kept.read()
    groups.put("c/g", b"first")
    kept.take(groups, SHARD)
    groups = kept.read()
    groups.remove("c/g")
    groups.remove("c/never")
    kept.take(groups, SHARD)
    assert kept.read() == {}
    groups = kept.read()
    groups.remove("c/g")
    groups.put("c/g", b"again")
    kept.take(groups, SHARD)
    assert kept.read() == {"c/g": b"again"}


def test_a_group_that_was_only_read_is_not_written_again():
    kept = List()
    groups = kept.read()
    groups.put("c/large", bytes(10_000))
    kept.take(groups, SHARD)
    groups = kept.read()
    groups.put("c/large", bytes(10_000))
    assert kept.take(groups, SHARD) < 100
    assert kept.read() == {"c/large": bytes(10_000)}


def test_a_seed_replaces_what_was_there():
    kept = List()
    groups = kept.read()
    groups.put("c/old", b"old")
    kept.take(groups, SHARD)
    kept.take(ChunkedGroups.of({"c/new": b"new"}, Saved(b"seed")), Saved(b"seed"))
    assert kept.read() == {"c/new": b"new"}
    assert kept.read().shard == Saved(b"seed")


@pytest.mark.parametrize("whole", [10_000_000, pytest.param(100_000_000, marks=pytest.mark.prove)])
def test_a_large_state_stays_bounded_and_is_seldom_written_whole(whole):
    """Each of these batches changes a tenth of it, so the list is replaced after ten of them."""
    rng, kept = random.Random(1), List()
    groups = kept.read()
    for number in range(10_000):
        groups.put(f"c/{number}", rng.randbytes(whole // 10_000))
    kept.take(groups, SHARD)
    sizes = []
    for _ in range(12):
        groups = kept.read()
        for number in rng.sample(range(10_000), 1_000):
            groups.put(f"c/{number}", rng.randbytes(whole // 10_000))
        kept.take(groups, SHARD)
        sizes.append(sum(chunk.size for chunk in kept.rows))
    assert 1.8 * whole < max(sizes) <= REPLACED_AT * 1.01 * whole + SMALL
    assert kept.replaced == 2
    assert kept.read() == groups
