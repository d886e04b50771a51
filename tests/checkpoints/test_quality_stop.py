"""Results of checks that stop the job; the checks themselves are in `checkpoints.test_table_quality`."""

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from checkpoints import quality
from checkpoints.quality import QualityStop
from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace
from tests.support.tables import append_rows, make_tables

HOUR = 3_600_000
STOPPED = r"A check of the tables stops the job \(mine found: \[\"bad\"\]\)"


@pytest.fixture
def tables(tmp_path):
    return make_tables(tmp_path)


def check(tables, hours, **columns):
    """Append the results of a check of the suite `mine`, which stops the job: whether each column passed."""
    append_rows(tables, "quality_results", [
        {"batch_id": hours, "time": hours * HOUR, "suite": "mine", "expectation": "is_null", "column": column,
         "success": success, "observed": None if success else '["bad"]', "unexpected_count": 0, "row_count": 1,
         "why": "Why.", "checked_at": hours * HOUR, "stops_job": True}
        for column, success in columns.items()
    ])  # fmt: skip


def test_the_newest_check_of_a_suite_stops_the_job_until_it_succeeds(tables):
    check(tables, 2, found=False)
    check(tables, 1, found=True)
    with pytest.raises(UserError, match=STOPPED):
        QualityStop(tables).check()
    check(tables, 3, found=True)
    QualityStop(tables).check()


def test_an_expectation_that_its_suite_no_longer_has_stops_nothing(tables):
    check(tables, 1, found=False, other=True)
    check(tables, 2, other=True)
    QualityStop(tables).check()


def test_a_running_job_is_stopped_by_a_new_result(tables, monkeypatch):
    monkeypatch.setattr(quality, "_LOOK_SECONDS", 0)
    stop = QualityStop(tables)
    stop.check()
    check(tables, 1, found=False)
    with pytest.raises(UserError, match=STOPPED):
        stop.check()


@pytest.fixture
def stop(tables, tmp_path, monkeypatch):
    """The results are in an object store: a table of a folder takes its place."""
    check(tables, 1, found=True)
    monkeypatch.setattr(quality, "delta_at", lambda place: DeltaTable(tables / place.name))
    return QualityStop(ObjectPlace("s3://bucket/tables", {"aws_endpoint": "http://127.0.0.1:1"}, tmp_path, 0))


def test_a_store_that_does_not_answer_is_one_sentence(stop, monkeypatch):
    def unavailable(_):
        raise DeltaError("Generic S3 error: error sending request")

    monkeypatch.setattr(DeltaTable, "update_incremental", unavailable)
    with pytest.raises(UserError, match="No object store answers at http://127"):
        stop.check()


def test_a_store_that_fails_while_results_are_read_is_one_sentence(stop, tables):
    for file in (tables / "quality_results").glob("*.parquet"):
        file.unlink()
    with pytest.raises(UserError, match=r"The object store at .* failed for s3://bucket/tables/quality_results"):
        stop.check()
