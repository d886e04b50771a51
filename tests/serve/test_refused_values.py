"""A value that can't exist is refused, in each filter of the command line, of REST and of MCP: never "none"."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import NamedTuple

import httpx
import pytest
import typer.main
from fastapi import FastAPI
from typer.testing import CliRunner

from streaming.base.errors import UserError
from streaming.cli import output
from streaming.cli.main import app as command_line
from streaming.serve.store import Store
from streaming.serve.web.access import access
from streaming.serve.web.api import PREFIX, router
from streaming.serve.web.server import api_application
from tests.support.asked import asked_store
from tests.support.mcp_client import over_http
from tests.support.served import answering
from tests.support.world import example

pytestmark = pytest.mark.xdist_group("web")

WRONG = "no-such-thing"
EXISTING = {
    "group": "orders", "topic": "Orders", "broker": "b", "queue_id": "1", "queue": "Orders@b:1", "client_id": "A",
    "earlier": "2026-11-21T12:00Z", "from": "2026-11-21T12:00Z", "code": "LAG_GROWTH", "query": "SELECT 1",
}  # fmt: skip
"""A valid value of each parameter that some question needs."""
ANY_NAME = {"join", "clients"}
"""Clients that may not exist yet."""
COMMANDS = {
    ("group", "list"): (), ("group", "show"): ("orders",), ("group", "assignments"): ("orders",),
    ("group", "rebalances"): ("orders",), ("group", "diff"): ("orders", "--from", "2026-11-21T12:00Z"),
    ("client", "list"): (), ("client", "show"): ("A",), ("incident", "list"): (), ("queue", "show"): ("Orders@b:1",),
    ("who-owned",): ("Orders@b:1",), ("allocate",): ("orders",),
}  # fmt: skip
"""The commands with filters, each with what it needs."""
NO_FILTERS = {"every", "policy", "columns", "sort"}
"""Options of how an answer is shown, and the file to compute it by."""


class Asked(NamedTuple):
    """The tables, and how programs ask them."""

    store: Store
    rest: httpx.Client
    address: str


@pytest.fixture(scope="module")
def asked(tmp_path_factory, settings_in) -> Iterator[Asked]:
    settings = settings_in(tmp_path_factory.mktemp("refused"))
    example().write(settings.runtime.tables)
    with asked_store(settings.runtime.tables) as store:
        app = api_application(settings, store, access("127.0.0.1", settings.web))
        with answering(app) as address, httpx.Client(base_url=address, timeout=120) as client:
            yield Asked(store, client, address)


def routes() -> dict[str, list[dict]]:
    app = FastAPI()
    app.include_router(router)
    paths = app.openapi()["paths"]
    return {path: ways["get"].get("parameters", []) for path, ways in paths.items() if "get" in ways}


def options() -> Iterator[tuple[tuple[str, ...], str]]:
    for words in COMMANDS:
        command = typer.main.get_command(command_line)
        for word in words:
            command = command.commands[word]
        for one in command.params:
            if one.param_type_name == "option" and not one.is_flag and one.name not in {*NO_FILTERS, *ANY_NAME}:
                yield words, one.opts[0]


@pytest.mark.parametrize(("words", "option"), list(options()))
def test_a_command_refuses_a_value_that_can_not_exist(asked, monkeypatch, words, option):
    monkeypatch.setattr(output, "tables", lambda: nullcontext(asked.store.model()))
    needed = COMMANDS[words]
    if option == "--from":
        needed = needed[:1]
    elif option == "--group" and words[0] in {"group", "allocate"}:
        needed = needed[1:]
    ended = CliRunner().invoke(command_line, [*words, *needed, option, WRONG])
    assert ended.exit_code != 0, ended.output
    said = str(ended.exception) if isinstance(ended.exception, UserError) else ended.output
    assert WRONG in said or option in said


@pytest.mark.parametrize(("path", "parameters"), list(routes().items()))
def test_rest_refuses_unknown_parameters_and_values_that_can_not_exist(asked, path, parameters):
    [incident, *_] = asked.rest.get(f"{PREFIX}/incidents", params={"all": True}).json()
    url = path.format(**EXISTING | {"incident_id": incident["incident_id"], "rebalance_id": "r"})
    fields = [one for one in parameters if one["in"] == "query"]
    needed = {one["name"]: EXISTING[one["name"]] for one in fields if one["required"]}
    for name in {one["name"] for one in fields} - ANY_NAME:
        refused = asked.rest.get(url, params=needed | {name: WRONG})
        assert refused.status_code in {400, 404, 422}, (name, refused.text)
    refused = asked.rest.get(url, params=needed | {"no_such": "1"})
    assert refused.status_code == 422
    assert "Unknown parameter no_such" in refused.json()["error"]
    assert all(one["name"] in refused.json()["error"] for one in fields)


def test_a_tool_refuses_a_value_that_can_not_exist(asked):
    with over_http(asked.address) as client:
        for tool in client.tools():
            required = tool.input_schema.get("required", ())
            needed = {name: EXISTING.get(name, WRONG) for name in required}
            for name in set(tool.input_schema.get("properties", ())) - ANY_NAME:
                result = client.call(tool.name, **needed | {name: WRONG})
                assert result.is_error, (tool.name, name, result.content[0].text[:300])


def test_an_answer_names_its_instant(asked):
    now, then, later = (
        asked.rest.get(f"{PREFIX}/groups", params=params, headers={"Accept-Language": "zh-CN"}).headers
        for params in ({}, {"at": "2026-11-21T12:00:10Z"}, {"at": "2026-11-22T12:00:10Z"})
    )
    assert now["Rebalance-Watch-As-Of"] == "2026-11-21T12:00:30.000Z"
    assert now["Rebalance-Watch-Note"].startswith("As of 2026-11-21T12:00:30.000Z, the last telemetry, ")
    assert then["Rebalance-Watch-As-Of"] == "2026-11-21T12:00:10.000Z"
    assert later["Rebalance-Watch-Note"].endswith("Did you mean at=2026-11-21T12:00:10.000Z?")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("incidents?code=ORDERD_QUEUE_STUCK", "did you mean ORDERED_QUEUE_STUCK?"),
        ("incidents?severity=critcal", "did you mean critical?"),
        ("incidents?limitt=1", "Unknown parameter limitt"),
        ("groups/orders/owners?topic=Order", "did you mean Orders?"),
        ("groups/orders/what-if?strategy=AVGG", "did you mean AVG?"),
        ("groups?cluster=cc", "did you mean c?"),
        ("groups/order", "did you mean orders?"),
    ],
)
def test_a_refusal_names_what_was_meant(asked, path, sentence):
    assert sentence in asked.rest.get(f"{PREFIX}/{path}").json()["error"]
