"""A root is continued in another folder, restored there with its log, and works in a folder of any usual name."""

import shutil
import subprocess

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from streaming.pipeline.sources import read_log
from tests.live.commands import Command
from tests.pipeline.rebuild.late import NOT_COMPARED
from tests.support.plain import as_json, derived_rows, rows_of
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

PARTITIONS = 2
SECONDS = 400
YEARS_DAYS = 3_650
"""Quantities are kept for so long: the events are of 2025."""


def append(log, events):
    with FilePublisher(log, PARTITIONS, file_bytes_max=60_000, roll_seconds=1e9) as publisher:
        publish(publisher, events)


def given_to(root):
    days = {"TABLES__PROGRESS_DAYS": YEARS_DAYS, "TABLES__PROGRESS_MINUTE_DAYS": YEARS_DAYS}
    return {"RUNTIME__ROOT": root, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS, **days}


def run(folder, root):
    with Command(folder, given_to(root), "run", "--available-now") as job:
        assert job.start().ended(SECONDS) == 0, job.said()


@pytest.mark.spark
@pytest.mark.parametrize("name", ["a+b", "a b", "50%", "#1", "100%25", "[x]{y}?*", "é猫", "it's"])
def test_a_log_is_read_in_a_folder_of_any_name(tmp_path, settings_in, spark, name):
    """The log alone may be anywhere (`source.path`); a root may not have all of these names (`Runtime`)."""
    append(tmp_path / name, list(telemetry(1, 2)))
    settings = settings_in(tmp_path / "root", path=str(tmp_path / name), partitions=PARTITIONS)
    counts = []
    writer = read_log(spark, settings).writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    assert sum(counts) == sum(len(rows_of(tmp_path / name, partition)) for partition in range(PARTITIONS)) > 0


@pytest.mark.spark
@pytest.mark.prove
@pytest.mark.timeout(1_000)
def test_a_root_works_in_a_folder_of_any_usual_name(tmp_path):
    """The job, a rebuild, its undo, and a start after each."""
    root = tmp_path / "a+b 50% #ü;é'猫"
    append(root / "log", list(telemetry(2, 10)))
    run(tmp_path, root)
    rows = {table: sorted(map(as_json, read_rows(root / "tables", table))) for table in DERIVED}
    assert rows == {table: [] for table in DERIVED} | derived_rows(root / "log", PARTITIONS, Policy())
    compared = compared_rows(root)
    for arguments in (["maintain"], ["rebuild"], ["rebuild", "--undo"]):
        with Command(tmp_path, given_to(root), *arguments) as command:
            assert command.start().ended(SECONDS) == 0, command.said()
        run(tmp_path, root)
        assert compared_rows(root) == compared


def compared_rows(root):
    """The derived rows, without what a rebuild numbers and dates again."""
    rows = {table: read_rows(root / "tables", table) for table in DERIVED}
    return {
        table: sorted(
            as_json({name: value for name, value in row.items() if name not in NOT_COMPARED}) for row in found
        )
        for table, found in rows.items()
    }


@pytest.mark.spark
@pytest.mark.prove
@pytest.mark.timeout(1_000)
def test_a_restored_root_goes_on_in_another_folder(tmp_path, settings_in):
    """By tar, as checkpoints/README.md says; the former folder is gone."""
    root, restored = tmp_path / "first", tmp_path / "restored"
    events = list(telemetry(5, 40))
    append(root / "log", events[: len(events) // 2])
    run(tmp_path, root)
    subprocess.run(["tar", "-cf", tmp_path / "backup.tar", "-C", root, "log", "checkpoints", "tables"], check=True)
    shutil.rmtree(root)
    restored.mkdir()
    subprocess.run(["tar", "-xf", tmp_path / "backup.tar", "-C", restored], check=True)

    append(restored / "log", events[len(events) // 2 :])
    run(tmp_path, restored)

    expected = derived_rows(restored / "log", PARTITIONS, Policy())
    found = {table: sorted(map(as_json, read_rows(restored / "tables", table))) for table in DERIVED}
    assert found == {table: expected.get(table, []) for table in DERIVED}
    places = [(row["partition"], row["offset"]) for row in read_rows(restored / "tables", "telemetry")]
    assert len(places) == len(set(places)) > 0
