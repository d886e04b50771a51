"""Spark's checkpoints on HDFS: another machine goes on where one was lost.

Those in an object store have no such test yet: the server of `tests.support.object_store` does not list the marker of
an empty folder, as Amazon's store does, so Spark does not find a folder that it has just made.
"""

from pathlib import Path

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.errors import SettingsError
from streaming.base.place import tables_of
from streaming.base.settings import load_settings
from streaming.pipeline.job import JobListener, running
from streaming.tables.delta import delta_at
from tests.live.commands import Command
from tests.support.capture import job_settings, write_capture
from tests.support.hdfs import Hdfs
from tests.support.object_store import SECRET_KEY, ObjectStore
from tests.support.plain import as_json, derived_rows
from tests.support.tables import rows_in

PARTITIONS = 2
SECONDS = 400
ON_S3A = {"checkpoints": "s3a://nowhere/c", "endpoint": "http://127.0.0.1:1"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's capture."""
    folder = tmp_path_factory.mktemp("log")
    write_capture(folder, PARTITIONS)
    return folder


def job_in(root: Path, log: Path, store: ObjectStore, **storage: object) -> Command:
    given = job_settings(root, PARTITIONS) | {"SOURCE__PATH": log}
    root.mkdir()
    return Command(root, given | store.environment(**storage), "run", "--available-now")


def check_another_machine_goes_on(folder: Path, log: Path, store: ObjectStore, **storage: object) -> None:
    """Kill the job, start it under an empty root, and compare the rows with those of the plain loop."""
    with job_in(folder / "lost", log, store, **storage) as job:
        job.start().wait_for("operator batch 1:", SECONDS)
        job.kill()
    with job_in(folder / "next", log, store, **storage) as job:
        assert job.start().ended(SECONDS) == 0, job.said()
        assert "operator batch 0:" not in job.said()
        assert "Traceback" not in job.said()
    assert not (folder / "next" / "checkpoints" / "operator").exists()
    tables = tables_of(load_settings(storage=store.settings(**storage)))
    expected = derived_rows(log, PARTITIONS, Policy())
    assert {name: sorted(map(as_json, rows_in(delta_at(tables / name)))) for name in DERIVED} == expected
    texts = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".parquet"]
    assert not [file for file in texts if SECRET_KEY.encode() in file.read_bytes()]


@pytest.mark.prove
@pytest.mark.timeout(2400)
def test_another_machine_goes_on_from_checkpoints_on_hdfs(object_store, log, tmp_path):
    with Hdfs(tmp_path / "hdfs") as hdfs:
        elsewhere = {"tables": f"s3://{object_store.bucket}/b", "checkpoints": f"{hdfs.url}/rebalance-watch"}
        check_another_machine_goes_on(tmp_path, log, object_store, **elsewhere)


def test_a_standby_on_an_object_store_is_refused_before_spark_starts(settings_in, tmp_path):
    settings = settings_in(tmp_path).model_copy(update={"storage": load_settings(storage=ON_S3A).storage})
    settings.log_path.mkdir()
    waits = JobListener(on_wait=print)
    with (
        pytest.raises(SettingsError, match=r"--standby can't be used with storage\.checkpoints in an object store"),
        running(settings, Policy(), available_now=True, listener=waits),
    ):
        raise AssertionError
