"""The commands: errors at the start, a dashboard with a token, and one before the first table in a real browser."""

import re
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from typer.testing import CliRunner
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from streaming.base.errors import UserError
from streaming.base.process import raise_open_files
from streaming.cli.main import app
from tests.support.served import served
from tests.support.tables import make_tables
from tests.support.waiting import until
from tests.support.world import NOON, World, example

ONE_SERVER = pytest.mark.xdist_group("web")  # one server for all of them, but for those in a browser
SECONDS = 90
"""Nothing but a hang takes so long."""
FILES = 1_024
"""As systemd gives."""
TOKEN = "a token of some length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboard")
    example().write(folder / "tables")
    return folder


@pytest.fixture(scope="module")
def dashboard(root):
    with served("dashboard", root, files=FILES, WEB__TOKEN=TOKEN) as address:
        yield address
    assert "Traceback" not in (root / "dashboard.log").read_text()


def refused(*arguments: str) -> str:
    """Return the error with which a command does not start."""
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, UserError), error
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize("command", ["dashboard", "metrics"])
def test_an_error_at_the_start_is_one_sentence(command, root, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(root))
    assert "set a token" in refused(command, "--host", "0.0.0.0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} (Address already in use): choose" in refused(command, "--port", str(port))
    monkeypatch.setenv("REBALANCE_WATCH_WEB__TOKEN", TOKEN)
    assert "Cannot listen on 203.0.113.1" in refused(command, "--host", "203.0.113.1", "--port", "0")


@ONE_SERVER
@pytest.mark.parametrize("path", ["/", "/api/v1/groups", "/metrics", f"{SOCKET}polling", "/group/orders"])
def test_every_path_of_a_dashboard_with_a_token_needs_it(dashboard, path):
    assert httpx.get(dashboard + path, timeout=SECONDS).status_code == 401
    assert (
        httpx.get(dashboard + path, headers={**BEARER, "Origin": "https://evil.example"}, timeout=SECONDS).status_code
        == 403
    )
    answer = httpx.get(dashboard + path, headers=BEARER, timeout=SECONDS)
    assert answer.status_code == 200
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "access-control-allow-origin" not in answer.headers


@ONE_SERVER
def test_the_probes_of_a_dashboard_need_no_token(dashboard):
    assert httpx.get(f"{dashboard}/healthz", timeout=SECONDS).json() == {"alive": True}
    [task] = httpx.get(f"{dashboard}/readyz", timeout=SECONDS).json()["tasks"]
    assert (task["task"], task["ready"]) == ("refresh of the tables", True)


@ONE_SERVER
def test_scripts_and_the_websocket_of_the_pages_need_the_token(dashboard):
    page = httpx.get(dashboard, headers=BEARER, timeout=SECONDS).text
    script = re.search(r'"(/_nicegui/[^"]+\.js)"', page)[1]
    assert httpx.get(dashboard + script, timeout=SECONDS).status_code == 401
    assert httpx.get(dashboard + script, headers=BEARER, timeout=SECONDS).status_code == 200

    address = dashboard.replace("http", "ws") + SOCKET + "websocket"
    with pytest.raises(InvalidStatus, match="403"):
        connect(address, proxy=None, open_timeout=SECONDS)
    with connect(address, proxy=None, additional_headers=BEARER, open_timeout=SECONDS) as websocket:
        assert websocket.recv(timeout=SECONDS).startswith("0{")  # socket.io's greeting


@ONE_SERVER
def test_metrics_and_the_api_show_the_tables(dashboard):
    metrics = httpx.get(f"{dashboard}/metrics", headers=BEARER, timeout=SECONDS)

    assert 'rocketmq_consumer_connections{cluster="c",consumer_group="orders"} 2.0' in metrics.text
    # The telemetry of the tables ended long ago: what holds now is unknown.
    assert 'rocketmq_consumer_group_status{cluster="c",consumer_group="orders"} 0.0' in metrics.text
    assert metrics.headers["Content-Type"].startswith("text/plain; version=")
    assert httpx.get(f"{dashboard}/api/v1/groups", headers=BEARER, timeout=SECONDS).json()[0]["group"] == "orders"


@ONE_SERVER
def test_half_requests_keep_nobody_from_the_dashboard(dashboard, root):
    at = urlsplit(dashboard)
    raise_open_files()
    with ExitStack() as stack:
        for number in range(FILES + 76):
            source = (f"127.0.{number % 100}.{1 + number // 100}", 0)
            half = socket.create_connection((at.hostname, at.port), timeout=SECONDS, source_address=source)
            stack.enter_context(half).sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")
        assert httpx.get(f"{dashboard}/healthz", timeout=SECONDS).json() == {"alive": True}
        assert httpx.get(dashboard, headers=BEARER, timeout=SECONDS).status_code == 200
        before = version_of(dashboard)
        more = World()
        more.rejected("BAD_JSON", NOON)
        more.write(root / "tables")
        until(lambda: version_of(dashboard) > before, SECONDS)
    log = root / "dashboard.log"
    until(lambda: "connections were closed (" in log.read_text(), SECONDS)  # the server looks once a second


def version_of(dashboard: str) -> int:
    return httpx.get(f"{dashboard}/api/v1/health", headers=BEARER, timeout=SECONDS).json()["tables_version"]


def test_a_dashboard_before_the_first_table_waits_for_it(tmp_path, browser):
    with served("dashboard", tmp_path, SOURCE__KIND="files") as address, browser.new_context() as context:
        answer = httpx.get(f"{address}/api/v1/groups", timeout=SECONDS)
        assert answer.status_code == 503
        assert answer.json()["error"].startswith(f"There are no tables in {tmp_path / 'tables'} yet")
        assert httpx.get(address, timeout=SECONDS).status_code == 200
        assert httpx.get(f"{address}/incidents", timeout=SECONDS).status_code == 503
        unready = httpx.get(f"{address}/readyz", timeout=SECONDS)
        assert (unready.status_code, unready.json()["tasks"][0]["reason"]) == (503, "there are no tables yet")
        metrics = httpx.get(f"{address}/metrics", timeout=SECONDS)
        assert metrics.status_code == 200
        assert "rebalance_watch_table_rows" not in metrics.text

        page = context.new_page()
        page.set_default_timeout(40_000)
        page.goto(address)
        page.get_by_role("heading", level=1, name="No consumer groups yet").wait_for()
        steps = page.locator(".steps > li")
        steps.nth(1).get_by_text("No telemetry yet (files in").wait_for()
        assert steps.nth(2).locator("code").inner_text() == "rebalance-watch run"
        (tmp_path / "log" / "partition=0").mkdir(parents=True)
        (tmp_path / "log" / "partition=0" / f"{0:020}.jsonl").write_text("{}\n")
        steps.nth(1).get_by_text("The log has telemetry").wait_for()
        make_tables(tmp_path / "tables")
        example().write(tmp_path / "tables")
        page.get_by_role("heading", level=2, name="Groups by health").wait_for()
        assert httpx.get(f"{address}/api/v1/groups", timeout=SECONDS).json()[0]["group"] == "orders"
        assert "rebalance_watch_table_rows" in httpx.get(f"{address}/metrics", timeout=SECONDS).text
    assert "Traceback" not in (tmp_path / "dashboard.log").read_text()
