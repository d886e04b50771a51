"""Roots that former releases have made: this one continues them, or says in one sentence what to run.

`0.1.0.tar.xz` and so on are what each release left of the first half of some telemetry (`tests.upgrade.make`). This
release works on them in the process of the test, whose Spark has started already.
"""

import json
import subprocess
import tarfile
import tomllib
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from packaging.version import Version
from typer.testing import CliRunner

from checkpoints.manifest import Manifest, read_manifest, write_manifest
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import STATE_VERSION
from schemas.tables import DERIVED, TABLES
from streaming.base.errors import UserError
from streaming.base.settings import load_policy
from streaming.cli.main import app
from streaming.pipeline import job
from streaming.pipeline.rebuild.rows import REBUILT
from tests.support.plain import as_json, derived_rows
from tests.support.tables import read_rows
from tests.upgrade.make import make
from tests.upgrade.root import HERE, PARTITIONS, append_rest, run, settings_of, unpack

ROOT = HERE.parent.parent
FIXTURES = sorted(HERE.glob("*.tar.xz"), key=lambda file: Version(file.name.removesuffix(".tar.xz")))
NOT_OF_A_REBUILD = ("known_at", "seq")
KEY = ("cluster", "group", "seq", "time", "broker", "kind", "client_id", "source")
"""What a derived row is known by."""


@pytest.fixture(params=FIXTURES, ids=lambda file: file.name)
def root(request, tmp_path):
    return unpack(request.param, tmp_path / "root")


def manifest_of(root: Path) -> Manifest:
    return read_manifest(root / "checkpoints")


def pretend(root: Path, state_version: int, release: str) -> None:
    """Let the state have been made by another release."""
    manifest = manifest_of(root)
    basis = msgspec.structs.replace(manifest.basis, state_version=state_version, code_version=release)
    write_manifest(root / "checkpoints", msgspec.structs.replace(manifest, basis=basis))


def said(root: Path, *arguments: str, code: int = 0) -> str:
    """Return what a command of this release prints."""
    with settings_of(root):
        ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == code, ended.exc_info
    return ended.stdout


def run_job(root: Path) -> None:
    with settings_of(root) as settings:
        job.run_available_now(settings, load_policy())


def refusal(command: Callable[[], object]) -> str:
    """The one sentence with which a command ends."""
    with pytest.raises(UserError) as caught:
        command()
    return str(caught.value)


def ok(ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def table_rows(root: Path, tables, without=()) -> dict[str, list[str]]:
    rows = {table: read_rows(root / "tables", table) for table in tables}
    return {table: sorted(as_json(_less(row, without)) for row in of_one) for table, of_one in rows.items()}


def folded(root: Path, tables, without=()) -> dict[str, list[str]]:
    """The rows of a run over the whole log that nothing has interrupted."""
    found = derived_rows(root / "log", PARTITIONS, Policy())
    return {table: sorted(as_json(_less(json.loads(row), without)) for row in found[table]) for table in tables}


def _less(row, without):
    return {name: value for name, value in row.items() if name not in without}


def test_questions_are_answered_from_the_tables_of_a_former_release(root):
    groups = json.loads(said(root, "group", "list", "--format", "json"))
    assert {row["group"] for row in groups} == {row["group"] for row in read_rows(root / "tables", "group_state")}
    opened = {row["incident_id"] for row in read_rows(root / "tables", "anomalies")}
    assert {
        row["incident_id"]
        for row in json.loads(said(root, "incident", "list", "--all", "--unfold", "--format", "json"))
    } == opened
    assert opened
    for group in groups[:2]:
        said(root, "group", "show", group["group"])


def keys(rows) -> set[tuple[object, ...]]:
    return {tuple(row.get(name) for name in KEY) for row in rows}


def added(rows_by_table: dict[str, list[str]], before: dict[str, set[tuple[object, ...]]]) -> dict[str, list[str]]:
    """The rows that were not there before: those of the former release have its words."""
    return {
        table: [row for row in rows if not keys([json.loads(row)]) & before[table]]
        for table, rows in rows_by_table.items()
    }


def unnumbered(rows_by_table: dict[str, list[str]]) -> dict[str, list[str]]:
    """The rows without their numbers within the group: one row more shifts those of all that follow."""
    return {table: [as_json(_less(json.loads(row), ["seq"])) for row in rows] for table, rows in rows_by_table.items()}


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_job_continues_where_a_former_release_stopped(spark, root):
    """Even if a release after it has added columns meanwhile: that is going back by one."""
    del spark  # the job takes the session that is there
    if manifest_of(root).basis.state_version != STATE_VERSION:
        pytest.skip("its state has another version: see the test of `rebuild`")
    for table in TABLES:
        DeltaTable(root / "tables" / table).alter.add_columns([Field("of_a_newer_release", PrimitiveType("string"))])
    before = {table: keys(read_rows(root / "tables", table)) for table in DERIVED}
    append_rest(root)
    run_job(root)
    assert len(read_rows(root / "tables", "assignment_history")) > len(before["assignment_history"])
    if manifest_of(root).basis.code_version == version("rebalance-watch"):
        rows_by_table = unnumbered(added(table_rows(root, DERIVED, without=["of_a_newer_release"]), before))
        expected = unnumbered(added(folded(root, DERIVED), before))
        more = {table: Counter(rows_by_table[table]) - Counter(expected[table]) for table in DERIVED}
        assert not any(Counter(expected[table]) - Counter(rows_by_table[table]) for table in DERIVED)
        of_groups = [json.loads(row)["group"] for row in more.pop("group_state").elements()]
        assert len(of_groups) == len(set(of_groups))  # the coverage of a rule that the former release did not have
        assert not any(more.values())


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_state_of_an_older_version_is_made_again_by_rebuild(spark, root):
    del spark
    pretend(root, STATE_VERSION - 1, "0.0.1")
    sentence = "made by the older release 0.0.1"
    assert sentence in refusal(lambda: run_job(root))
    checks = json.loads(said(root, "doctor", "--format", "json", code=3))
    assert sentence in next(check["mend"] for check in checks if check["part"] == "checkpoints")
    said(root, "rebuild")
    append_rest(root)
    run_job(root)
    assert table_rows(root, REBUILT, NOT_OF_A_REBUILD) == folded(root, REBUILT, NOT_OF_A_REBUILD)


def test_state_of_a_newer_version_is_left_to_its_release(root):
    pretend(root, STATE_VERSION + 1, "99.0")
    before = manifest_of(root)
    with settings_of(root):
        assert "was made by the newer release 99.0" in refusal(lambda: run_job(root))
        assert "was made by the newer release 99.0" in str(CliRunner().invoke(app, ["rebuild"]).exception)
    assert manifest_of(root) == before


@pytest.fixture
def former(tmp_path):
    """The code of the newest release before this one, from its tag, which is found first on the path of its Python."""
    git = ["git", "-C", ROOT]
    tags = subprocess.run([*git, "tag", "--list", "v*"], capture_output=True, text=True, check=True).stdout.split()
    if not (older := [tag for tag in tags if Version(tag) < Version(version("rebalance-watch"))]):
        pytest.skip("the repository has no tag of a release before this one (a shallow clone has none)")
    code = tmp_path / "former"
    archive = subprocess.run([*git, "archive", max(older, key=Version)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as opened:
        opened.extractall(code, filter="data")
    release = tomllib.loads((code / "pyproject.toml").read_text())["project"]["version"]
    metadata = code / f"rebalance_watch-{release}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: rebalance-watch\nVersion: {release}\n")
    return code


@pytest.mark.spark
@pytest.mark.prove
def test_a_release_follows_the_one_before_it_and_can_be_left_again(former, tmp_path):
    """The former one makes the root and continues it at last; in between this one does, after a `rebuild` if needed."""
    root = tmp_path / "root"
    make(root, code=former)
    made_by = manifest_of(root).basis
    needs_rebuild = made_by.state_version != STATE_VERSION
    if needs_rebuild:
        assert "`rebalance-watch rebuild`" in refusal(lambda: run_job(root))
        ok(run(root, "rebuild"))
    ok(run(root, "run", "--available-now"))
    assert manifest_of(root).basis.code_version == version("rebalance-watch")
    ok(run(root, "group", "list"))
    if needs_rebuild:
        ok(run(root, "rebuild", "--undo"))
    append_rest(root)
    ok(run(root, "run", "--available-now", code=former))
    assert manifest_of(root).basis.code_version == made_by.code_version
    ok(run(root, "group", "list", code=former))
    assert ok(run(root, "group", "list"))
