"""Tables in an object store: which files are copied and when, and that no writer loses another's commit."""

import dataclasses
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import write_deltalake
from deltalake._internal import DeltaFileSystemHandler

from schemas.arrow import arrow_schema, table_of
from schemas.tables import PARTITIONED_BY, TABLES
from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace, tables_of
from streaming.base.settings import load_settings
from streaming.serve.alerting.follow import Follower
from streaming.tables import ReadModel, folder
from streaming.tables import table as table_view
from streaming.tables.delta import check_commits, create_at, delta_at
from streaming.tables.maintenance import Limits, maintain
from tests.support.object_store import FORGETFUL, OSS, SECRET_KEY, ObjectStore

CONTROLS, RESULTS = "alert_controls", "quality_results"
COUNT = f"SELECT count(*) AS n FROM {CONTROLS}"
WRITERS, COMMITS = 4, 5
_ZERO = {"string": "", "bool": False, "double": 0.0}


@pytest.fixture
def tables(object_store: ObjectStore, tmp_path: Path) -> ObjectPlace:
    """Every table, empty, under an address of its own."""
    place = place_of(tmp_path, object_store.settings(tables=f"s3://{object_store.bucket}/{tmp_path.name}"))
    for table in TABLES:
        create_at(place / table, schema=arrow_schema(table), partition_by=list(PARTITIONED_BY.get(table, ())))
    return place


def place_of(root: Path, storage: dict[str, object]) -> ObjectPlace:
    place = tables_of(load_settings(runtime={"root": root}, storage=storage))
    assert isinstance(place, ObjectPlace)
    return place


def append(tables: ObjectPlace, *names: str, table: str = CONTROLS) -> None:
    """Append a row with this name in each of one commit."""
    schema = arrow_schema(table)
    never_null = {one.name: _ZERO.get(str(one.type), 0) for one in schema if not one.nullable}
    columns = dict.fromkeys(schema.names) | never_null
    rows = [columns | {"author": name} if "author" in columns else columns for name in names]
    write_deltalake(delta_at(tables / table), table_of(table, rows), mode="append")


def copies(tables: ObjectPlace) -> list[Path]:
    return sorted(tables.cache.rglob("*.parquet"))


def count(tables: ObjectPlace) -> int:
    with ReadModel(tables) as model:
        return model.rows(COUNT)[0]["n"]


def test_only_the_tables_of_a_query_are_copied_once(tables):
    append(tables, "a")
    append(tables, "b", table=RESULTS)
    with ReadModel(tables) as model:
        assert copies(tables) == []
        assert model.rows(COUNT) == [{"n": 1}]
        [copy] = copies(tables)
        assert copy.parent.name == CONTROLS
        written = copy.stat().st_ctime_ns, copy.stat().st_ino
        append(tables, "c")
        assert model.rows(COUNT) == [{"n": 1}]
        assert model.refresh()
        assert model.rows(COUNT) == [{"n": 2}]
        assert model.rows(f"SELECT count(*) AS n FROM {RESULTS}") == [{"n": 1}]
    assert len(copies(tables)) == 3
    assert copy.stat().st_ino == written[1]


def test_a_copy_that_is_gone_is_fetched_again(tables):
    append(tables, "a")
    assert count(tables) == 1
    for copy in copies(tables):
        copy.unlink()
    assert count(tables) == 1


def test_a_model_that_missed_commits_for_long_goes_on(tables, monkeypatch):
    """`maintain` has removed the commit that it waits for: it finds the newer ones when it lists the log again."""
    with ReadModel(tables) as model:
        assert model.rows(COUNT) == [{"n": 0}]
        append(tables, "a")
        append(tables, "b")
        delta_at(tables / CONTROLS).create_checkpoint()
        objects = DeltaFileSystemHandler(f"{tables.url}/{CONTROLS}", dict(tables.options))
        objects.delete_file("_delta_log/00000000000000000001.json")
        assert not model.refresh()
        monkeypatch.setattr(table_view, "_LISTED_SECONDS", 0.0)
        assert model.refresh()
        assert model.rows(COUNT) == [{"n": 2}]


def test_copies_stay_below_their_limit(tables, monkeypatch):
    for name in ("a", "b", "c"):
        append(tables, name)
    assert count(tables) == 3
    monkeypatch.setattr(folder._COPIES, "_look_at", 0.0)
    append(tables, "d")
    small = dataclasses.replace(tables, cache_bytes=sum(copy.stat().st_size for copy in copies(tables)))
    with pytest.raises(UserError, match=r"storage\.cache_gb allows: raise it"):
        count(small)
    earlier = copies(tables)
    for copy in earlier:
        os.utime(copy, (time.time() - 3600,) * 2)
    monkeypatch.setattr(folder._COPIES, "_look_at", 0.0)
    append(small, "e", table=RESULTS)
    with ReadModel(small) as model:
        assert model.rows(f"SELECT count(*) AS n FROM {RESULTS}") == [{"n": 1}]
    assert len(set(earlier) - set(copies(tables))) >= 1
    assert sum(copy.stat().st_size for copy in copies(tables)) <= small.cache_bytes


def test_writers_lose_no_commit_of_each_other(tables):
    def write(writer: int) -> None:
        for number in range(COMMITS):
            append(tables, f"{writer}-{number}")

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert count(tables) == WRITERS * COMMITS
    done = maintain(tables, CONTROLS, Limits())
    assert done.merged == WRITERS * COMMITS
    assert count(tables) == WRITERS * COMMITS


def test_a_follower_reads_each_commit_once(tables):
    follower = Follower(tables / CONTROLS, ["author"])
    append(tables, "a")
    append(tables, "b", "c")
    assert [commit.rows["author"].to_pylist() for commit in follower.new()] == [["a"], ["b", "c"]]
    assert list(follower.new()) == []
    maintain(tables, CONTROLS, Limits())
    assert list(follower.new()) == []
    append(tables, "d")
    assert [commit.rows["author"].to_pylist() for commit in follower.new()] == [["d"]]


def test_a_bucket_in_the_hosts_name_has_the_same_tables(object_store, tables, tmp_path):
    by_host = place_of(tmp_path / "by_host", object_store.by_host(tables=tables.url))
    append(by_host, "a")
    append(tables, "b")
    assert count(by_host) == count(tables) == 2
    check_commits(by_host)


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ({"secret_key": "another"}, "refuses access to s3://bucket/"),
        ({"tables": "s3://nowhere/tables"}, "There is no bucket nowhere at"),
        ({"endpoint": "http://127.0.0.1:1"}, "No object store answers at http://127.0.0.1:1: start it"),
        ({"secret_key": ""}, "Set both storage.access_key and storage.secret_key"),
        ({"tables": f"s3://{FORGETFUL}/tables"}, "lets two writers create the same object"),
        ({"tables": f"s3://{OSS}/tables"}, "wants the bucket in the host's name: set storage.path_style = false"),
        ({"tables": f"s3://{OSS}/tables", "path_style": False}, "refuses conditional writes"),
    ],
)
def test_what_a_job_can_not_write_to_is_one_sentence(object_store, tmp_path, storage, says):
    base = object_store.settings() if storage.get("path_style", True) else object_store.by_host()
    with pytest.raises(UserError) as refused:
        check_commits(place_of(tmp_path, base | storage))
    assert says in str(refused.value)
    assert SECRET_KEY not in str(refused.value)
