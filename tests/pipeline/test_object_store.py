"""Tables in an object store, from the job to whoever reads them: every command works on them there.

One job fills the tables that the tests read; it is killed, too, and its tables are rebuilt. All of that is a long form;
the short one is `tests/tables/test_object_store.py`, without Spark.
"""

import json
import subprocess
import sys
from os import environ
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import expect

from rebalance_model.observe.effects import IncidentTransition
from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.place import Place, tables_of
from streaming.base.settings import load_settings
from streaming.tables.delta import delta_at
from tests.live.alert_receivers import Webhook
from tests.live.commands import Command
from tests.support.alerting import required_messages
from tests.support.capture import check_archived, job_settings, write_capture
from tests.support.chromium import chromium
from tests.support.object_store import SECRET_KEY, ObjectStore
from tests.support.plain import as_json, derived_rows
from tests.support.served import served
from tests.support.tables import rows_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]

PARTITIONS = 2
SECONDS = 400
ALERTS = """
poll = "1s"
group_wait = "0s"
dead_man = {{job = "0s", sources = "0s", forget = "1h"}}
limit = {{messages = 10000, span = "1s", alerts = 1000}}
routes = [{{channels = ["ours"]}}]

[channels.ours]
kind = "webhook"
url = "{url}/ours"
"""


class Chain(NamedTuple):
    """A root whose tables are in the store, after the job has processed the whole log."""

    root: Path
    settings: dict[str, object]
    """For `Command`."""
    tables: Place
    said: str
    """By the job."""
    alerts: set[tuple[str, str]]
    """Incident and kind of each alert that a webhook has received."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's capture."""
    folder = tmp_path_factory.mktemp("log")
    write_capture(folder, PARTITIONS)
    return folder


@pytest.fixture(scope="module")
def rows(log: Path) -> dict[str, list[str]]:
    """The derived rows that the job must write, as sorted JSON."""
    return derived_rows(log, PARTITIONS, Policy())


@pytest.fixture(scope="module")
def chain(object_store: ObjectStore, log: Path, rows: dict[str, list[str]], tmp_path_factory) -> Chain:
    """The job, and beside it from the start the alerts."""
    root = tmp_path_factory.mktemp("root")
    given = settings_of(root, log, object_store)
    given["TABLES__PROGRESS_DAYS"] = 10_000  # `maintain` would drop the capture's, three days after its recording
    with Webhook() as webhook:
        (root / "alerts.toml").write_text(ALERTS.format(url=webhook.url))
        given["ALERTS__FILE"] = root / "alerts.toml"
        with Command(root, given, "alert", "run") as alerts, Command(root, given, "run", "--available-now") as job:
            alerts.start().wait_for("waiting for the tables", SECONDS)
            assert job.start().ended(SECONDS) == 0, job.said()
            webhook.wait_for(len(alerts_of(rows)), SECONDS)
            assert alerts.interrupt() == 0, alerts.said()
            assert "Traceback" not in alerts.said()
        return Chain(root, given, place_of(object_store), job.said(), webhook.messages())


def settings_of(root: Path, log: Path, store: ObjectStore, **storage: object) -> dict[str, object]:
    return job_settings(root, PARTITIONS) | {"SOURCE__PATH": log} | store.environment(**storage)


def place_of(store: ObjectStore, **storage: object) -> Place:
    return tables_of(load_settings(storage=store.settings(**storage)))


def alerts_of(rows: dict[str, list[str]]) -> set[tuple[str, str]]:
    """Return incident and kind of every required alert."""
    transitions = [SimpleNamespace(**json.loads(row)) for row in rows["anomalies"]]
    for one in transitions:
        one.is_absorbed = IncidentTransition.is_absorbed.fget(one)
    return required_messages(transitions)


def ran(settings: dict[str, object], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of our commands to its end."""
    given = environ | {f"REBALANCE_WATCH_{name}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "streaming.cli", *arguments]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=SECONDS)


def answer(settings: dict[str, object], *arguments: str) -> object:
    done = ran(settings, *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def derived_in(tables: Place) -> dict[str, list[str]]:
    return {table: sorted(map(as_json, rows_in(delta_at(tables / table)))) for table in DERIVED}


@pytest.mark.prove
def test_the_job_writes_each_row_once(chain, rows):
    assert derived_in(chain.tables) == rows
    check_archived(rows_in(delta_at(chain.tables / "telemetry")), PARTITIONS)
    assert "Traceback" not in chain.said
    assert not (chain.root / "tables").exists()


@pytest.mark.prove
def test_each_incident_is_an_alert(chain, rows):
    assert chain.alerts == alerts_of(rows)


@pytest.mark.prove
def test_pages_and_rest_show_the_groups(chain):
    groups = {(json.loads(row)["group"], json.loads(row)["cluster"]) for row in derived_in(chain.tables)["group_state"]}
    names = sorted(group for group, _ in groups)
    store = {name: str(value) for name, value in chain.settings.items() if name.startswith("STORAGE__")}
    with served("dashboard", chain.root, **store) as address, chromium() as browser:
        listed = httpx.get(f"{address}/api/v1/groups", timeout=SECONDS).raise_for_status().json()
        assert sorted(group["group"] for group in listed) == names
        queues = httpx.get(f"{address}/api/v1/groups/{names[0]}/queues", timeout=SECONDS).raise_for_status().json()
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(address)
        home = page.get_by_role("region", name="Groups by health")
        expect(home.get_by_role("rowheader").get_by_role("link")).to_have_count(len(names), timeout=SECONDS * 1000)
        home.get_by_role("link", name=names[0], exact=True).click()
        shown = page.get_by_role("region", name="Queues").get_by_role("row")
        expect(shown.filter(has_text=queues[0]["topic"]).first).to_be_visible(timeout=SECONDS * 1000)
    assert "Traceback" not in (chain.root / "dashboard.log").read_text()


@pytest.mark.prove
def test_answers_are_the_same_before_and_after_maintenance(chain, rows):
    questions = ("incident", "list", "--all"), ("sql", "SELECT count(*) AS rows FROM telemetry")
    before = [answer(chain.settings, *question) for question in questions]
    files = len(delta_at(chain.tables / "assignment_history").file_uris())

    done = ran(chain.settings, "maintain")
    assert done.returncode == 0, done.stderr

    assert [answer(chain.settings, *question) for question in questions] == before
    assert len(delta_at(chain.tables / "assignment_history").file_uris()) < files
    assert derived_in(chain.tables) == rows


@pytest.mark.prove
def test_a_rebuild_is_swapped_in_and_undone(chain, rows):
    done = ran(chain.settings, "rebuild")
    assert done.returncode == 0, done.stderr
    assert answer(chain.settings, "incident", "list", "--all")
    done = ran(chain.settings, "rebuild", "--undo")
    assert done.returncode == 0, done.stderr
    assert derived_in(chain.tables) == rows


@pytest.mark.prove
def test_the_secret_key_is_in_no_output_and_no_file(chain):
    texts = [file for file in chain.root.rglob("*") if file.is_file() and file.suffix not in {".parquet", ".jar"}]
    assert any(file.name == "spark.log" for file in texts)
    assert not [file for file in texts if SECRET_KEY.encode() in file.read_bytes()]


@pytest.mark.prove
def test_kills_of_the_job_lose_and_double_no_row(object_store, log, rows, tmp_path):
    elsewhere = {"tables": f"s3://{object_store.bucket}/killed"}
    with Command(tmp_path, settings_of(tmp_path, log, object_store, **elsewhere), "run", "--available-now") as job:
        job.start().wait_for("operator batch 1:", SECONDS)
        job.kill()
        assert job.start().ended(SECONDS) == 0, job.said()
        assert "Traceback" not in job.said()
    tables = place_of(object_store, **elsewhere)
    assert derived_in(tables) == rows
    check_archived(rows_in(delta_at(tables / "telemetry")), PARTITIONS)


@pytest.mark.parametrize("arguments", [("group", "list"), ("run", "--available-now")])
def test_a_wrong_key_ends_a_command_with_one_sentence(object_store, tmp_path, arguments):
    file = tmp_path / "log" / "partition=0" / "00000000000000000000.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    done = ran(settings_of(tmp_path, tmp_path / "log", object_store, secret_key="another"), *arguments)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1, said
    assert said.startswith("error: ")
    assert "refuses access to s3://bucket/tables/" in said
    assert "Traceback" not in said
    assert "another" not in said
