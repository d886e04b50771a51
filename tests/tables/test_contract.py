"""Rights of writers: each operation's own history keeps to the contract, and another program's commit is named."""

import datetime as dt
import shutil

import pytest
from deltalake import DeltaTable, write_deltalake

from checkpoints.generation import claimed
from checkpoints.manifest import Swap
from checkpoints.swap import apply
from schemas.contract import CONTRACT, CommitKind, Operation, tables_of
from schemas.tables import TABLES
from streaming.base.settings import Settings
from streaming.cli.checks import _contract
from streaming.tables.maintenance import Limits, maintain
from streaming.tables.retention import OUTLIVES
from streaming.tables.versions import violations
from tests.support.basis import BASIS
from tests.support.tables import append_rows, small_row

DAY = 86_400_000
LIMITS = Limits(rows_since=50 * DAY, versions_days=2)


@pytest.fixture
def root(tmp_path):
    """Every table as the job creates it, with rows of three days, of which two are too old."""
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS, versions_days=2):
        for table in TABLES:
            for day in (9, 10, 60):
                row = small_row(table) | {"time": day * DAY, "date": dt.date(1970, 1, 1) + dt.timedelta(day)}
                append_rows(tmp_path / "tables", table, [row | {"action": "RELEASED", "transition": "RESOLVED"}])
    return tmp_path


def foreign_commits(root):
    return [one for table in TABLES for one in violations(root / "tables" / table)]


def history(root, table):
    return [one["userMetadata"] for one in DeltaTable(root / "tables" / table).history() if "userMetadata" in one]


def test_the_history_of_each_operation_keeps_to_the_contract(root):
    for table in TABLES:
        maintain(root / "tables", table, Limits(versions_days=1))
        dropped = maintain(root / "tables", table, LIMITS).rows_dropped
        assert bool(dropped) == (table in tables_of(Operation.MAINTAIN_OLDER, CommitKind.DELETE))
    for operation in (Operation.REBUILD, Operation.UNDO):
        for table in (swapped := tables_of(operation, CommitKind.REPLACE)):
            (root / "checkpoints" / "rows" / table).mkdir(parents=True, exist_ok=True)
        swap = Swap(f"the-{operation[-4:]}", swapped, "rows", "", operation=operation)
        apply(swap, root / "checkpoints", root / "tables")
    assert foreign_commits(root) == []
    assert history(root, "telemetry")[0].startswith("rebalance-watch maintain --older-than: dropped")
    assert history(root, "anomalies")[0].startswith("rebalance-watch rebuild --undo: all rows were replaced")
    assert _contract(Settings(runtime={"root": root})).state == "ok"


def rewrite(table):
    write_deltalake(table, table.to_pyarrow_table(), mode="overwrite")


@pytest.mark.parametrize(
    ("table", "harm", "says"),
    [
        ("queue_progress", rewrite, "replace"),
        ("telemetry_rejected", lambda table: table.delete(), "delete"),
        (
            "alert_deliveries",
            rewrite,
            "replace",
        ),
    ],
)
def test_what_another_program_wrote_is_named_by_the_doctor(root, table, harm, says):
    harm(DeltaTable(root / "tables" / table))
    [one] = foreign_commits(root)
    assert (one.table, one.commit) == (table, says)
    check = _contract(Settings(runtime={"root": root}))
    assert (check.state, check.needed) == ("wrong", False)
    assert f"of {table}: {says}, by " in check.found
    assert "let no other program write" in check.mend


def test_an_operation_may_not_make_what_another_one_may(root):
    """`queue_progress` is dropped by age, and never rebuilt."""
    table, checkpoints = root / "tables" / "queue_progress", root / "checkpoints"
    shutil.copytree(table, checkpoints / "rows" / table.name, ignore=shutil.ignore_patterns("_delta_log"))
    apply(Swap("wrong", (table.name,), "rows", "", operation=Operation.UNDO), checkpoints, root / "tables")
    assert {one.commit for one in foreign_commits(root)} == {CommitKind.REPLACE}


def test_a_commit_that_replaces_rows_removes_a_file_and_adds_one(root):
    """Else a stream that ignores deletes would get rows again, or keep those that are gone, and never notice."""
    for number, table in enumerate(tables_of(Operation.REBUILD, CommitKind.REPLACE)):
        if number % 2:
            DeltaTable(root / "tables" / table).delete()
        (root / "checkpoints" / "rows").mkdir(exist_ok=True)
        apply(Swap("the-swap", (table,), "rows", ""), root / "checkpoints", root / "tables")
        assert DeltaTable(root / "tables" / table).count() == 0
        log = sorted((root / "tables" / table / "_delta_log").glob("0*.json"))
        [swap] = [text for file in log if "all rows were replaced" in (text := file.read_text())]
        assert '"add"' in swap
        assert '"remove"' in swap


def test_what_may_be_dropped_has_a_rule_that_says_what_stays():
    assert set(OUTLIVES) == set(tables_of(Operation.MAINTAIN_OLDER, CommitKind.DELETE))
    assert {table for tables in CONTRACT.values() for table in tables} == set(TABLES)
