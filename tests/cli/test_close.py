"""The commands `rebalance-watch incident close` and `reopen`, and what a person reads of it afterwards."""

import csv
import io
import json
import shutil

import httpx
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from schemas.arrow import arrow_schema
from streaming.base.errors import UserError
from streaming.base.language import in_language
from streaming.cli.main import app
from streaming.queries.incident_detail import incident
from streaming.serve.dashboard.parts.markup import rendered
from streaming.serve.store import Store
from streaming.serve.user import NOBODY
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from streaming.tables.reader import ReadModel
from tests.support.served import answering
from tests.support.tables import read_rows
from tests.support.world import example

STUCK = "ordered_queue_stuck-orders-0"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Written once: each test has a copy."""
    folder = tmp_path_factory.mktemp("example") / "tables"
    example().write(folder)
    return folder


@pytest.fixture
def settings(settings_in, tables, tmp_path):
    made = settings_in(tmp_path)
    shutil.copytree(tables, made.runtime.tables, dirs_exist_ok=True)
    return made


@pytest.fixture
def ask(settings, monkeypatch):
    """Run a command as a user; returns what it prints, or raises its error."""
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(settings.runtime.root))
    monkeypatch.setenv("COLUMNS", "250")

    def ask(*arguments, code=0):
        ran = CliRunner().invoke(app, arguments)
        if isinstance(ran.exception, UserError):
            raise ran.exception
        assert ran.exit_code == code, ran.output
        return ran.output if code else ran.stdout

    return ask


def open_ids(ask):
    return {one["incident_id"] for one in json.loads(ask("incident", "list", "--format", "json", "--unfold"))}


def details(ask, name="ordered"):
    return json.loads(ask("incident", "show", name, "--format", "json"))


def test_a_closed_incident_is_resolved_with_who_and_why(ask):
    before = details(ask)["incident"]
    said = ask("incident", "close", "ordered", "--reason", "queue removed", "--by", "ann")
    assert said.startswith(
        "closed: ORDERED_QUEUE_STUCK orders Orders@b:0; open it again with `rebalance-watch incident"
    )

    detail = details(ask)
    closed, closing = detail["incident"], detail["life"][-1]
    assert (closed["resolution"], closed["cleared_at"]) == ("closed by ann: queue removed", None)
    assert closed["resolved_at"] == closing["time"]
    assert (closing["transition"], closing["explanation"]) == ("CLOSED", "ann: queue removed")
    assert closed["transitions"] == before["transitions"]
    text = ask("incident", "show", "ordered")
    assert "ended: closed by ann: queue removed" in text
    assert "CLOSED" in text
    assert "closed by ann: queue removed" in ask("incident", "list", "--all")


def test_it_leaves_the_lists_of_what_is_open_and_the_health_stays(ask):
    assert open_ids(ask) == {STUCK, "queue_unassigned-orders-1", "lock_expired-orders-0"}
    ask("incident", "close", STUCK, "--reason", "known")
    assert open_ids(ask) == {"queue_unassigned-orders-1"}, "what it explains is closed with it"

    [orders] = [one for one in json.loads(ask("group", "list", "--format", "json")) if one["group"] == "orders"]
    assert orders["incidents"] == {"critical": 0, "warning": 1, "info": 0, "closed": 1}
    assert orders["health"] != "OK"
    assert "1 warning, 1 closed" in ask("group", "list")
    assert "incidents closed while their condition holds: 1" in ask("group", "show", "orders")


def test_it_is_opened_again(ask):
    ask("incident", "close", STUCK, "--reason", "known", "--by", "ann")
    assert ask("incident", "reopen", "ordered", "--reason", "was wrong", "--by", "bob") == (
        "opened again: ORDERED_QUEUE_STUCK orders Orders@b:0\n"
    )
    assert STUCK in open_ids(ask)
    detail = details(ask)
    assert detail["incident"]["resolution"] is None
    assert [(step["transition"], step["explanation"]) for step in detail["life"][1:]] == [
        ("CLOSED", "ann: known"), ("REOPENED", "bob: was wrong"),
    ]  # fmt: skip
    ask("incident", "close", STUCK, "--reason", "again")
    assert STUCK not in open_ids(ask)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("close", "nothing", "--reason", "x"), "No incident has an id beginning with 'nothing'"),
        (("close", "", "--reason", "x"), "incidents have ids beginning with ''"),
        (("close", "over", "--reason", "x"), "The incident over was resolved at .*: there is nothing to close"),
        (("close", STUCK, "--reason", " \n"), "needs a reason"),
        (("close", STUCK, "--reason", "x", "--by", " "), "keeps who closed it: give a name with --by"),
        (("close", STUCK, "--reason", "bad \udcff"), "is not UTF-8"),
        (("reopen", STUCK), f"Nobody has closed the incident {STUCK}"),
        (("reopen", "over"), "Nobody has closed the incident over"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_keeps_nothing(ask, settings, arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        ask("incident", *arguments)
    assert read_rows(settings.runtime.tables, "alert_controls") == []


def test_a_close_without_a_reason_is_refused(ask, settings):
    assert "--reason" in ask("incident", "close", STUCK, code=2)
    assert read_rows(settings.runtime.tables, "alert_controls") == []


def test_what_is_closed_is_not_closed_again(ask):
    ask("incident", "close", STUCK, "--reason", "known", "--by", "ann")
    with pytest.raises(UserError, match=r"was resolved at .* \(closed by ann: known\)"):
        ask("incident", "close", STUCK, "--reason", "again")
    with pytest.raises(UserError, match="was resolved at"):
        ask("alert", "ack", STUCK)


def test_a_hostile_reason_harms_nobody(ask):
    ask("incident", "close", STUCK, "--reason", "\x1b[2J\nended: no", "--by", "=HYPERLINK()")
    text = ask("incident", "show", STUCK) + ask("incident", "list", "--all")
    assert "\x1b[2J" not in text
    assert "ended: closed by =HYPERLINK(): \\x1b[2J ended: no\n" in text
    [row] = [one for one in csv.DictReader(io.StringIO(ask("incident", "list", "--all", "--format", "csv")))
             if one["incident_id"] == STUCK]  # fmt: skip
    assert row["resolution"].startswith("closed by =HYPERLINK()")
    life = json.loads(ask("incident", "show", STUCK, "--format", "json"))["life"]
    assert life[-1]["explanation"] == "=HYPERLINK(): \x1b[2J ended: no"


def test_a_table_of_the_release_before_is_named(ask, settings):
    """The job adds the column at its next start."""
    table = settings.runtime.tables / "alert_controls"
    for file in (*table.rglob("*.json"), *table.rglob("*.parquet")):
        file.unlink()
    older = arrow_schema("alert_controls").remove(arrow_schema("alert_controls").get_field_index("severity"))
    write_deltalake(table, older.empty_table())
    with pytest.raises(UserError, match=r"alert_controls lacks severity: restart `rebalance-watch run`"):
        ask("incident", "close", STUCK, "--reason", "known")
    assert DeltaTable(table).count() == 0
    assert STUCK in open_ids(ask)


def test_rest_and_the_pages_say_it_too(ask, settings):
    ask("incident", "close", STUCK, "--reason", "<b>known</b>", "--by", "ann")
    with Store(settings.runtime.tables) as store:
        api = api_application(settings, store, access("127.0.0.1", settings.web))
        with answering(api) as address:
            answer = httpx.get(f"{address}/api/v1/incidents/{STUCK}", timeout=120).json()
            still_open = httpx.get(f"{address}/api/v1/incidents", timeout=120).json()
    assert answer["incident"]["resolution"] == "closed by ann: <b>known</b>"
    assert answer["life"][-1]["transition"] == "CLOSED"
    assert STUCK not in {one["incident_id"] for one in still_open}

    with ReadModel(settings.runtime.tables) as model:
        detail = incident(model, STUCK)
    page = _page(detail)
    assert "resolved after" in page
    assert "closed by ann: &lt;b&gt;known&lt;/b&gt;" in page
    assert "Closed; its condition still holds" in page
    assert "<b>closed</b>" in page
    with in_language("zh"):
        assert "由 ann 关闭：&lt;b&gt;known&lt;/b&gt;" in _page(detail)


def _page(detail):
    shown, last = detail.incident, detail.life[-1].time
    return rendered(
        "incident", i=shown, ends=None, q=None, reach=None, parent=None, life=detail.life, absorbed=detail.absorbed,
        commands=(), picture=None, now=last, stacks=None, evidence=[], changed=False, here="/", before="/", event=None,
        raw="", cause="", impact=None, children=[], with_group=False, names_groups=True, notifications=[],
        acknowledged=None, silences=[], MESSAGES={}, rebalance=None, user=NOBODY,
    )  # fmt: skip
