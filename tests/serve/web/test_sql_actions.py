"""The SQL of people and programs in the audit trail: who, by what, the query and its result, without delaying it."""

import logging
from contextlib import contextmanager

import httpx
import pytest
from deltalake import DeltaTable
from pydantic import SecretStr

from streaming.base.errors import UserError
from streaming.serve import operator_actions
from streaming.serve.operator_actions import Actor, SqlActions
from streaming.serve.store import Store
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from tests.support.mcp_client import over_http, over_stdio
from tests.support.served import answering
from tests.support.tables import make_tables, read_rows
from tests.support.waiting import until
from tests.support.world import example

pytestmark = pytest.mark.xdist_group("web")

TOKEN = "a token of some length"
ANN = Actor("u-1", "ann", "REST")
SECONDS = 90


@pytest.fixture
def settings(settings_in, tmp_path):
    made = settings_in(tmp_path)
    example().write(made.runtime.tables)
    return made.model_copy(update={"web": made.web.model_copy(update={"token": SecretStr(TOKEN)})})


@contextmanager
def served_api(settings):
    who = access("127.0.0.1", settings.web)
    with Store(settings.runtime.tables) as store, answering(api_application(settings, store, who)) as address:
        yield address


@contextmanager
def client_of(address: str):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=SECONDS) as client:
        yield client


def recorded(tables) -> list[dict[str, object]]:
    return sorted(read_rows(tables, "operator_actions"), key=lambda row: row["time"])


def commits(tables) -> int:
    return DeltaTable(tables / "operator_actions").version()


def ask(trail: SqlActions, query: str, rows: int = 1) -> None:
    with trail.recorded(ANN, query) as recording:
        recording.rows = rows


def test_each_query_by_rest_and_mcp_is_a_row_with_its_result(settings, monkeypatch):
    monkeypatch.setattr(operator_actions, "_WRITE_SECONDS", 3_600.0)  # all in one commit, at the end
    tables = settings.runtime.tables
    before = commits(tables)
    with served_api(settings) as address:
        with client_of(address) as client:
            assert client.post("/sql", json={"query": "SELECT * FROM range(3)"}).status_code == 200
            refused = client.post("/sql", json={"query": "DROP TABLE telemetry"})
            assert refused.status_code == 400
        with over_http(address, TOKEN) as model:
            assert model.ask("sql", query="SELECT 1 AS n")["answer"]["rows"] == [[1]]
        assert recorded(tables) == []  # no query waits for its row

    rows = recorded(tables)
    assert {(row["subject"], row["name"], row["action"], row["target"]) for row in rows} == {("token", "", "SQL", "")}
    assert [(row["source"], row["detail"], row["result"], row["rows"], row["message"]) for row in rows] == [
        ("REST", "SELECT * FROM range(3)", "DONE", 3, None),
        ("REST", "DROP TABLE telemetry", "FAILED", None, refused.json()["error"]),
        ("MCP", "SELECT 1 AS n", "DONE", 1, None),
    ]
    assert commits(tables) == before + 1


def test_actions_are_listed_by_their_kind(settings, monkeypatch):
    monkeypatch.setattr(operator_actions, "_WRITE_SECONDS", 0.01)
    with served_api(settings) as address, client_of(address) as client:
        assert client.post("/sql", json={"query": "SELECT 1"}).status_code == 200
        assert client.post("/incidents/nothing/close", json={"by": "ann", "reason": "x"}).status_code == 404

        def listed(**kind: str) -> list[tuple[str, int | None]]:
            return [(one["action"], one["rows"]) for one in client.get("/actions", params=kind).json()]

        until(lambda: len(listed()) == 2, SECONDS, listed)
        assert listed(kind="sql") == [("SQL", 1)]
        assert listed(kind="incident") == [("CLOSE", None)]
        assert client.get("/actions", params={"kind": "all"}).status_code == 422


def test_sql_over_standard_input_is_of_who_has_the_tables_and_not_recorded(settings):
    with over_stdio(settings.runtime.root) as model:
        assert model.ask("sql", query="SELECT 1 AS n")["answer"]["rows"] == [[1]]
    assert recorded(settings.runtime.tables) == []


def test_a_query_is_answered_though_the_table_can_not_be_written(settings, monkeypatch, caplog):
    """And its row is written as soon as the table can be."""
    monkeypatch.setattr(operator_actions, "_WRITE_SECONDS", 0.01)
    monkeypatch.setattr(operator_actions, "_RETRY_SECONDS", 0.01)
    tables = settings.runtime.tables
    away = tables.parent / "away"
    with served_api(settings) as address, client_of(address) as client:
        (tables / "operator_actions").rename(away)
        said = "recording SQL in operator_actions failed; retrying every minute: "
        for query in ("SELECT 1", "SELECT 2"):
            assert client.post("/sql", json={"query": query}).status_code == 200
        until(lambda: said in caplog.text, SECONDS)
        away.rename(tables / "operator_actions")
        until(lambda: [row["detail"] for row in recorded(tables)] == ["SELECT 1", "SELECT 2"], SECONDS)
    assert caplog.text.count(said) == 1


def test_rows_that_wait_are_limited_and_the_log_counts_the_others(tmp_path, monkeypatch, caplog):
    tables = make_tables(tmp_path / "tables")
    monkeypatch.setattr(operator_actions, "ROWS_MAX", 3)
    trail = SqlActions(tables)
    for number in range(5):
        ask(trail, f"SELECT {number}")
    with caplog.at_level(logging.ERROR):
        trail.close()

    assert [row["detail"] for row in recorded(tables)] == ["SELECT 0", "SELECT 1", "SELECT 2"]
    assert "SQL queries not recorded in operator_actions, as too many came at once: 2" in caplog.text


def test_what_could_never_be_written_is_counted_at_the_end(tmp_path, caplog):
    trail = SqlActions(tmp_path / "nothing")
    ask(trail, "SELECT 1")
    trail.close()

    assert "SQL queries not recorded in operator_actions, which could not be written: 1" in caplog.text


def test_a_long_query_is_cut_with_its_length_and_a_text_may_be_no_unicode(tmp_path):
    tables = make_tables(tmp_path / "tables")
    trail = SqlActions(tables)
    ask(trail, "SELECT 1 -- " + "x" * 5_000)
    ask(trail, "SELECT '\ud800'")
    with pytest.raises(UserError), trail.recorded(ANN, "SELECT 2"):
        raise UserError("y" * 5_000)
    trail.close()

    long, strange, failed = recorded(tables)
    assert long["detail"] == "SELECT 1 -- " + "x" * 3_988 + "… (5,012 characters)"
    assert strange["detail"] == "SELECT '?'"
    assert (failed["result"], len(failed["message"]), failed["rows"]) == ("FAILED", 1_000, None)
