"""A file of the checkpoints is lost or torn: the job goes on to the same rows, or says what to do, and that helps.

Real checkpoints of the real job, copied for each case: after its last batch, within a batch that has some of its rows
in the tables, and within one that has none. What a start finds torn without Spark is also in `checkpoints.test_torn`.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from checkpoints import lease
from checkpoints.manifest import ARCHIVE, OPERATOR
from checkpoints.spark_files import checksum_of
from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.errors import UserError
from streaming.base.settings import Settings
from streaming.cli.main import app
from streaming.log.files import FilePublisher
from streaming.log.rows import publish
from streaming.pipeline import job
from streaming.tables import ReadModel
from tests.pipeline.rebuild.late import compared, compared_tables
from tests.support.plain import as_json, derived_rows, effects, rows_of
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PARTITIONS = 2
POLICY = Policy()
MAINTENANCE = "spark.sql.streaming.stateStore.maintenanceInterval"

GOES_ON = "goes on"
REBUILD = "with `rebalance-watch rebuild`, then start again"
RESTORE = "restore checkpoints and tables from one backup, or start under a new runtime.root"


class Roots(NamedTuple):
    """Runtime roots over one log, of which each has read the same part."""

    log: Path
    finished: Path
    """After its last batch."""
    begun: Path
    """Within a batch whose first rows are in the tables."""
    planned: Path
    """Within a batch without a row."""


class Case(NamedTuple):
    """A file that is damaged, and what follows; ``{last}`` is the number of the last recorded batch."""

    root: str
    file: str
    """Below the checkpoints; of several, the last."""
    ends: str
    but: Mapping[str, str] = MappingProxyType({})
    """What follows from single kinds of damage."""


def removed(file: Path) -> None:
    shutil.rmtree(file) if file.is_dir() else file.unlink()


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def halved(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def zeroed(file: Path) -> None:
    """Return what ext4 and xfs leave of a file whose length they have recorded, but not its content."""
    file.write_bytes(bytes(file.stat().st_size))


DAMAGE: dict[str, Callable[[Path], None]] = {one.__name__: one for one in (removed, emptied, halved, zeroed)}


def settings_of(settings_in: Callable[..., Settings], root: Path, log: Path, files: int = 1_000) -> Settings:
    return settings_in(root, path=str(log), partitions=PARTITIONS, files_per_batch=files)


def finished_root(spark, settings_in, folder: Path, groups: int, rounds: int, file_bytes: int) -> Roots:
    """Run over all but the last rounds of a log; then append those."""
    log, finished = folder / "log", folder / "finished"
    events = list(telemetry(groups, rounds))
    until = len(events) * 9 // 10
    append(log, events[:until], file_bytes)
    before = spark.conf.get(MAINTENANCE)
    spark.conf.set(MAINTENANCE, "1s")  # of the snapshots; the default is a minute
    try:
        job.run_available_now(settings_of(settings_in, finished, log, 2), POLICY)
    finally:
        spark.conf.set(MAINTENANCE, before)
    append(log, events[until:], file_bytes)
    return Roots(log, finished, folder / "begun", folder / "planned")


def append(log: Path, events: list, file_bytes: int) -> None:
    with FilePublisher(log, PARTITIONS, file_bytes_max=file_bytes, roll_seconds=1e9) as publisher:
        publish(publisher, events)


def stop_within_batch(settings: Settings, appends: int) -> None:
    """Start the job; its operator fails when it has appended to some tables."""
    write = job.write_effects

    class Sink:
        def __init__(self, sink) -> None:
            self.sink, self.turns, self.times = sink, count(), sink.times

        def append_arrow(self, *given, **named) -> None:
            if next(self.turns) >= appends:
                raise ZeroDivisionError
            self.sink.append_arrow(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "write_effects", lambda batch, sink, number: write(batch, Sink(sink), number))
        with pytest.raises(UserError, match="ZeroDivisionError"):
            job.run_available_now(settings, POLICY)


def copy(source: Path, target: Path) -> None:
    """Copy a root; Spark names the schema of the state by its absolute path."""
    shutil.copytree(source, target, symlinks=True)
    for file in target.glob(f"checkpoints/{OPERATOR}/state/0/_metadata/v2/[0-9]*"):
        file.write_text(file.read_text().replace(f"file:{source}/", f"file:{target}/"))
        checksum_of(file).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def few_batches(spark, settings_in, tmp_path_factory) -> Roots:
    """Of these only the finished root is made."""
    return finished_root(spark, settings_in, tmp_path_factory.mktemp("few"), groups=3, rounds=40, file_bytes=400_000)


@pytest.fixture(scope="module")
def many_batches(spark, settings_in, tmp_path_factory) -> Roots:
    """So many that there are snapshots of the state and compact lists of files."""
    roots = finished_root(spark, settings_in, tmp_path_factory.mktemp("many"), groups=6, rounds=80, file_bytes=60_000)
    for root, appends in ((roots.begun, 2), (roots.planned, 0)):  # copies, stopped within the next batch
        copy(roots.finished, root)
        stop_within_batch(settings_of(settings_in, root, roots.log), appends)
    return roots


@pytest.fixture(autouse=True)
def _no_machine_starts_meanwhile(monkeypatch) -> None:
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 0.1)  # of a lease that is torn


def check_equal(settings: Settings, log: Path, *, is_rebuilt: bool = False) -> None:
    """Check that each row of the log is archived once, and that the derived rows are those of the core in a loop."""
    archived = [row for name in ("telemetry", "telemetry_rejected") for row in read_rows(settings.runtime.tables, name)]
    places = Counter((row["partition"], row["offset"]) for row in archived)
    rows = {number: rows_of(log, number) for number in range(PARTITIONS)}
    assert places == Counter((number, row.offset) for number in rows for row in rows[number])
    tables = {name: sorted(map(as_json, read_rows(settings.runtime.tables, name))) for name in DERIVED}
    expected = derived_rows(log, PARTITIONS, POLICY)
    assert set(expected) == set(DERIVED), "a log that leads to nothing proves nothing"
    if not is_rebuilt:
        assert tables == expected
        return
    assert tables["queue_progress"] == expected["queue_progress"]
    with ReadModel(settings.runtime.tables) as model:
        assert compared_tables(model) == compared(
            row for number in rows for row in effects(rows[number], POLICY, number)
        )


def file_of(pattern: str, checkpoints: Path) -> Path:
    """Return the last file of a pattern, in which the numbers of batches have names."""
    last, newest = (
        max((number(file.name), file.name) for file in (checkpoints / OPERATOR / name).glob("[0-9]*"))
        for name in ("commits", "sources/0")
    )
    numbers = {"last": last[0], "next": last[0] + 1, "version": last[0] + 1, "second": 2, "newest": newest[1]}
    named = pattern.format(**numbers)
    found = list(checkpoints.glob(named))
    assert found, named
    return max(found, key=lambda file: (number(file.name), file.name))


def number(name: str) -> int:
    """Return the number with which a name begins; -1 if it begins with none."""
    begin = name.partition(".")[0]
    return int(begin) if begin.isdecimal() else -1


def check(case: Case, how: str, roots: Roots, settings_in, folder: Path, monkeypatch) -> None:
    """Damage a copy of the root, start the job, do what it says, and compare."""
    root = folder / "root"
    copy(getattr(roots, case.root), root)
    DAMAGE[how](file_of(case.file, root / "checkpoints"))
    settings, ends = settings_of(settings_in, root, roots.log), case.but.get(how, case.ends)
    if ends == GOES_ON:
        job.run_available_now(settings, POLICY)
        check_equal(settings, roots.log)
        return
    with pytest.raises(UserError) as refused:
        job.run_available_now(settings, POLICY)
    assert ends in str(refused.value)
    assert "\n" not in str(refused.value)
    if ends != REBUILD:
        return
    for name, value in {"KIND": "files", "PATH": roots.log, "PARTITIONS": PARTITIONS, "FILES_PER_BATCH": 1000}.items():
        monkeypatch.setenv(f"REBALANCE_WATCH_SOURCE__{name}", str(value))
    rebuilt = CliRunner().invoke(app, ["--root", str(root), "rebuild"])
    assert rebuilt.exit_code == 0, rebuilt.output
    job.run_available_now(settings, POLICY)
    check_equal(settings, roots.log, is_rebuilt=True)


PLAN, RECORD, STATE = f"{OPERATOR}/offsets", f"{OPERATOR}/commits", f"{OPERATOR}/state/0"
LISTS, SCHEMA = f"{OPERATOR}/sources/0", f"{STATE}/_stateSchema/default/0_*"

SHORT = [
    (Case("finished", f"{RECORD}/{{last}}", GOES_ON), "emptied"),
    (Case("finished", f"{STATE}/0/*.changelog", REBUILD), "halved"),
]


UNKNOWN, UNREADABLE, RESET = "so the position is unknown", "can't be read", "was reset to an earlier one"
LONG = [
    Case("finished", f"{PLAN}/{{last}}", RESTORE),
    Case("begun", f"{PLAN}/{{next}}", RESTORE, {"removed": RESET}),
    Case("begun", f"{PLAN}/{{last}}", RESTORE),
    Case("planned", f"{PLAN}/{{next}}", GOES_ON),
    Case("finished", f"{PLAN}/{{second}}", GOES_ON),
    Case("finished", f"{RECORD}/{{last}}", GOES_ON),
    Case("begun", f"{RECORD}/{{last}}", GOES_ON),
    Case("finished", f"{RECORD}/{{second}}", GOES_ON),
    Case("finished", f"{OPERATOR}/metadata", GOES_ON),
    Case("finished", f"{LISTS}/{{newest}}", RESTORE),
    Case("begun", f"{LISTS}/{{newest}}", RESTORE),
    Case("planned", f"{LISTS}/{{newest}}", GOES_ON),
    Case("finished", f"{LISTS}/{{second}}", GOES_ON),
    Case("finished", f"{STATE}/0/{{version}}.changelog", REBUILD),
    Case("finished", f"{STATE}/1/{{last}}.changelog", REBUILD),
    Case("begun", f"{STATE}/0/{{version}}.changelog", REBUILD),
    Case("finished", f"{STATE}/0/*.zip", GOES_ON),
    Case("finished", f"{STATE}/0/SSTs/*.sst", GOES_ON),
    Case("finished", SCHEMA, REBUILD),
    Case("finished", f"{STATE}/_metadata/v2/0", REBUILD),
    Case("finished", f"{PLAN}/.{{last}}.crc", GOES_ON),
    Case("finished", f"{STATE}/0/.{{version}}.changelog.crc", GOES_ON),
    Case("finished", f"{ARCHIVE}/offsets/{{last}}", RESTORE),
    Case("finished", f"{ARCHIVE}/commits/{{last}}", GOES_ON),
    Case("finished", f"{ARCHIVE}/metadata", GOES_ON),
    Case("finished", f"{ARCHIVE}/sources/0/{{newest}}", RESTORE),
    Case("finished", "generation.json", UNREADABLE, {"removed": UNKNOWN}),
    Case("finished", "policy.toml", GOES_ON),
    Case("finished", "lease/*.json", GOES_ON),
]
TABLE = Case(
    "finished", "../tables/queue_progress/_delta_log/*.json", "of the table queue_progress",
    {"removed": "The table queue_progress ends with commit"},
)  # fmt: skip
FOLDERS = [
    Case("finished", OPERATOR, RESET),
    Case("finished", ARCHIVE, RESET),
    Case("finished", PLAN, RESTORE),
    Case("finished", STATE, REBUILD),
    Case("finished", f"{STATE}/1", REBUILD),
]


@pytest.mark.parametrize(("case", "how"), SHORT, ids=[f"{case.file} {how}" for case, how in SHORT])
def test_a_torn_file_is_mended_or_named(few_batches, settings_in, tmp_path, monkeypatch, case, how):
    check(case, how, few_batches, settings_in, tmp_path, monkeypatch)


@pytest.mark.prove
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("case", LONG, ids=lambda case: f"{case.root} {case.file}")
def test_every_kind_of_file_torn_is_mended_or_named(many_batches, settings_in, tmp_path, monkeypatch, case, how):
    check(case, how, many_batches, settings_in, tmp_path, monkeypatch)


@pytest.mark.prove
@pytest.mark.parametrize("how", DAMAGE)
def test_a_torn_or_lost_commit_of_a_table_is_named(many_batches, settings_in, tmp_path, monkeypatch, how):
    check(TABLE, how, many_batches, settings_in, tmp_path, monkeypatch)


@pytest.mark.prove
@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.file)
def test_a_folder_that_is_lost_is_made_again_or_named(many_batches, settings_in, tmp_path, monkeypatch, case):
    check(case, "removed", many_batches, settings_in, tmp_path, monkeypatch)


@pytest.mark.prove
def test_a_new_root_as_a_refused_start_says_has_every_row(many_batches, settings_in, tmp_path):
    settings = settings_of(settings_in, tmp_path, many_batches.log)
    job.run_available_now(settings, POLICY)
    check_equal(settings, many_batches.log)
