"""Follow a table by its log while a job appends to it and `maintain` rewrites its files."""

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace
from streaming.serve.alerting.follow import Follower, LostError
from tests.support.features import READER, raise_protocol

SCHEMA = pa.schema([("name", pa.string()), ("time", pa.int64())])


@pytest.fixture
def table(tmp_path):
    DeltaTable.create(tmp_path / "t", SCHEMA)
    return tmp_path / "t"


def append(table, *names):
    rows = pa.table({"name": names, "time": range(len(names))}, SCHEMA)
    write_deltalake(table, rows, mode="append")


def names(follower):
    return [row["name"] for commit in follower.new() for row in commit.rows.to_pylist()]


def test_each_appended_row_is_returned_once_in_order(table):
    follower = Follower(table, ["name"])
    append(table, "a", "b")
    append(table, "c")
    assert names(follower) == ["a", "b", "c"]
    assert names(follower) == []
    append(table, "d")
    assert names(follower) == ["d"]
    assert follower.version == 3


def test_following_starts_after_the_last_known_version(table):
    append(table, "a")
    append(table, "b")
    assert names(Follower(table, ["name"], version=1)) == ["b"]
    assert names(Follower(table, ["name"])) == []


def test_compaction_deletion_and_vacuum_bring_no_rows_and_lose_none(table):
    follower = Follower(table, ["name"])
    append(table, "a")
    append(table, "b")
    assert names(follower) == ["a", "b"]
    delta = DeltaTable(table)
    delta.optimize.compact()
    delta.delete("name = 'a'")
    append(table, "c")
    delta = DeltaTable(table)
    delta.create_checkpoint()
    delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    append(table, "d")
    assert names(follower) == ["c", "d"]


def test_rows_of_a_commit_without_data_change_are_not_new(table):
    follower = Follower(table, ["name"])
    append(table, "a")
    commit = table / "_delta_log" / f"{1:020}.json"
    commit.write_text(commit.read_text().replace('"dataChange":true', '"dataChange":false'))
    assert names(follower) == []


def test_unread_rows_whose_files_were_vacuumed_are_reported_as_lost(table):
    follower = Follower(table, ["name"])
    append(table, "a")
    append(table, "b")
    delta = DeltaTable(table)
    delta.optimize.compact()
    delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(LostError):
        list(follower.new())
    assert sorted(follower.whole().read_all()["name"].to_pylist()) == ["a", "b"]
    append(table, "c")
    assert names(follower) == ["c"]


class Failing:
    """A table in an object store that fails while its rows are read, which a real one can't be made to do in time."""

    def version(self):
        return 1

    def scan(self, columns, predicate):
        def batches():
            yield pa.record_batch({"name": ["a"], "time": [1]}, SCHEMA)
            raise OSError("503 Slow Down")

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def test_an_object_store_that_fails_while_rows_are_read_is_one_sentence(table, monkeypatch):
    follower = Follower(table, ["name"])
    monkeypatch.setattr(follower, "_table", ObjectPlace("s3://bucket/t", {}, table.parent, 0))
    monkeypatch.setattr("streaming.serve.alerting.follow.delta_at", lambda _: Failing())
    with pytest.raises(UserError, match=r"^The object store at AWS failed for s3://bucket/t: .*503 Slow Down"):
        follower.whole().read_all()


def test_features_that_another_engine_switches_on_meanwhile_are_refused(table):
    follower = Follower(table, ["name"])
    append(table, "a")
    plain = {"minReaderVersion": 1, "minWriterVersion": 2}
    raise_protocol(table, READER["deletionVectors"])
    assert next(follower.new()).rows["name"].to_pylist() == ["a"]
    for _ in range(2):
        with pytest.raises(UserError, match=r"^The table t has the Delta feature deletionVectors, .* not read it: "):
            list(follower.new())
    raise_protocol(table, plain)  # as RESTORE does
    append(table, "b")
    assert names(follower) == ["b"]


def test_versions_whose_log_was_deleted_are_reported_as_lost(table):
    follower = Follower(table, ["name"])
    append(table, "a")
    append(table, "b")
    DeltaTable(table).create_checkpoint()
    (table / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LostError):
        list(follower.new())


def test_a_replaced_table_is_a_user_error(table):
    follower = Follower(table, ["name"])
    follower.check()
    shutil.rmtree(table)
    with pytest.raises(UserError, match="have been replaced"):
        follower.check()
    DeltaTable.create(table, SCHEMA)
    with pytest.raises(UserError, match="have been replaced"):
        follower.check()


def test_a_missing_table_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match=r"There is no table t in .*rebalance-watch run"):
        Follower(tmp_path / "t")


def test_commits_of_maintenance_are_no_appends(table):
    append(table, "a")
    append(table, "b")
    last = Follower(table).last_append()
    DeltaTable(table).optimize.compact()
    assert Follower(table).last_append() == last
