"""Former versions of a table: they can be read as long as the setting says, and cost what the log needs for them."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from checkpoints.generation import claimed
from schemas.arrow import arrow_schema
from streaming.cli import main
from streaming.tables import versions
from streaming.tables.append import append
from streaming.tables.maintenance import Limits, maintain
from streaming.tables.versions import keep_versions
from tests.support.basis import BASIS
from tests.support.tables import append_rows, small_row

TABLE, HOUR_MS = "alert_controls", 3_600_000
KEPT = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")


def start(root: Path, days: int) -> Path:
    """Claim the root as a start of the job does; return the table's folder."""
    with claimed(root / "checkpoints", root / "tables", BASIS, versions_days=days):
        return root / "tables" / TABLE


def age(table: Path, hours: int) -> None:
    """Let the commits of a table be as old as if one had been made each hour, the last one some hours ago."""
    last = DeltaTable(table).version()
    for file in (table / "_delta_log").glob("0*"):
        then = time.time() - 3600 * (last - int(file.name.partition(".")[0]) + hours)
        os.utime(file, (then, then))


def kept(table: Path) -> set[str]:
    configuration = DeltaTable(table).metadata().configuration
    return {configuration[name] for name in KEPT}


def readable_versions(table: Path) -> dict[int, int]:
    """Return the number of rows of each version that can be read."""
    rows = {}
    for version in range(DeltaTable(table).version() + 1):
        try:
            rows[version] = len(pa.table(DeltaTable(table, version=version).scan()))
        except Exception:  # noqa: BLE001  whatever delta-rs says of a version that is gone
            continue
    return rows


def test_each_version_within_the_setting_is_read_after_maintenance(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "CHECKPOINT_COMMITS", 20)
    monkeypatch.setattr(versions, "_NEWEST", 1)
    table = start(tmp_path, days=2)
    for _ in range(110):  # versions 1 to 110
        append_rows(tmp_path / "tables", TABLE, [small_row(TABLE)])
    log = table / "_delta_log"
    DeltaTable(table).create_checkpoint()
    age(table, hours=0)
    for file in table.glob("*.parquet"):
        os.utime(file, (0, 0))  # files may be older than any limit, what counts is when they were replaced
    checkpoints = len(list(log.glob("*.checkpoint.parquet")))

    done = maintain(tmp_path / "tables", TABLE, Limits(replaced_ms=48 * HOUR_MS, versions_days=2))
    assert (done.merged, done.removed) == (110, 0)

    readable = readable_versions(table)
    assert {version: min(version, 110) for version in readable} == readable  # each with the rows that it had
    assert set(readable) >= set(range(110 - 47, DeltaTable(table).version() + 1))
    assert 1 not in readable
    assert len(list(log.glob("*.checkpoint.parquet"))) < checkpoints
    assert not (log / f"{10:020}.json").exists()


def test_only_superfluous_checkpoints_are_removed():
    names = [f"{version:020}.checkpoint.parquet" for version in range(40, 9_000, 20)]
    others = [f"{60:020}.json", f"{60:020}.checkpoint.0000000001.0000000002.parquet", "_last_checkpoint"]

    left = {int(name[:20]) for name in names} - set(versions._superfluous([*names, *others]))
    assert sorted(left) == [*range(40, 5_400, 1_000), *range(5_400, 9_000, 20)]
    assert versions._superfluous(f"{version:020}.checkpoint.parquet" for version in left) == []
    assert versions._superfluous([]) == []


@pytest.mark.parametrize("by", ["the next start", "maintain"])
def test_an_existing_table_takes_a_changed_setting(tmp_path, by):
    table = start(tmp_path, days=1)
    assert kept(table) == {"interval 1 days"}
    if by == "maintain":
        maintain(tmp_path / "tables", TABLE, Limits(versions_days=30), dry_run=True)
        assert kept(table) == {"interval 1 days"}
        maintain(tmp_path / "tables", TABLE, Limits(versions_days=30))
    else:
        start(tmp_path, days=30)
    assert kept(table) == {"interval 30 days"}
    version = DeltaTable(table).version()
    start(tmp_path, days=30)
    maintain(tmp_path / "tables", TABLE, Limits(versions_days=30))
    assert DeltaTable(table).version() == version  # nothing is set again


def test_an_append_goes_on_when_the_setting_changes_meanwhile(tmp_path):
    table = start(tmp_path, days=1)
    opened = DeltaTable(table)
    keep_versions(DeltaTable(table), 2)

    append(opened, pa.Table.from_pylist([small_row(TABLE)], arrow_schema(TABLE)))
    assert (DeltaTable(table).count(), kept(table)) == (1, {"interval 2 days"})


def test_appends_look_through_the_log_once_in_many_commits(tmp_path, monkeypatch):
    table = start(tmp_path, days=1)
    row = pa.Table.from_pylist([small_row(TABLE)], arrow_schema(TABLE))
    for _ in range(25):
        append(table, row)
    age(table, hours=100)
    oldest = table / "_delta_log" / f"{3:020}.json"
    append(table, row)
    assert oldest.exists()
    monkeypatch.setattr(versions, "CLEANUP_COMMITS", 1)
    append(table, row)
    assert not oldest.exists()


@pytest.mark.parametrize(("days", "keep", "says"), [("2", "3d", "tables.versions_days, which is 2"), ("2", "48h", "")])
def test_files_that_no_version_needs_are_not_kept_longer(tmp_path, monkeypatch, days, keep, says):
    table = start(tmp_path, days=1)
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tmp_path))
    monkeypatch.setenv("REBALANCE_WATCH_TABLES__VERSIONS_DAYS", days)
    ran = CliRunner().invoke(main.app, ["maintain", "--keep", keep, "--table", TABLE])
    if says:
        assert f"--keep {keep} is longer than the log keeps the versions" in str(ran.exception)
        assert says in str(ran.exception)
        assert kept(table) == {"interval 1 days"}
    else:
        assert ran.exit_code == 0
        assert kept(table) == {"interval 2 days"}
