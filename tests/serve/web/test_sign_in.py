"""Signing in at a real identity provider: what is accepted of it, what a role may do, and how a session ends."""

import asyncio
import logging
import re
import time
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI, WebSocket
from pydantic import SecretStr
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from streaming.base.errors import SettingsError
from streaming.base.settings import load_settings
from streaming.lab.security import Authority
from streaming.serve.store import Store
from streaming.serve.web import access as access_module
from streaming.serve.web import oidc as oidc_module
from streaming.serve.web.access import access
from streaming.serve.web.gate import SESSION_COOKIE, RequestGate
from streaming.serve.web.provider import SignInState
from streaming.serve.web.server import api_application
from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, identity_provider
from tests.support.mcp_client import over_http
from tests.support.served import answering
from tests.support.tables import append, make_tables, read_rows
from tests.support.waiting import until

pytestmark = pytest.mark.xdist_group("sign-in")

SECONDS = 60
"""Nothing but a hang takes so long."""
HTTP = {"timeout": SECONDS, "verify": False}
"""Nothing here is encrypted, and reading all public authorities takes 50 ms for each client."""
TOKEN = "a token of some length"
PAGE = {"Accept": "text/html"}
NOW = 1_795_300_000_000
ANN, BOB, EVE = "u-1", "u-2", "u-3"
ACK = "/api/v1/incidents/stuck/acknowledge"
SILENCE = "/api/v1/incidents/stuck/silence"
CLOSE = "/api/v1/incidents/stuck/close"
SQL = "/api/v1/sql"


@pytest.fixture(scope="module")
def provider():
    with identity_provider() as running:
        yield running


@pytest.fixture(autouse=True)
def right(provider):
    """Let the provider do nothing wrong after each test, and the log have each refusal."""
    yield
    logging.getLogger(oidc_module.__name__).filters.clear()
    provider.set()


def oidc(provider, **changed: object) -> dict[str, object]:
    """Return the settings of [web.sign_in]."""
    return {
        "kind": "oidc", "issuer": provider.issuer, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET,
        "operators": ["sre"], "viewers": ["dev"],
    } | changed  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    group = Group("pay", "Pay", ("10.0.0.5@pay-1",))
    group.state(NOW - 5 * MINUTE)
    group.incident(NOW - 2 * MINUTE, "stuck", "OPENED", NOW - 2 * MINUTE)
    folder = make_tables(tmp_path_factory.mktemp("sign-in") / "tables")
    append(folder, group.taken())
    return folder


@contextmanager
def api(tables, sign_in: dict[str, object], **web: object):
    """Serve REST and MCP over the tables; yields its address."""
    settings = load_settings(runtime={"root": tables.parent}, web={"token": TOKEN, "sign_in": sign_in, **web})
    with Store(tables) as store:
        app = api_application(settings, store, access("127.0.0.1", settings.web))

        @app.get("/page")
        def page() -> str:
            return "page"

        with answering(app) as address:
            yield address


@pytest.fixture(scope="module")
def address(provider, tables):
    with api(tables, oidc(provider)) as address:
        yield address


@pytest.fixture
def person(address):
    """A browser that nobody has used."""
    with browser(address) as client:
        yield client


@contextmanager
def browser(address: str):
    with httpx.Client(base_url=address, headers=PAGE, **HTTP) as client:
        yield client


def at_provider(client: httpx.Client, target: str = "/page") -> httpx.Response:
    """Open a page as somebody who has not signed in, up to the provider's form."""
    asked = client.get(target)
    assert asked.status_code == 303
    begun = client.get(asked.headers["location"])
    assert begun.status_code == 302
    form = httpx.get(begun.headers["location"], **HTTP)
    assert "<h1>Provider</h1>" in form.text, form.text
    return form


def callback_of(form: httpx.Response, subject: str) -> str:
    """Choose a person at the provider; returns the address to which it sends the browser."""
    chosen = httpx.post(form.url, data={"subject": subject}, **HTTP)
    assert chosen.status_code == 302, chosen.text
    return chosen.headers["location"]


def sign_in(client: httpx.Client, subject: str, target: str = "/page") -> httpx.Response:
    """Sign in; returns the answer to what the provider sends."""
    return client.get(callback_of(at_provider(client, target), subject))


def actions(tables) -> list[dict[str, object]]:
    return sorted(read_rows(tables, "operator_actions"), key=lambda row: row["time"])


# What a sign-in is.


def test_a_person_signs_in_and_is_led_to_what_was_asked_for(person):
    answer = sign_in(person, ANN, "/page?at=2h")

    assert (answer.status_code, answer.headers["location"]) == (303, "/page?at=2h")
    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=lax", "max-age=43200", "path=/;"))
    assert person.get("/page").status_code == 200


def test_the_provider_is_asked_for_a_code_with_pkce_and_a_nonce(person):
    begun = person.get("/login?next=/page")
    asked = {name: value[0] for name, value in parse_qs(urlsplit(begun.headers["location"]).query).items()}

    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["scope"] == "openid profile email"
    assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 20
    cookie = begun.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/login;"))


@pytest.mark.parametrize(
    "away", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\t/evil"]
)
def test_a_sign_in_leads_to_no_other_site(person, away):
    form = httpx.get(person.get("/login", params={"next": away}).headers["location"], **HTTP)

    assert person.get(callback_of(form, ANN)).headers["location"] == "/"


def test_the_client_s_secret_is_nowhere(person, provider, capfd, caplog):
    settings = load_settings(web={"sign_in": {"client_secret": CLIENT_SECRET}})
    assert CLIENT_SECRET not in repr(settings)
    assert CLIENT_SECRET not in repr(access("127.0.0.1", settings.web))
    answer = sign_in(person, ANN)
    assert CLIENT_SECRET not in f"{answer.headers}{answer.text}{capfd.readouterr()}"
    person.cookies.clear()
    provider.set("echo")  # a provider that repeats what it was sent
    refused = sign_in(person, ANN)
    assert (refused.status_code, "invalid_client" in caplog.text) == (403, True)
    assert CLIENT_SECRET not in f"{refused.text}{caplog.text}{capfd.readouterr()}"


def test_what_the_id_token_lacks_is_asked_of_userinfo(person, provider):
    provider.set("userinfo")
    assert sign_in(person, ANN).status_code == 303
    assert person.post(SQL, json={"query": "SELECT 1"}).status_code == 200  # an operator: the groups are known


def test_a_new_key_of_the_provider_is_taken_and_the_former_one_is_not(person, provider):
    assert sign_in(person, ANN).status_code == 303
    provider.rotate_keys()
    provider.set("former key")
    person.cookies.clear()
    assert sign_in(person, ANN).status_code == 403
    provider.set()
    assert sign_in(person, ANN).status_code == 303


# What is not accepted.


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("audience", "Invalid claim: 'aud'"),
        ("azp", "Invalid claim: 'aud'"),
        ("issuer", "Invalid claim: 'iss'"),
        ("nonce", "Invalid claim: 'nonce'"),
        ("no nonce", "Missing claim: 'nonce'"),
        ("expired", "expired_token"),
        ("other key", "bad_signature"),
        ("unsigned", "unsupported_algorithm"),
        ("no id token", "no id token"),
    ],
)
def test_a_wrong_id_token_opens_no_session(person, provider, caplog, fault, reason):
    form = at_provider(person)
    provider.set(fault)
    answer = person.get(callback_of(form, ANN))

    assert (answer.status_code, SESSION_COOKIE in person.cookies) == (403, False)
    assert "sign in again" in answer.text
    assert reason in caplog.text
    assert person.get("/page").status_code == 303


def test_an_answer_of_the_provider_counts_once(person):
    form = at_provider(person)
    cookies = dict(person.cookies)  # with the state of the sign-in
    callback = callback_of(form, ANN)
    assert person.get(callback).status_code == 303

    person.cookies.clear()
    for name, value in cookies.items():
        person.cookies.set(name, value, path="/login")
    replayed = person.get(callback)
    assert (replayed.status_code, SESSION_COOKIE in person.cookies) == (403, False)
    assert "mismatching_state" in replayed.text


def test_an_answer_of_the_provider_counts_only_for_the_browser_that_asked(person, address):
    callback = callback_of(at_provider(person), ANN)
    with browser(address) as other:
        at_provider(other)  # it has a sign-in of its own under way
        answer = other.get(callback)
        assert (answer.status_code, SESSION_COOKIE in other.cookies) == (403, False)
        assert "mismatching_state" in answer.text


def test_a_forged_cookie_of_a_sign_in_is_none(person):
    callback = callback_of(at_provider(person), ANN)
    [(name, value)] = person.cookies.items()
    person.cookies.clear()
    person.cookies.set(name, value[:-4] + "AAAA", path="/login")

    assert "mismatching_state" in person.get(callback).text


@pytest.mark.parametrize("query", ["", "?code=x", "?state=x", "?code=x&state=x", "?error=access_denied&state=x"])
def test_a_callback_without_a_sign_in_is_refused(person, query):
    answer = person.get(f"/login/callback{query}")
    assert (answer.status_code, answer.text.count("<h1>")) == (403, 1)


def test_a_person_who_declines_is_told_so(person):
    form = at_provider(person)
    answer = httpx.post(form.url, data={"subject": ""}, **HTTP)
    refused = person.get(answer.headers["location"])
    assert (refused.status_code, "access_denied" in refused.text) == (403, True)


def test_a_person_without_a_role_gets_no_session(person):
    answer = sign_in(person, EVE)

    assert (answer.status_code, SESSION_COOKIE in person.cookies) == (403, False)
    assert "eve is signed in, and has no role here" in answer.text


def test_a_provider_that_does_not_answer_is_said(person, provider):
    form = at_provider(person)
    callback = callback_of(form, ANN)
    provider.set("down")
    answer = person.get(callback)
    assert (answer.status_code, "can&#39;t be used at present" in answer.text) == (502, True)


@pytest.mark.parametrize("others", [100, pytest.param(10_000, marks=pytest.mark.prove)])
def test_who_begins_sign_ins_takes_none_of_another_person(person, address, others):
    callback = callback_of(at_provider(person), ANN)
    with browser(address) as anybody:
        for _ in range(others):
            assert anybody.get("/login").status_code == 302
            anybody.cookies.clear()
    assert person.get(callback).status_code == 303


async def _state_after(others: int) -> tuple[dict | None, dict | None]:
    states, own, *sessions_of_others = SignInState(), {}, *({} for _ in range(others))
    await states.set_state_data(own, "own", {"nonce": "n", "url": "u"})
    for number, session in enumerate(sessions_of_others):
        await states.set_state_data(session, str(number), {"nonce": "n"})
        await states.clear_state_data(session, str(number))
        await states.clear_state_data({}, f"never begun {number}")
    before = await states.get_state_data(own, "own")
    copy = dict(own)
    await states.clear_state_data(own, "own")
    return before, await states.get_state_data(copy, "own")


def test_a_pending_sign_in_stays_and_an_ended_one_does_not_come_back():
    assert asyncio.run(_state_after(10_000)) == ({"nonce": "n"}, None)


def test_the_state_fits_into_a_cookie_whatever_was_asked_for(person):
    for target in ("/page?a=" + "x" * 1_980, "/page?a=" + "x" * 5_000, "/页" + "面" * 900):
        begun = person.get("/login", params={"next": target})
        assert len(begun.headers["set-cookie"]) <= 4_096


@pytest.mark.parametrize("fault", ["script", "file", "keys in clear text", "userinfo in clear text"])
def test_an_address_of_the_provider_that_is_no_https_is_not_used(provider, tables, fault, caplog):
    provider.set(fault)
    with api(tables, oidc(provider)) as address, browser(address) as person:
        assert person.get("/login").status_code == 502
        assert "that is no https address" in caplog.text


@pytest.mark.parametrize("fault", ["other issuer", "down"])
def test_a_provider_that_is_another_one_is_not_used(provider, tables, fault):
    provider.set(fault)
    with api(tables, oidc(provider)) as address, browser(address) as person:
        assert person.get("/login").status_code == 502
        provider.set()
        assert person.get("/login").status_code == 302


def test_a_provider_of_one_s_own_authority_is_trusted_by_that_alone(tables, tmp_path):
    authority = Authority(tmp_path / "authority")
    with identity_provider(authority.issue("id")) as https:
        for ca_file, status in ((authority.ca_file, 303), ("", 502)):
            with api(tables, oidc(https, ca_file=str(ca_file))) as address, browser(address) as person:
                answer = sign_in(person, ANN) if ca_file else person.get("/login")
                assert answer.status_code == status


# What a role may do.


def test_a_viewer_sees_everything_and_changes_nothing(person, tables):
    sign_in(person, BOB)
    before = len(actions(tables))

    assert person.get("/api/v1/incidents/stuck").status_code == 200
    sentence = "Only an operator may do this, and bob is a viewer."
    asked = {ACK: {"reason": "x"}, SILENCE: {"reason": "x", "for": "2h"}, CLOSE: {"reason": "x"}}
    for path, body in {**asked, SQL: {"query": "SELECT 1"}}.items():
        answer = person.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]) == (403, sentence), path
    assert read_rows(tables, "alert_controls") == []
    refused = [row for row in actions(tables)[before:] if row["action"] != "SQL"]
    assert [
        (row["subject"], row["name"], row["action"], row["target"], row["result"], row["message"]) for row in refused
    ] == [(BOB, "bob", action, "stuck", "REFUSED", sentence) for action in ("ACKNOWLEDGE", "SILENCE", "CLOSE")]


def test_a_viewer_runs_no_sql_by_mcp(person, address):
    sign_in(person, BOB)
    with over_http(address, cookie=f"{SESSION_COOKIE}={person.cookies[SESSION_COOKIE]}") as model:
        assert model.refusal("sql", query="SELECT 1") == "Only an operator may do this, and bob is a viewer."
        assert model.ask("list_groups")["answer"][0]["group"] == "pay"


def test_an_operator_acts_under_the_name_of_the_provider(provider, tmp_path):
    group = Group("pay", "Pay", ("10.0.0.5@pay-1",))
    group.state(NOW - 5 * MINUTE)
    group.incident(NOW - 2 * MINUTE, "stuck", "OPENED", NOW - 2 * MINUTE)
    own = make_tables(tmp_path / "tables")
    append(own, group.taken())
    with api(own, oidc(provider)) as address, browser(address) as person:
        sign_in(person, ANN)
        assert person.post(ACK, json={"by": "somebody else", "reason": "mine"}).json()["author"] == "ann"
        assert person.post(SILENCE, json={"reason": "x", "for": "2h"}).status_code == 200
        until(lambda: len(person.get("/api/v1/actions").json()) == 2, SECONDS)
        listed = person.get("/api/v1/actions").json()
        assert person.post(SQL, json={"query": "SELECT 1"}).status_code == 200
        person.cookies.clear()
        sign_in(person, BOB)
        assert person.post(SQL, json={"query": "SELECT 2"}).status_code == 403
    sql = [row for row in actions(own) if row["action"] == "SQL"]
    assert [(row["subject"], row["name"], row["detail"], row["result"], row["rows"]) for row in sql] == [
        (ANN, "ann", "SELECT 1", "DONE", 1), (BOB, "bob", "SELECT 2", "REFUSED", None),
    ]  # fmt: skip
    assert {row["author"] for row in read_rows(own, "alert_controls")} == {"ann"}
    assert [(row["name"], row["subject"], row["action"], row["source"], row["result"]) for row in listed] == [
        ("ann", ANN, "SILENCE", "REST", "DONE"), ("ann", ANN, "ACKNOWLEDGE", "REST", "DONE"),
    ]  # fmt: skip


def test_programs_use_the_token_as_before(person):
    answer = person.get("/api/v1/groups", headers={"Accept": "*/*"})
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert person.get("/metrics", headers=bearer).status_code == 200
    assert person.post(SQL, json={"query": "SELECT 1"}, headers=bearer).status_code == 200
    assert person.post(ACK, json={}, headers=bearer).json()["error"] == "by: Field required."
    # The token's own form is not another way in for people.
    assert person.post("/login", data={"token": TOKEN}).status_code == 405


# How a session ends.


def test_signing_out_ends_the_session_here_and_at_the_provider(person):
    sign_in(person, ANN)
    session = person.cookies[SESSION_COOKIE]
    left = person.post("/logout")

    assert (left.status_code, SESSION_COOKIE in person.cookies) == (200, False)
    there = re.search(r'location\.replace\("([^"]+)"\)', left.text)[1]
    back = httpx.get(there, **HTTP).headers["location"]
    assert back.partition("?")[0] == f"{str(person.base_url).rstrip('/')}/login/ended"
    assert "You have signed out." in person.get("/login/ended").text
    person.cookies.set(SESSION_COOKIE, session)  # a copy of the cookie
    assert person.get("/page").status_code == 303


def test_a_session_ends_after_its_hours(provider, tables, monkeypatch):
    with api(tables, oidc(provider, session_hours=2)) as address, browser(address) as person:
        assert "max-age=7200" in sign_in(person, ANN).headers["set-cookie"].lower()
        for hours, status in ((1.9, 200), (2.1, 303)):
            later = SimpleNamespace(monotonic=lambda hours=hours: time.monotonic() + hours * 3600)
            monkeypatch.setattr(access_module, "time", later)
            assert person.get("/page").status_code == status


def test_a_websocket_needs_a_session_and_ends_with_it():
    allowed = access("127.0.0.1", load_settings(web={"token": TOKEN}).web)
    app, received = FastAPI(), []
    app.add_middleware(RequestGate, access=allowed)

    @app.websocket("/socket")
    async def echo(websocket: WebSocket) -> None:
        await websocket.accept()
        try:
            while True:
                received.append(await websocket.receive_text())
                await websocket.send_text("heard")
        except WebSocketDisconnect:
            received.append("ended")

    with answering(app) as address, ExitStack() as stack:
        at = f"{address.replace('http', 'ws')}/socket"
        with pytest.raises(InvalidStatus):
            connect(at, proxy=None, open_timeout=SECONDS)
        session = allowed.sessions.begin()
        cookie = {"Cookie": f"{SESSION_COOKIE}={session}"}
        opened = stack.enter_context(connect(at, proxy=None, additional_headers=cookie, open_timeout=SECONDS))
        opened.send("first")
        assert opened.recv(timeout=SECONDS) == "heard"
        allowed.sessions.end(session)
        opened.send("late")
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(timeout=SECONDS)
    assert closed.value.rcvd.code == 1008
    assert received == ["first", "ended"]


# Behind TLS, and wrong settings.


def test_behind_tls_the_cookies_and_the_address_to_come_back_are_of_https(provider, tables):
    with api(tables, oidc(provider), url="https://watch.example/rw") as address, browser(address) as person:
        begun = person.get("/rw/login")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert asked["redirect_uri"] == ["https://watch.example/rw/login/callback"]
        assert "secure" in begun.headers["set-cookie"].lower()
        assert "path=/rw/login;" in begun.headers["set-cookie"].lower()
        [(name, value)] = begun.cookies.items()
        form = httpx.get(begun.headers["location"], **HTTP)
        query = urlsplit(callback_of(form, ANN)).query
        answer = person.get(f"/rw/login/callback?{query}", headers={"Cookie": f"{name}={value}"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/rw/")
        session = answer.headers["set-cookie"].lower()
        assert "secure" in session
        assert "path=/rw;" in session


def test_an_authority_that_cannot_be_used_stops_the_start(tables, tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    sign_in = {"kind": "oidc", "issuer": "https://id.example", "client_id": "x", "operators": ["*"]}
    sign_in |= {"ca_file": str(tmp_path / "ca.pem"), "client_secret": SecretStr("x")}
    with pytest.raises(SettingsError, match=r"correct web\.sign_in\.ca_file\."), api(tables, sign_in):
        pass
