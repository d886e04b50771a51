"""People whom the headers of a proxy name: from which address they count, and what the person may do."""

import re

import httpx
import pytest
from fastapi import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from streaming.base.settings import load_settings
from streaming.serve.store import Store
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from tests.support.served import answering
from tests.support.tables import read_rows
from tests.support.world import example

pytestmark = pytest.mark.xdist_group("sign-in")

SECONDS = 60
TOKEN = "a token of some length"
PROXY, ELSEWHERE = "127.0.0.2", "127.0.0.3"
ANN = [("X-Forwarded-User", "ann"), ("X-Forwarded-Groups", "dev, sre")]
BOB = [("X-Forwarded-User", "bob"), ("X-Forwarded-Groups", "dev")]
GROUPS = "/api/v1/groups"
SQL = {"query": "SELECT 1"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy-user") / "tables"
    example().write(folder)
    return folder


@pytest.fixture(scope="module")
def address(tables):
    sign_in = {"kind": "proxy", "operators": ["sre"], "viewers": ["dev"]}
    web = {"token": TOKEN, "sign_in": sign_in, "trusted_proxies": [PROXY]}
    settings = load_settings(runtime={"root": tables.parent}, web=web)
    with Store(tables) as store:
        app = api_application(settings, store, access("127.0.0.1", settings.web))

        @app.websocket("/socket")
        async def socket(websocket: WebSocket) -> None:
            await websocket.accept()
            await websocket.close()

        with answering(app) as address:
            yield address


def asked(address: str, source: str, headers, method: str = "GET", path: str = GROUPS, **sent) -> httpx.Response:
    """Ask from a source address."""
    transport = httpx.HTTPTransport(local_address=source)
    with httpx.Client(transport=transport, timeout=SECONDS, headers=headers) as client:
        return client.request(method, address + path, **sent)


def test_a_proxy_names_an_operator_and_a_viewer(address, tables):
    assert asked(address, PROXY, ANN).status_code == 200
    assert asked(address, PROXY, ANN, "POST", "/api/v1/sql", json=SQL).status_code == 200
    assert asked(address, PROXY, BOB).status_code == 200
    refused = asked(address, PROXY, BOB, "POST", "/api/v1/sql", json=SQL)
    assert (refused.status_code, refused.json()["error"]) == (403, "Only an operator may do this, and bob is a viewer.")
    refused = asked(address, PROXY, BOB, "POST", "/api/v1/incidents/nothing/acknowledge", json={})
    assert refused.status_code == 403
    [row] = read_rows(tables, "operator_actions")
    assert (row["name"], row["target"], row["result"]) == ("bob", "nothing", "REFUSED")


@pytest.mark.parametrize("more", [[], [("X-Forwarded-For", PROXY)], [("X-Real-IP", PROXY)], [("Accept", "text/html")]])
def test_the_header_counts_from_nobody_else(address, more):
    answer = asked(address, ELSEWHERE, [*ANN, *more])
    assert (answer.status_code, answer.json()["error"][:36]) == (401, "The proxy in front has named nobody:")


@pytest.mark.parametrize(
    "headers",
    [[], [ANN[1]], [("X-Forwarded-User", "")], [("X-Forwarded-User", "eve"), *ANN]],
    ids=["none", "groups alone", "empty", "twice"],
)
def test_a_proxy_that_names_nobody_or_two_lets_nobody_in(address, headers):
    assert asked(address, PROXY, headers).status_code == 401


@pytest.mark.parametrize("groups", [[], [("X-Forwarded-Groups", "sales")], [("X-Forwarded-Groups", "x"), ANN[1]]])
def test_a_person_without_a_role_is_refused(address, groups):
    answer = asked(address, PROXY, [("X-Forwarded-User", "eve"), *groups])
    assert (answer.status_code, "eve is signed in, and has no role here" in answer.text) == (403, True)


def test_programs_use_the_token(address):
    bearer = [("Authorization", f"Bearer {TOKEN}")]
    assert asked(address, ELSEWHERE, bearer).status_code == 200
    assert asked(address, PROXY, bearer).status_code == 200
    assert asked(address, PROXY, [*BOB, *bearer], "POST", "/api/v1/sql", json=SQL).status_code == 403  # bob it is


def test_a_websocket_needs_the_proxy_too(address):
    at = f"{address.replace('http', 'ws')}/socket"
    headers = dict(ANN)
    with connect(at, proxy=None, additional_headers=headers, source_address=(PROXY, 0), open_timeout=SECONDS):
        pass
    with pytest.raises(InvalidStatus, match=re.escape("403")):
        connect(at, proxy=None, additional_headers=headers, source_address=(ELSEWHERE, 0), open_timeout=SECONDS)
