"""Layout of a maintained table for other engines: the bounds of its files, and what each commit was."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from schemas.tables import columns
from streaming.tables import maintenance
from streaming.tables.maintenance import Limits, maintain
from tests.support.tables import append_rows, make_tables
from tests.tables.test_maintenance import change

HISTORY, DAY = "assignment_history", 86_400_000


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    make_tables(tmp_path / "tables")
    for at in (day * DAY + n for day in range(4) for n in range(5)):
        rows = [change(at, group=group, known_at=at + 900, seq=at) for group in ("z", "m", "a")]
        append_rows(tmp_path / "tables", HISTORY, rows)
    return tmp_path / "tables"


def files(tables: Path) -> list[dict[str, object]]:
    found = pa.table(DeltaTable(tables / HISTORY).get_add_actions(flatten=True))
    return sorted(found.to_pylist(), key=lambda file: str(file["min.known_at"]))


def said(tables: Path) -> list[str]:
    history = DeltaTable(tables / HISTORY).history()
    return [str(commit["userMetadata"]) for commit in history if "userMetadata" in commit]


def test_a_merged_file_has_the_bounds_of_each_time_number_and_id(tables):
    maintain(tables, HISTORY, Limits())

    [file] = files(tables)
    rows = pa.table(DeltaTable(tables / HISTORY).scan()).to_pylist()
    texts = {"action", "evidence"}
    for column in columns(HISTORY):
        values = [row[column.name] for row in rows if row[column.name] is not None]
        if column.name in texts or not values:
            assert file.get(f"min.{column.name}") is None, column.name
        else:
            bounds = file[f"min.{column.name}"], file[f"max.{column.name}"]
            assert bounds == (min(values), max(values)), column.name
    assert file["null_count.expected_owner"] == len(rows)


def test_what_was_known_since_an_instant_is_in_few_files_after_a_merge(tables, monkeypatch):
    monkeypatch.setattr(maintenance, "FILE_ROWS", 15)
    maintain(tables, HISTORY, Limits())

    since = 3 * DAY
    newer = [file for file in files(tables) if file["max.known_at"].timestamp() * 1000 > since]
    assert (len(files(tables)), len(newer)) == (4, 1)


def test_the_history_says_what_each_maintenance_did(tables):
    maintain(tables, HISTORY, Limits())
    maintain(tables, HISTORY, Limits(rows_since=3 * DAY))

    dropped, split, merged = said(tables)
    assert merged == "rebalance-watch maintain: merged 20 files into 1 with 60 rows; no row changed"
    assert split == "rebalance-watch maintain: split 1 file before rows are dropped; no row changed"
    assert dropped == "rebalance-watch maintain --older-than: dropped 42 rows from before 1970-01-04T00:00:00.000Z"


def test_a_merge_changes_no_data_and_a_drop_does(tables):
    maintain(tables, HISTORY, Limits())
    merge = commit(tables)
    maintain(tables, HISTORY, Limits(rows_since=3 * DAY))
    drop = commit(tables)

    assert {action["dataChange"] for action in merge} == {False}
    assert {action["dataChange"] for action in drop} == {True}


def commit(tables: Path) -> list[dict[str, object]]:
    version = DeltaTable(tables / HISTORY).version()
    lines = (tables / HISTORY / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [next(iter(line.values())) for line in map(json.loads, lines) if line.keys() & {"add", "remove"}]
