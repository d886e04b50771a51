"""The recipes of schemas/README.md run as they stand there, and answer as the command line does."""

import csv
import io
import json
import re
import shlex
from collections import Counter
from datetime import datetime

import duckdb
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from rebalance_model.entities import MessageQueue
from schemas.arrow import in_epoch_ms
from streaming.base.settings import load_settings
from streaming.cli import main
from streaming.queries.group_at import find_group
from streaming.queries.ownership import who_owned
from streaming.tables import ReadModel
from streaming.tables.table import register
from tests.docs.source import ROOT
from tests.support.plain import as_json
from tests.support.tables import append_rows, make_tables, small_row

_SECTION = re.compile(r"^## Recipes\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_RECIPE = re.compile(r"^\*\*(\w+)\.\*\*[^\n]*\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


DAY = "2027-01-15"
"""That of the tables to ask."""


def run(name, tables, folder, monkeypatch):
    """Run a recipe where `.rebalance-watch/tables` are these tables; return its names."""
    (folder / ".rebalance-watch").mkdir()
    (folder / ".rebalance-watch/tables").symlink_to(tables)
    jars = load_settings().runtime.jars.absolute()  # else the recipe for Spark would fetch its jars to this folder
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__JARS", str(jars))
    monkeypatch.chdir(folder)
    [section] = _SECTION.findall((ROOT / "schemas/README.md").read_text("utf-8"))
    text = dict(_RECIPE.findall(section))[name].replace("2026-11-21", DAY)
    names = {}
    exec(compile(text, name, "exec"), names)  # text of this repository
    return names


@pytest.fixture
def recipe(asked, tmp_path, monkeypatch):
    """Return a function that runs a recipe over the tables to ask, and returns its names."""
    return lambda name: run(name, asked, tmp_path, monkeypatch)


def cli(root, *arguments):
    """Return what a command answers, as it would print it."""
    command = ["--root", str(root / ".rebalance-watch"), "--tz", "UTC", *arguments, "--format", "json"]
    ended = CliRunner().invoke(main.app, command)
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_pandas_has_the_rebalances_of_the_command_line(recipe, tmp_path):
    largest = recipe("pandas")["largest"]

    assert str(largest["start_time"].dtype).startswith("datetime64")
    moved = [one["queues_moved"] for one in cli(tmp_path, "group", "rebalances", "g")]
    of_group = largest[largest["group"] == "g"]["queues_moved"].to_list()
    assert of_group == sorted(moved, reverse=True)[: len(of_group)] != []


def owned(model):
    """Return each interval of ownership, asked for by the instant at which it begins, as `who-owned` is."""
    for row in model.rows("SELECT * FROM assignment_history WHERE action = 'ASSIGNED'"):
        queue = row["topic"], row["broker"], row["queue_id"]
        if (
            printed := who_owned(
                model, find_group(model, row["group"], row["cluster"], at=row["time"]), MessageQueue(*queue)
            )
        ) is not None:
            yield row["cluster"], row["group"], printed


def test_duckdb_has_the_hours_that_the_command_line_says(recipe, asked_model):
    tables, expected = ("group_state", "queue_progress"), Counter()
    until = max(row["t"] for table in tables for row in asked_model.rows(f"SELECT max(time) t FROM {table}"))
    for cluster, group, one in owned(asked_model):
        expected[cluster, group, one.client_id] += ((one.to_time or until) - one.from_time) / 3_600_000

    hours = recipe("DuckDB")["hours"]

    found = {(row.cluster, row.group, row.client_id): row.hours for row in hours.itertuples()}
    assert found == pytest.approx({key: value for key, value in expected.items() if value}) != {}


def test_duckdb_has_the_owners_of_the_command_line_when_incidents_opened(recipe, asked_model):
    names = recipe("DuckDB")

    owners = names["owners"].to_dict("records")
    for row in owners:
        at = round(row["opened_at"].timestamp() * 1000)
        queue = row["topic"], row["broker"], row["queue_id"]
        printed = who_owned(
            asked_model, find_group(asked_model, row["group"], row["cluster"], at=at), MessageQueue(*queue)
        )
        assert (printed and printed.client_id) == (row["owner"] if isinstance(row["owner"], str) else None), row
    assert any(isinstance(row["owner"], str) for row in owners)
    [(exported,)] = names["connection"].sql("SELECT count(*) FROM 'incidents.parquet'").fetchall()
    assert exported == len(asked_model.rows("SELECT * FROM incidents")) > 0


def test_the_shell_exports_the_rows_that_commands_have(asked, tmp_path, monkeypatch, asked_model):
    (tmp_path / ".rebalance-watch").mkdir()
    (tmp_path / ".rebalance-watch/tables").symlink_to(asked)
    [line] = re.findall(r"^\*\*Shell\.\*\* (.*)$", (ROOT / "schemas/README.md").read_text("utf-8"), re.MULTILINE)
    rebalances, incidents = (shlex.split(text) for text in re.findall(r"`rebalance-watch ([^`]+)`", line))
    of_group = [{"orders-group": "g", "1h": "2020-01-01"}.get(word, word) for word in rebalances[:-2]]
    assert rebalances[-2:] == [">", "rebalances.csv"]

    rows = {}
    for words in (of_group, incidents):
        ended = CliRunner().invoke(main.app, ["--root", str(tmp_path / ".rebalance-watch"), *words])
        assert ended.exit_code == 0, ended.output
        rows[words[0]] = list(csv.DictReader(io.StringIO(ended.stdout)))

    ids = {row["rebalance_id"] for row in asked_model.rows("SELECT * FROM rebalances r WHERE r.group = 'g'")}
    assert {row["rebalance_id"] for row in rows["group"]} == ids
    known = asked_model.rows("SELECT incident_id FROM incidents")
    assert Counter(row["incident_id"] for row in rows["sql"]) == Counter(row["incident_id"] for row in known)


def change(minute, action, client="A", **fields):
    time = int(datetime.fromisoformat(f"{DAY}T00:00Z").timestamp() * 1000) + minute * 60_000
    return {
        "cluster": "c", "group": "g", "time": time, "known_at": time, "seq": minute, "cause": "", "topic": "T",
        "broker": "b", "queue_id": 0, "client_id": client, "action": action, "evidence": "ANSWER",
        "expected_owner": None, "rebalance_id": "", **fields,
    }  # fmt: skip


def test_duckdb_clips_intervals_to_the_day_and_knows_who_had_left(tmp_path, monkeypatch):
    tables = make_tables(tmp_path / "tables")
    append_rows(tables, "assignment_history", [
        change(-120, "ASSIGNED"), change(60, "RELEASED"),
        change(-120, "ASSIGNED", queue_id=1), change(-60, "RELEASED", queue_id=1),
        change(23 * 60, "ASSIGNED", "B"),
        change(26 * 60, "ASSIGNED", queue_id=2),
    ])  # fmt: skip
    opened = change(90, "OPENED")["time"]
    append_rows(tables, "anomalies", [
        small_row("anomalies") | {"cluster": "c", "group": "g", "incident_id": f"i{queue}", "transition": "OPENED",
         "topic": "T", "broker": "b", "queue_id": queue, "opened_at": at, "time": at, "known_at": at, "seq": queue}
        for queue, at in ((0, opened), (1, opened - 160 * 60_000))
    ])  # fmt: skip
    append_rows(tables, "group_state", [
        small_row("group_state") | {"cluster": "c", "group": "g", "time": change(30 * 60, "")["time"]}
    ])  # fmt: skip

    names = run("DuckDB", tables, tmp_path, monkeypatch)

    hours = {row.client_id: (row.intervals, row.hours) for row in names["hours"].itertuples()}
    assert hours == {"A": (1, 1.0), "B": (1, 1.0)}
    owners = {row.incident_id: row.owner for row in names["owners"].itertuples()}
    assert owners["i0"] is None or owners["i0"] != owners["i0"]  # it had been released half an hour before
    assert owners["i1"] == "A"


def test_opened_tables_stay_as_they_are_until_a_file_is_removed(tmp_path):
    tables = make_tables(tmp_path)
    append_rows(tables, "assignment_history", [change(0, "ASSIGNED")])
    append_rows(tables, "assignment_history", [change(1, "RELEASED")])
    connection, opened = duckdb.connect(), DeltaTable(tables / "assignment_history")
    register(connection, tables)
    replace_files(tables, change(2, "ASSIGNED"))
    count = "SELECT count(*) FROM assignment_history"
    assert connection.sql(count).fetchall() == [(2,)]
    assert len(opened.to_pandas()) == 2

    remove_replaced(tables)

    with pytest.raises(duckdb.IOException, match="No files found"):
        connection.sql(count).fetchall()
    with pytest.raises(Exception, match="not found"):
        opened.to_pandas()
    register(connection, tables)
    assert connection.sql(count).fetchall() == [(3,)]


def replace_files(tables, row):
    append_rows(tables, "assignment_history", [row])
    DeltaTable(tables / "assignment_history").optimize.compact()


def remove_replaced(tables):
    DeltaTable(tables / "assignment_history").vacuum(0, dry_run=False, enforce_retention_duration=False)


@pytest.fixture(scope="module")
def spark_recipe(spark, asked, tmp_path_factory):
    """The names of the recipe for Spark, run once: it defines all views; and the folder in which it ran."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        return run("Spark", asked, folder, patch), folder


@pytest.mark.spark
def test_spark_counts_the_incidents_of_the_command_line(spark_recipe):
    names, folder = spark_recipe
    counted = Counter()
    for row in names["by_code"].collect():
        counted[row.code] += row.incidents

    assert counted == Counter(one["code"] for one in cli(folder, "incident", "list", "--all", "--unfold"))


def joins() -> list[str]:
    """The queries of the section about ids."""
    [section] = re.findall(r"^## Ids\n(.*?)^## ", (ROOT / "schemas/README.md").read_text("utf-8"), re.M | re.S)
    return re.findall(r"^```sql\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_recipe")
def test_the_ids_join_in_spark_as_in_duckdb(spark, asked_model):
    for query in joins():
        found = in_epoch_ms(spark.sql(query).toArrow()).to_pylist()
        assert Counter(map(as_json, found)) == Counter(map(as_json, asked_model.rows(query))) != {}, query


def test_the_ids_join_as_their_queries_say(asked):
    """Each query is compared with a count that needs no join."""
    changes, incidents, events = joins()
    with ReadModel(asked) as model:
        moved = {row["rebalance_id"] for row in model.rows("SELECT rebalance_id FROM rebalances")}
        history = model.rows("SELECT rebalance_id, cause FROM assignment_history")
        by_id = {row["incident_id"]: row for row in model.rows("SELECT incident_id, code, parent FROM incidents")}

        assert len(model.rows(changes)) == sum(row["rebalance_id"] in moved for row in history) > 0
        explained = {row["incident_id"]: row["explained_by"] for row in model.rows(incidents)}
        assert explained == {
            name: by_id[one["parent"]]["code"] if one["parent"] in by_id else None for name, one in by_id.items()
        }
        assert any(explained.values())
        archived = {
            f"{row['source_id']}|{row['key']}|{row['seq']}"
            for row in model.rows("SELECT source_id, key, seq FROM telemetry")
        }
        assert len(model.rows(events)) == sum(row["cause"] in archived for row in history) > 0
