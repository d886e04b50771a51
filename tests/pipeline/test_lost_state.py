"""A state in Spark that can't be read: the job goes on, and other groups' rows are those of an unharmed job."""

import json
import threading
from functools import partial
from pathlib import Path

import msgspec
import pytest

from checkpoints.generation import claimed
from checkpoints.manifest import Basis, read_manifest, write_manifest
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.settings import Settings
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from streaming.pipeline import job
from streaming.pipeline.chunks import Chunk, ChunkedGroups, ShardPosition
from streaming.pipeline.operator import continued, fold, lost_row
from streaming.pipeline.rebuild.folder import Folder, Seed, write_seed
from tests.support.plain import as_json, derived_rows, rows_of
from tests.support.tables import read_rows
from tests.support.telemetry import CLUSTER, telemetry

POLICY = Policy()
POISONED = "poisoned"
"""The rebuild whose states are damaged."""


def append(log: Path, events: list[AnyEvent]) -> None:
    with FilePublisher(log, 1, file_bytes_max=300_000, roll_seconds=1e9) as publisher:
        publish(publisher, events)


def run_operator(spark: object, settings: Settings, seed: str = "") -> None:
    """Run the stateful query over what is in the log; its shards begin with the states of that rebuild."""
    basis = Basis(
        source="test", partitions=1, state_partitions=settings.job.state_partitions, code_version="1", policy=POLICY
    )
    with claimed(settings.runtime.checkpoints, settings.runtime.tables, basis) as generation:
        manifest = read_manifest(settings.runtime.checkpoints)
        assert manifest is not None
        write_manifest(settings.runtime.checkpoints, msgspec.structs.replace(manifest, seed=seed))
        start = partial(job.start_operator, spark, settings, POLICY, generation, available_now=True)
        with job.Running([start], settings.runtime.root) as running:
            assert list(running.batches(threading.Event()))


def poisoned_state(log: Path, folder: Path) -> str:
    """Write the state in which one group's is cut; return the group."""
    rows, groups = rows_of(log, 0), GroupsInMemory()
    shard = Shard(None, groups, POLICY)
    list(fold(shard, rows, keyed=False))
    saved = shard.flush()
    group = min(key for key in groups if key.startswith(f"{CLUSTER}/"))
    groups[group] = groups[group][:200]
    write_seed(folder, 0, Seed(rows[-1].offset + 1, saved, dict(groups)))
    return group


@pytest.mark.spark
def test_the_job_goes_on_and_other_groups_rows_are_the_same(spark, settings_in, tmp_path):
    settings, events = settings_in(tmp_path, partitions=1), list(telemetry(4, 160))
    quarter = len(events) // 4  # files have no stamps of their own: nothing is released before ten minutes of ticks
    append(settings.log_path, events[: 2 * quarter])
    run_operator(spark, settings)
    lost = poisoned_state(settings.log_path, Folder(settings.runtime.checkpoints).seeds(POISONED))
    for part in (events[2 * quarter : 3 * quarter], events[3 * quarter :]):
        append(settings.log_path, part)
        run_operator(spark, settings, POISONED)

    expected = derived_rows(settings.log_path, 1, POLICY)
    group = lost.partition("/")[2]
    for table in DERIVED:
        rows = read_rows(settings.runtime.tables, table)
        others = sorted(as_json(row) for row in rows if row["group"] != group)
        assert others == [row for row in expected.get(table, []) if json.loads(row)["group"] != group]
    found = [row for row in read_rows(settings.runtime.tables, "anomalies") if row["code"] == "STATE_LOST"]
    assert [(row["group"], row["transition"], row["severity"]) for row in found] == [(group, "OPENED", "critical")]
    [kept] = read_rows(settings.runtime.tables, "telemetry_rejected")
    assert (kept["reason"], kept["key"]) == ("state_lost", lost.encode())
    assert f"the kept state of group {lost}: " in kept["detail"]
    assert len(kept["value"]) == 200


def chunks_of(log: Path, parts: int) -> list[Chunk]:
    """Return Spark's list after batches of equal size, none of which has replaced it."""
    rows, chunks = rows_of(log, 0), list[Chunk]()
    size = -(-len(rows) // parts)
    for begin in range(0, len(rows), size):
        groups = ChunkedGroups(chunks)
        shard = continued(groups, POLICY, 0)
        list(fold(shard, rows[begin : begin + size], keyed=False))
        end = ShardPosition(begin, 0)
        chunks.append(groups.append(shard.flush(), end, "").chunk)
    return chunks


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], lambda text: "A" + text[1:], lambda _: ""])
def test_a_damaged_part_of_sparks_list_is_left_out(tmp_path, number, damage):
    append(tmp_path / "log", list(telemetry(6, 20)))
    chunks = chunks_of(tmp_path / "log", 3)
    chunks[number] = chunks[number]._replace(content=damage(chunks[number].content))
    groups = ChunkedGroups(chunks)
    shard = continued(groups, POLICY, 0)
    rows = list(shard.timeline.advance(shard.timeline.state.now + 1_000))
    lost = shard.take_lost()
    assert {one.part for one in lost} == {"SHARD"}
    assert lost_row(lost[0], 0, rows_of(tmp_path / "log", 0)[0]).reason == "state_lost"
    opened = {row.group for row in rows if getattr(row, "code", "") == "STATE_LOST"}
    assert opened == {key.partition("/")[2] for key in groups if key.startswith(f"{CLUSTER}/")}
    assert opened or number == 2, "only the last batch has had groups"
    chunk, replaces = groups.append(shard.flush(), ShardPosition(9, 9), "")
    assert replaces
    assert ChunkedGroups([chunk]).shard is not None
