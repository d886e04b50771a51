"""The server itself: what it declares, what it refuses, and who may ask it."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib import metadata, resources
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from rebalance_model.observe.rules.registry import RULES
from schemas.tables import TABLES
from streaming.base.limits import SENTENCE_CHARACTERS
from streaming.cli.main import app
from streaming.serve.web import server as web_server
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from tests.support.asked import asked_store
from tests.support.mcp_client import over_http, over_stdio
from tests.support.served import answering
from tests.support.world import example

pytestmark = pytest.mark.xdist_group("mcp")

TOKEN = "0123456789abcdef"
README = Path(__file__).parents[3] / "README.md"
LIST_CHARACTERS = 25_000
"""About 6,500 tokens, which each conversation begins with."""
LONG = "x" * 900_000
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@contextmanager
def served_api(settings):
    who = access("127.0.0.1", settings.web)
    with asked_store(settings.runtime.tables) as store, answering(api_application(settings, store, who)) as address:
        yield address


@pytest.fixture(scope="module")
def settings(tmp_path_factory, settings_in):
    made = settings_in(tmp_path_factory.mktemp("mcp_server"))
    made = made.model_copy(update={"web": made.web.model_copy(update={"token": SecretStr(TOKEN), "sql_seconds": 2})})
    example().write(made.runtime.tables)
    return made


@pytest.fixture(scope="module")
def address(settings):
    with served_api(settings) as address:
        yield address


@pytest.fixture(scope="module")
def client(address):
    with over_http(address, TOKEN) as client:
        yield client


def test_every_tool_only_reads_and_describes_its_parameters(client):
    tools = client.tools()

    assert len(tools) == 20
    assert sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools) < LIST_CHARACTERS
    for tool in tools:
        assert tool.annotations.read_only_hint, tool.name
        assert not tool.annotations.destructive_hint
        assert 40 < len(tool.description) < 600, tool.name
        for name, schema in tool.input_schema.get("properties", {}).items():
            assert schema["description"], (tool.name, name)
            assert name in tool.input_schema.get("required", ()) or "default" in schema, (tool.name, name)


def test_the_manifest_starts_this_command():
    manifest = json.loads(resources.files("streaming.serve.mcp").joinpath("server.json").read_text())
    [package] = manifest["packages"]
    options = [one.get("name") or one["value"] for one in package["packageArguments"]]

    assert {manifest["version"], package["version"]} == {metadata.version("rebalance-watch")}
    assert package["runtimeArguments"][0]["value"] == "rebalance-watch[mcp]"
    assert CliRunner().invoke(app, [options[0], "/nowhere", options[1], "--help"]).exit_code == 0
    assert len(manifest["description"]) <= 100  # the registry's limit
    description = README.read_text("utf-8")  # of the package, where the registry looks for the owner's mark
    assert f"<!-- mcp-name: {manifest['name']} -->" in description


def test_resources_have_every_rule_and_every_column(client):
    fixed, templates = client.resources()

    assert fixed == {"rebalance-watch://rules", "rebalance-watch://tables"}
    assert templates == {"rebalance-watch://rules/{code}", "rebalance-watch://tables/{table}"}
    rules = client.read("rebalance-watch://rules")
    assert all(f"`{rule.code}`" in rules for rule in RULES)
    tables = client.read("rebalance-watch://tables")
    assert all(f"`{table}`" in tables for table in TABLES)
    assert "`owners_at(instant)`" in tables
    page = client.read("rebalance-watch://tables/rebalances")
    assert "- `queues_moved_min` (long): " in page
    assert client.call("describe_tables", table="rebalances").content[0].text == page


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("show_group", {}, "group: Field required."),
        ("show_group", {"name": "orders"}, "Unknown parameter name of show_group. It has group, at, cluster, detail."),
        ("show_lag", {"group": "orders", "slices": 0}, "slices: Input should be greater than or equal to 1."),
        ("list_groups", {"at": "soon"}, "Invalid time 'soon'. Use "),
        ("list_groups", {"at": 1_000_000_000_000}, "History begins at "),
        ("list_groups", {"cluster": "another"}, "another"),
        ("list_incidents", {"severity": "bad"}, "severity: Input should be 'info', 'warning' or 'critical'."),
        ("who_owned", {"queue": "Orders"}, "Invalid queue 'Orders'. Use TOPIC@BROKER:ID, such as Orders@broker-a:3."),
        ("who_owned", {"queue": "Order@b:0"}, "No group has a topic Order: did you mean Orders?"),
        ("who_owned", {"queue": "Orders@b:77"}, "No group has a queue Orders@b:77: Orders has queues 0 to 3 on b."),
        ("show_incident", {"incident_id": "zzz"}, "No incident has an id beginning with 'zzz'"),
        ("what_if", {"group": "orders", "leave": ["Z"]}, "Z is not a member"),
        ("explain_rule", {"code": "LOCK_EXPIRE"}, "Unknown code LOCK_EXPIRE: did you mean LOCK_EXPIRED?"),
        ("sql", {"query": "DROP TABLE x"}, "Only a single SELECT is allowed"),
        ("describe_tables", {"table": "x"}, "Unknown table x: "),
        ("nothing", {}, "Unknown tool nothing. The tools are describe_tables, "),
    ],
)
def test_what_is_wrong_is_one_sentence(client, tool, arguments, sentence):
    refusal = client.refusal(tool, **arguments)

    assert sentence in refusal
    assert "\n" not in refusal
    assert not refusal.startswith("Error executing")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": LONG, "arguments": {}}),
        ("tools/call", {"name": "list_groups", "arguments": {LONG: 1}}),
        ("tools/call", {"name": "list_groups", "arguments": {"at": LONG}}),
        ("tools/call", {"name": "show_group", "arguments": {"group": LONG}}),
        ("tools/call", {"name": "explain_rule", "arguments": {"code": "x " * 400_000}}),
        ("resources/read", {"uri": f"rebalance-watch://rules/{LONG}"}),
        ("prompts/get", {"name": LONG}),
        ("prompts/get", {"name": "none"}),
        (LONG, {}),
    ],
    ids=["tool", "parameter", "time", "group", "words", "resource", "prompt", "no prompt", "method"],
)
def test_an_error_repeats_little_of_what_was_sent(address, caplog, method, params):
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = httpx.post(f"{address}/mcp", json=request, headers={**ACCEPT, "Authorization": f"Bearer {TOKEN}"})
    assert len(answer.content) < SENTENCE_CHARACTERS + 1_000
    found = answer.json()
    assert "error" in found or found["result"]["isError"]
    assert not [record for record in caplog.records if record.exc_info]


def test_a_query_that_takes_too_long_is_stopped(client):
    refusal = client.refusal("sql", query="SELECT count(*) FROM range(1000000000) a, range(1000000000) b")

    assert "took more than 2 seconds and was stopped" in refusal


def test_an_unexpected_error_shows_no_internals(client, monkeypatch):
    monkeypatch.setattr("streaming.serve.mcp.incidents.incident", lambda *_: 1 / 0)

    assert client.refusal("show_incident", incident_id="over") == "Internal error in rebalance-watch: see its log."


def test_a_request_that_is_no_json_is_refused_as_all_others_are(address):
    answer = httpx.post(f"{address}/mcp", content=b"", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 415
    assert answer.json()["error"] == "A request to /mcp has the content type application/json."


def test_http_needs_the_token_as_rest_does(address):
    with httpx.Client(base_url=address, headers=ACCEPT) as http:
        refused = http.post("/mcp", json=LIST)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "A token is required" in refused.json()["error"]
        assert http.post("/mcp", json=LIST, headers={"Authorization": "Bearer wrong"}).status_code == 401

        foreign = {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}
        assert http.post("/mcp", json=LIST, headers=foreign).status_code == 403
        named = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
        assert http.post("/mcp", json=LIST, headers=named).status_code == 400
        assert http.post("/mcp", json=LIST, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_session_of_a_browser_may_ask_too(address):
    with httpx.Client(base_url=address, headers=ACCEPT) as http:
        http.post("/login", data={"token": TOKEN})

        assert http.post("/mcp", json=LIST).json()["result"]["tools"]


def test_before_there_are_tables_the_answer_is_a_sentence(tmp_path):
    with over_stdio(tmp_path) as client:
        assert "There are no tables in" in client.refusal("list_groups")
        assert client.read("rebalance-watch://rules")


def test_the_command_ends_when_its_client_closes_the_input(settings):
    command = [sys.executable, "-m", "streaming.cli", "--root", str(settings.runtime.root), "mcp"]
    ended = subprocess.run(command, input="", capture_output=True, text=True, timeout=120, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 0, marks=pytest.mark.prove)]
)
def test_a_signal_ends_the_command_while_its_client_is_silent(settings, number, code):
    command = [sys.executable, "-m", "streaming.cli", "--root", str(settings.runtime.root), "mcp"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:
        server.stdin.write('{"jsonrpc":"2.0","id":1,"method":"nothing"}\n')
        server.stdin.flush()
        assert "Method not found" in server.stdout.readline()  # so it waits for the next request
        server.send_signal(number)

        assert (server.wait(60), server.stderr.read()) == (code, "")


def test_without_the_package_the_path_says_what_to_install(settings, monkeypatch):
    monkeypatch.setattr(web_server, "find_spec", lambda _: None)
    with served_api(settings) as address:
        answer = httpx.post(f"{address}/mcp", json=LIST, headers={"Authorization": f"Bearer {TOKEN}"})

    assert (answer.status_code, answer.json()["error"]) == (
        501,
        "MCP is not installed here: install rebalance-watch[mcp].",
    )
