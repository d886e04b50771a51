"""Answers for a model: little enough of them, the newest of them, and how much is missing."""

import asyncio
import json
import re

import pytest

from streaming.base.settings import Settings
from streaming.queries.results import QueryResult
from streaming.queries.results.base import Instant
from streaming.serve.mcp.brief import answer_text
from streaming.serve.mcp.questions import question_server
from tests.support.asked import asked_store
from tests.support.findings import effects
from tests.support.tables import append, make_tables

CHARACTERS = 8_000
STUCK = "2026-11-21 15:57:30"
ORDERS = {"group": "orders-group"}
QUEUE = ORDERS | {"queue": "Orders@broker-a:0"}
HOURS = ORDERS | {"since": "2026-11-21 15:00", "until": "2026-11-21 16:20"}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """The tools over the demo's tables, without its archive."""
    tables = make_tables(tmp_path_factory.mktemp("demo") / "tables")
    append(tables, effects())
    with asked_store(tables) as store:
        server = question_server(Settings(), store, None)

        def asked(tool: str, **arguments: object) -> str:
            [content] = asyncio.run(server.call_tool(tool, arguments)).content
            return content.text

        yield asked


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_groups", {}),
        ("show_group", ORDERS),
        ("show_lag", HOURS),
        ("list_clients", {}),
        ("show_client", {"client_id": "orders-1"}),
        ("what_if", ORDERS | {"leave": ["orders-1"]}),
        ("plan_rolling_restart", ORDERS | {"at": STUCK}),
        ("list_incidents", {}),
        ("list_incidents", {"state": "all", "unfold": True}),
        ("explain_rule", {"code": "ORDERED_QUEUE_STUCK"}),
        ("list_quality_checks", {}),
        ("describe_tables", {}),
        ("sql", {"query": "SELECT * FROM incidents"}),
        ("list_queues", ORDERS),
        ("show_queue", QUEUE | {"at": STUCK, "since": "2026-11-21 15:00"}),
        ("who_owned", {"queue": "Orders@broker-a:0", "at": STUCK}),
        ("list_ownership", HOURS),
        ("diff_owners", ORDERS | {"earlier": "2026-11-21 15:50"}),
        ("list_rebalances", ORDERS | {"last": 100, "moves": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_without_detail_is_short(ask, tool, arguments):
    text = ask(tool, **arguments)

    assert len(text) <= CHARACTERS
    assert not re.search(r'[^\\]":17952', text)  # no instant is a number, except in JSON that a query selects


def test_a_list_that_was_cut_says_how_much_it_lacks(ask):
    period = QUEUE | {"at": STUCK, "since": "2026-11-21 15:00"}
    brief, full = (json.loads(ask("show_queue", **period, detail=detail)) for detail in ("brief", "full"))
    kept, all_of_them = (one["answer"]["history"]["observations"] for one in (brief, full))

    assert brief["left_out"]["answer.history.observations"] == len(all_of_them) - len(kept) > 0
    assert [one["time"] for one in kept] == [one["time"] for one in all_of_them[-len(kept) :]]
    assert full["left_out"] == {}
    assert brief["answer"]["queue"]["status_reason"] == "ORDERED_QUEUE_STUCK LISTENER_HUNG"


class _Row(QueryResult):
    time: Instant
    name: str | None
    is_stale: bool = False
    evidence: dict[str, object]
    cells: tuple[tuple[object, ...], ...] = ()


def test_a_brief_answer_has_no_field_that_says_nothing():
    row = _Row(time=0, name=None, evidence={"lag": 0, "clear_since": 0, "seen": 0})

    assert json.loads(answer_text(row)) == {
        "time": "1970-01-01T00:00:00.000Z",
        "evidence": {"lag": 0, "clear_since": "1970-01-01T00:00:00.000Z", "seen": 0},
    }
    assert json.loads(answer_text(row, "full"))["name"] is None


def test_rows_are_left_out_whole_and_long_texts_are_cut():
    row = _Row(time=0, name="x" * 2_000, evidence={}, cells=tuple((number, "y" * 90) for number in range(1_000)))
    answer = json.loads(answer_text(row))

    assert answer["name"] == "x" * 1_000 + "…"
    assert [len(cells) for cells in answer["cells"]] == [2] * (1_000 - answer["left_out"]["cells"])
    assert answer["cells"][0][0] == 0
