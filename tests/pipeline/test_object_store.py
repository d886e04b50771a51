"""Tables in an object store, from the job to a question: kills lose and double nothing, every command works on them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from os import environ
from pathlib import Path
from typing import NamedTuple

import pytest

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.place import Place, tables_of
from streaming.base.settings import load_settings
from streaming.tables.delta import delta_at
from tests.live.commands import Command
from tests.support.capture import check_archived, job_settings, write_capture
from tests.support.object_store import SECRET_KEY, ObjectStore
from tests.support.plain import as_json, derived_rows
from tests.support.tables import rows_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]

PARTITIONS = 2
SECONDS = 400


class Chain(NamedTuple):
    """A root whose tables are in the store, after the job was killed and has then processed the whole log."""

    root: Path
    settings: dict[str, object]
    """For `Command`."""
    tables: Place
    said: str
    """By the job."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the demo's capture as its log."""
    root = tmp_path_factory.mktemp("root")
    write_capture(root / "log", PARTITIONS)
    return root


@pytest.fixture(scope="module")
def chain(store: ObjectStore, root: Path) -> Chain:
    given = settings_of(root, store)
    with Command(root, given, "run", "--available-now") as job:
        job.start().wait_for("operator batch 1:", SECONDS)
        job.kill()
        assert job.start().ended(SECONDS) == 0, job.said()
    settings = load_settings(runtime={"root": root}, storage=store.settings())
    return Chain(root, given, tables_of(settings), job.said())


def settings_of(root: Path, store: ObjectStore, **storage: object) -> dict[str, object]:
    return job_settings(root, PARTITIONS) | store.environment(**storage)


def ran(settings: dict[str, object], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of our commands to its end."""
    given = environ | {f"REBALANCE_WATCH_{name}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "streaming.cli.main", *arguments]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=SECONDS)


def answer(settings: dict[str, object], *arguments: str) -> object:
    done = ran(settings, *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows_of(tables: Place, table: str) -> list[dict[str, object]]:
    return rows_in(delta_at(tables / table))


def check_rows(chain: Chain) -> None:
    expected = derived_rows(chain.root / "log", PARTITIONS, Policy())
    assert {table: sorted(map(as_json, rows_of(chain.tables, table))) for table in DERIVED} == expected


def test_kills_of_the_job_lose_and_double_no_row(chain):
    check_rows(chain)
    check_archived(rows_of(chain.tables, "telemetry"), PARTITIONS)
    assert "Traceback" not in chain.said
    assert not (chain.root / "tables").exists()


def test_answers_are_the_same_before_and_after_maintenance(chain):
    questions = ("group", "list"), ("incident", "list", "--all"), ("sql", "SELECT count(*) AS rows FROM telemetry")
    before = [answer(chain.settings, *question) for question in questions]
    assert str(len(rows_of(chain.tables, "telemetry"))) in json.dumps(before[2])
    assert {one["group"] for one in before[0]} >= {"orders-group", "audit-group"}

    files = len(delta_at(chain.tables / "assignment_history").file_uris())

    done = ran(chain.settings, "maintain")
    assert done.returncode == 0, done.stderr

    assert [answer(chain.settings, *question) for question in questions] == before
    assert len(delta_at(chain.tables / "assignment_history").file_uris()) < files
    check_rows(chain)


def test_a_rebuild_is_swapped_in_and_undone(chain):
    before = {table: sorted(map(as_json, rows_of(chain.tables, table))) for table in DERIVED}
    done = ran(chain.settings, "rebuild")
    assert done.returncode == 0, done.stderr
    assert answer(chain.settings, "incident", "list", "--all")
    done = ran(chain.settings, "rebuild", "--undo")
    assert done.returncode == 0, done.stderr
    assert {table: sorted(map(as_json, rows_of(chain.tables, table))) for table in DERIVED} == before


def test_the_secret_key_is_in_no_output_and_no_file(chain):
    texts = [file for file in chain.root.rglob("*") if file.is_file() and file.suffix not in {".parquet", ".jar"}]
    assert any(file.name == "spark.log" for file in texts)
    assert not [file for file in texts if SECRET_KEY.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ({"secret_key": "another"}, "refuses access to s3://bucket/tables/"),
        ({"tables": "s3://nowhere/tables"}, "There is no bucket nowhere at"),
        ({"endpoint": "http://127.0.0.1:1"}, "No object store answers at http://127.0.0.1:1"),
        ({"secret_key": ""}, "Set both storage.access_key and storage.secret_key"),
        ({"tables": "s3://forgetful/tables"}, "lets two writers create the same object"),
    ],
)
def test_a_wrong_setting_is_one_sentence(store, root, tmp_path, storage, says):
    asks = [("group", "list")] if "forgetful" not in str(storage) else []
    for arguments in (*asks, ("run", "--available-now")):
        given = settings_of(tmp_path, store, **storage) | {"SOURCE__PATH": root / "log"}
        done = ran(given, *arguments)
        said = " ".join(done.stderr.split())
        assert done.returncode in (1, 2), said
        assert says in said
        assert said.startswith("error: ")
        assert SECRET_KEY not in said
        assert "Traceback" not in said
