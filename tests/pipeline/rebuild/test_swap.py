"""Rows and states are made beside the job and swapped in, whole or not at all; undone, what was is there again."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from subprocess import PIPE

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from checkpoints.generation import claimed
from checkpoints.manifest import ARCHIVE, OPERATOR, Basis, read_manifest
from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.state import STATE_VERSION
from schemas.arrow import arrow_schema
from schemas.tables import TABLES
from streaming.base.errors import UserError
from streaming.pipeline.rebuild.build import build
from streaming.pipeline.rebuild.folder import Folder
from streaming.pipeline.rebuild.rows import REBUILT
from streaming.pipeline.rebuild.take_over import take_over, undo
from streaming.pipeline.sinks import TableSink
from streaming.tables import ReadModel
from streaming.tables.maintenance import Limits, maintain
from streaming.tables.versions import violations
from tests.pipeline.rebuild.late import (
    PARTITIONS,
    POLICY,
    Stamped,
    archived,
    compared,
    compared_tables,
    events,
    fold,
    log,
    partitions,
)
from tests.support.tables import append

pytestmark = pytest.mark.xdist_group("swap")  # one process makes the root, and rebuilds it, for all of them
BASIS = Basis(
    source="kafka topic telemetry", partitions=PARTITIONS, state_partitions=2, code_version="1", policy=POLICY,
    state_version=STATE_VERSION,
)  # fmt: skip
MINUTES = 6
"""Of the capture; a job has read all but the last two."""


@cache
def all_rows() -> list[Stamped]:
    return log(lambda event: event.source == "hook", 90_000, minutes=MINUTES)


@cache
def cut() -> int:
    return events(MINUTES)[0].time + (MINUTES - 2) * 60_000


@cache
def rows_before() -> list[Stamped]:
    return [row for row in all_rows() if row.stamp < cut()]


def is_at(root: Path, query: str, rows: list) -> None:
    """Leave what Spark leaves of a query that has read so many rows of Kafka's topic."""
    for name in ("offsets", "commits"):
        (root / "checkpoints" / query / name).mkdir(parents=True, exist_ok=True)
    ends = {str(number): len(partition) for number, partition in enumerate(partitions(rows))}
    (root / "checkpoints" / query / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps({'telemetry': ends})}")
    (root / "checkpoints" / query / "commits" / "0").write_text("v1\n{}")


def make_root(root: Path) -> Path:
    """Return what a job leaves whose hook was late: its tables, its archive, and how far it has read."""
    with claimed(root / "checkpoints", root / "tables", BASIS):
        pass
    append(root / "tables", fold(rows_before()))
    archived(root / "tables", rows_before())
    for query in (OPERATOR, ARCHIVE):
        is_at(root, query, rows_before())
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return make_root(tmp_path_factory.mktemp("made"))


@pytest.fixture
def root(made, tmp_path) -> Path:
    shutil.copytree(made, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture(scope="module")
def built(made, tmp_path_factory) -> Path:
    """Return a root with a rebuild that is ready: to build it takes longer than to swap it in."""
    root = tmp_path_factory.mktemp("built") / "root"
    shutil.copytree(made, root)
    Folder(root / "checkpoints").announce(build(root / "checkpoints", root / "tables"))
    return root


@pytest.fixture
def announced(built, tmp_path) -> Path:
    shutil.copytree(built, tmp_path / "root")
    return tmp_path / "root"


def never() -> None:
    raise AssertionError("the archive has all")


def no_state(copy: Path) -> None:
    """Make nothing of it: the checkpoints of these tests have no state."""
    assert (copy / "offsets").is_dir()


def rebuild(root: Path, basis: Basis = BASIS, empty_state: Callable[[Path], None] = no_state) -> str:
    ready = build(root / "checkpoints", root / "tables")
    Folder(root / "checkpoints").announce(ready)
    start(root, basis, empty_state)
    return ready.rebuild_id


def start(root: Path, basis: Basis = BASIS, empty_state: Callable[[Path], None] = no_state) -> None:
    """Return what a job does before its queries, or what `rebuild` does without a job."""
    with claimed(root / "checkpoints", root / "tables", basis):
        take_over(root / "checkpoints", root / "tables", never, empty_state)


def rows(root: Path) -> Counter[str]:
    with ReadModel(root / "tables") as model:
        return compared_tables(model)


def progress(root: Path) -> int:
    with ReadModel(root / "tables") as model:
        return model.rows("SELECT count(*) AS rows FROM queue_progress")[0]["rows"]


def test_the_swap_replaces_the_rows_and_keeps_the_rest(announced):
    before, kept = rows(announced), progress(announced)
    start(announced)
    after = rows(announced)
    expected = compared(fold([row for row in log(lambda _: False, 0, minutes=MINUTES) if row.stamp < cut()]))
    assert after != before
    assert not after - expected
    assert progress(announced) == kept
    late = list(expected - after)
    last = max(msgspec.json.decode(row)[1]["time"] for row in after)
    assert all(msgspec.json.decode(row)[1]["time"] > last - 1_000 for row in late), "only what waits in the buffer"


def test_seq_goes_on_so_that_no_new_row_is_taken_for_an_old_one(announced):
    with ReadModel(announced / "tables") as model:
        old = model.rows('SELECT "group", max(seq) AS seq FROM queue_state GROUP BY ALL')
    start(announced)
    with ReadModel(announced / "tables") as model:
        new = {
            row["group"]: row["seq"]
            for row in model.rows('SELECT "group", min(seq) AS seq FROM queue_state GROUP BY ALL')
        }
    assert all(new[row["group"]] > row["seq"] for row in old)


def test_rows_that_the_job_read_meanwhile_are_folded_at_the_swap(announced):
    """The operator has read all, and so has the archive once it is asked to."""
    checkpoints, tables = announced / "checkpoints", announced / "tables"
    ready = Folder(checkpoints).ready()
    is_at(announced, OPERATOR, all_rows())

    def archive_to_end() -> None:
        write_deltalake(tables / "telemetry", pa.Table.from_pylist([], arrow_schema("telemetry")), mode="overwrite")
        archived(tables, all_rows())
        is_at(announced, ARCHIVE, all_rows())

    with claimed(checkpoints, tables, BASIS):
        take_over(checkpoints, tables, archive_to_end, no_state)
    with ReadModel(tables) as model:
        last = model.rows("SELECT max(time) AS time FROM queue_state")[0]["time"]
    assert last > cut()
    assert read_manifest(checkpoints).seed == ready.rebuild_id


def test_an_archive_that_is_behind_is_one_sentence_and_everything_stays(announced):
    before = rows(announced)
    ready = Folder(announced / "checkpoints").ready()
    is_at(announced, OPERATOR, all_rows())
    with claimed(announced / "checkpoints", announced / "tables", BASIS):
        take_over(announced / "checkpoints", announced / "tables", lambda: None, no_state)
    assert "The archive lacks rows" in Folder(announced / "checkpoints").failure(ready.rebuild_id)
    assert rows(announced) == before
    assert Folder(announced / "checkpoints").ready() is None


def test_a_reader_that_lives_on_sees_it_after_a_look(announced):
    with ReadModel(announced / "tables") as model:
        model.refresh()
        before = compared_tables(model)
        start(announced)
        assert compared_tables(model) == before
        assert model.refresh()
        assert compared_tables(model) == rows(announced) != before
        maintain(announced / "tables", "queue_state", Limits())
        model.refresh()
        assert compared_tables(model) == rows(announced)


def test_undone_what_was_is_there_again(announced):
    before, kept = rows(announced), progress(announced)
    state = announced / "checkpoints" / OPERATOR / "commits" / "0"
    start(announced)
    state.write_text("the job has gone on")
    with claimed(announced / "checkpoints", announced / "tables", BASIS):
        undo(announced / "checkpoints", announced / "tables")
    assert (rows(announced), progress(announced)) == (before, kept)
    assert state.read_text() == "v1\n{}"
    start(announced)
    with (
        claimed(announced / "checkpoints", announced / "tables", BASIS),
        pytest.raises(UserError, match="nothing to undo"),
    ):
        undo(announced / "checkpoints", announced / "tables")


def test_an_undo_writes_only_what_the_contract_says(announced):
    """`queue_progress` keeps its rows, though the job will read the log again from the rebuild on: they stay once."""
    tables, checkpoints = announced / "tables", announced / "checkpoints"
    start(announced)
    version = DeltaTable(tables / "queue_progress").version()
    kept = progress(announced)
    with claimed(checkpoints, tables, BASIS):
        undo(checkpoints, tables)
    assert DeltaTable(tables / "queue_progress").version() == version
    assert [one for table in TABLES for one in violations(tables / table)] == []

    manifest = read_manifest(checkpoints)
    sink = TableSink(tables, OPERATOR, manifest.generation, manifest.swapped, manifest.repeated_until)
    again = DeltaTable(tables / "queue_progress").to_pyarrow_table().cast(arrow_schema("queue_progress"))
    sink.append_arrow(again, "queue_progress", batch_id=1)
    assert progress(announced) == kept
    lacking = again.slice(0, 1).set_column(0, "cluster", pa.array(["another"]))
    sink.append_arrow(pa.concat_tables([again, lacking.cast(again.schema)]), "queue_progress", batch_id=2)
    assert progress(announced) == kept + 1


def test_undone_no_row_is_back_that_was_dropped_by_age(announced):
    tables, checkpoints = announced / "tables", announced / "checkpoints"
    limit = cut() - 60_000
    with ReadModel(tables) as model:
        before = {table: len(model.rows(f"SELECT * FROM {table} t")) for table in REBUILT}
    start(announced)
    for table in REBUILT:
        maintain(tables, table, Limits(rows_since=limit))
    with claimed(checkpoints, tables, BASIS):
        undo(checkpoints, tables)
    with ReadModel(tables) as model:
        after = {table: len(model.rows(f"SELECT * FROM {table} t")) for table in REBUILT}
    assert all(0 < after[table] < before[table] for table in ("assignment_history", "group_state", "queue_state"))
    assert [maintain(tables, table, Limits(rows_since=limit)).rows_dropped for table in REBUILT] == [0] * len(REBUILT)


def test_a_rebuild_makes_the_state_of_an_older_release_one_of_this(root):
    """And undone it is again one of the older release, which may continue; Spark's form of it is not taken over."""
    emptied = root / "checkpoints" / OPERATOR / "emptied"

    def empty_state(copy: Path) -> None:
        (copy / emptied.name).touch()

    older = msgspec.structs.replace(BASIS, code_version="0.0.9", state_version=STATE_VERSION - 1)
    manifest = root / "checkpoints" / "generation.json"
    manifest.write_bytes(msgspec.json.encode(msgspec.structs.replace(read_manifest(manifest.parent), basis=older)))
    with pytest.raises(UserError, match=r"by the older release 0.0.9 .* with `rebalance-watch rebuild`"):
        start(root)
    rebuild(root, older, empty_state)
    assert emptied.exists()
    found = read_manifest(manifest.parent).basis
    assert (found.state_version, found.code_version) == (STATE_VERSION, version("rebalance-watch"))
    start(root)
    with claimed(root / "checkpoints", root / "tables", BASIS):
        undo(root / "checkpoints", root / "tables")
    assert read_manifest(manifest.parent).basis == older
    assert not emptied.exists()
    start(root, older)


def test_a_second_rebuild_changes_nothing(announced):
    start(announced)
    first = rows(announced)
    rebuild(announced)
    assert rows(announced) == first


def test_rows_of_before_the_archive_are_kept_and_what_was_open_then_ends(root):
    first = min(event.time for event in events(MINUTES))
    with ReadModel(root / "tables") as model:
        one = model.rows("SELECT * FROM anomalies ORDER BY time LIMIT 1")[0]
    older = msgspec.convert(one, IncidentTransition)
    older = msgspec.structs.replace(older, incident_id="older", transition="OPENED", time=first - 1, seq=0)
    append(root / "tables", [older])
    rebuild(root)
    with ReadModel(root / "tables") as model:
        transitions = model.rows("SELECT transition, time FROM anomalies WHERE incident_id = 'older' ORDER BY time")
    assert [(row["transition"], row["time"]) for row in transitions] == [("OPENED", first - 1), ("RESOLVED", first)]


@pytest.fixture(scope="module")
def old(built) -> Counter[str]:
    """The rows before a swap."""
    return rows(built)


@pytest.fixture(scope="module")
def new(built, tmp_path_factory) -> Counter[str]:
    """The rows after it."""
    root = tmp_path_factory.mktemp("new") / "root"
    shutil.copytree(built, root)
    start(root)
    return rows(root)


class CrashError(BaseException):
    pass


def test_a_crash_at_any_step_leaves_the_old_or_the_new(built, old, new, monkeypatch, tmp_path):
    """Each link, each commit and each replaced file is a step; the next start finds one or the other, whole."""
    crashed, step, seeds, root = True, 0, Counter(), tmp_path / "root"
    while crashed:
        step = step + 1 if step < 3 else step * 2
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(built, root)
        left = [step]

        def counted(original, left=left):
            def call(*arguments, **named):
                left[0] -= 1
                if left[0] == 0:
                    raise CrashError
                return original(*arguments, **named)

            return call

        with monkeypatch.context() as patch:
            patch.setattr(os, "link", counted(os.link))
            patch.setattr(Path, "replace", counted(Path.replace))
            patch.setattr(DeltaTable, "create_write_transaction", counted(DeltaTable.create_write_transaction))
            try:
                start(root)
                crashed = False
            except CrashError:
                pass
        Folder(root / "checkpoints").withdraw()  # or the next start would swap it in after all
        with claimed(root / "checkpoints", root / "tables", BASIS):
            pass
        manifest = read_manifest(root / "checkpoints")
        assert rows(root) == (new if manifest.seed else old)
        seeds[manifest.seed] += 1
    assert len(seeds) == 2, "no crash before the decision, or none after it"


STARTS = """
import os, sys
from tests.pipeline.rebuild.test_swap import Path, start
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        start(Path(line.strip()))
        os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("ended", flush=True)
"""
"""Imports once, for 4 s, what each process needs that is to be killed."""


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.prove)])
def test_kill_9_at_any_moment_leaves_the_old_or_the_new(announced, old, new, built, kills):
    """As above, but the process is gone: nothing of it can tidy up."""
    root, rng = announced, random.Random(1)
    began = time.monotonic()
    start(root)
    lasts = time.monotonic() - began
    with subprocess.Popen([sys.executable, "-c", STARTS], stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as starter:
        assert starter.stdout.readline() == "ready\n"
        for _ in range(kills):
            shutil.rmtree(root)
            shutil.copytree(built, root)
            print(root, file=starter.stdin)
            pid = int(starter.stdout.readline())
            time.sleep(rng.uniform(0, lasts))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            assert starter.stdout.readline() == "ended\n"
            Folder(root / "checkpoints").withdraw()
            with claimed(root / "checkpoints", root / "tables", BASIS):
                pass
            assert rows(root) == (new if read_manifest(root / "checkpoints").seed else old)
        starter.stdin.close()
