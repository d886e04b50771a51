"""A root that is backed up with its log and restored in another folder goes on there, each row once."""

import shutil
import subprocess

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from tests.live.commands import Command
from tests.support.plain import as_json, derived_rows
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

PARTITIONS = 2
SECONDS = 400


def append(log, events):
    with FilePublisher(log, PARTITIONS, file_bytes_max=60_000, roll_seconds=1e9) as publisher:
        publish(publisher, events)


def run(folder, root):
    given = {"RUNTIME__ROOT": root, "SOURCE__KIND": "files", "SOURCE__PARTITIONS": PARTITIONS}
    with Command(folder, given, "run", "--available-now") as job:
        assert job.start().ended(SECONDS) == 0, job.said()


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
