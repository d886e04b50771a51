"""The gate: which requests and websockets it admits, and the headers of its answers."""

import asyncio
import socket
from contextlib import ExitStack
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, WebSocket
from pydantic import SecretStr
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from streaming.base.limits import LOGIN_FAILURES, LOGIN_TURNS, REQUEST_BYTES
from streaming.base.settings import load_settings
from streaming.serve.store import Store
from streaming.serve.web import access as access_module
from streaming.serve.web.access import TooManyError, access
from streaming.serve.web.gate import SESSION_COOKIE, RequestGate
from streaming.serve.web.login import login_routes
from streaming.serve.web.server import api_application
from tests.support.served import PROBLEM, answering

pytestmark = pytest.mark.xdist_group("web")  # one server of each kind for all of them

SECONDS = 60
"""Nothing but a hang takes so long."""
TOKEN = "a token of some length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PAGE = {"Accept": "text/html,*/*"}
PUBLIC = "https://watch.example"
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def application(**web: object) -> FastAPI:
    allowed = access("127.0.0.1", load_settings().web.model_copy(update=web))
    app = FastAPI()
    app.add_middleware(RequestGate, access=allowed)
    app.include_router(login_routes(allowed))

    @app.get("/{path:path}")
    def anything(path: str) -> dict[str, str]:
        return {"path": path}

    @app.websocket("/socket")
    async def socket_of(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("hello")

    return app


@pytest.fixture(scope="module")
def addresses():
    """Serve without a token, with one, and with one behind a named proxy; the addresses by name."""
    with ExitStack() as stack:
        yield {
            "open": stack.enter_context(answering(application())),
            "closed": stack.enter_context(answering(application(token=SecretStr(TOKEN)))),
            "behind": stack.enter_context(answering(application(token=SecretStr(TOKEN), url=PUBLIC))),
        }


@pytest.fixture
def free(addresses):
    with httpx.Client(base_url=addresses["open"], timeout=SECONDS) as client:
        yield client


@pytest.fixture
def closed(addresses):
    with httpx.Client(base_url=addresses["closed"], timeout=SECONDS) as client:
        yield client


@pytest.fixture
def behind(addresses):
    with httpx.Client(base_url=addresses["behind"], timeout=SECONDS) as client:
        yield client


def accepts_websocket(client: httpx.Client, host: str | None = None, **headers: str) -> bool:
    """Return whether the server accepts a websocket with these headers."""
    at = urlsplit(str(client.base_url)).netloc
    connection = socket.create_connection(("127.0.0.1", int(at.rpartition(":")[2])))
    try:
        asked = connect(
            f"ws://{host or at}/socket", sock=connection, additional_headers=headers, proxy=None, open_timeout=SECONDS
        )
    except InvalidStatus:
        return False
    with asked as websocket:
        return websocket.recv(timeout=SECONDS) == "hello"


def own(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/")


@pytest.mark.parametrize("name", ["127.0.0.1:8411", "localhost", "LOCALHOST:80", "[::1]:8411"])
def test_loopback_names_in_the_host_header_are_served(free, name):
    assert free.get("/x", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8411", "127.0.0.1.evil.example", "", "[::1].evil:1"])
def test_a_foreign_name_in_the_host_header_is_refused(free, name):
    answer = free.get("/x", headers={"Host": name})

    assert (answer.status_code, list(answer.json())) == (400, PROBLEM)


def test_a_websocket_with_a_foreign_host_header_is_refused(free):
    assert not accepts_websocket(free, host="evil.example")


def test_the_configured_name_of_a_proxy_is_served(behind):
    assert behind.get("/x", headers={**BEARER, "Host": "watch.example"}).status_code == 200
    assert behind.get("/x", headers={**BEARER, "Origin": PUBLIC}).status_code == 200
    assert behind.get("/x", headers={**BEARER, "Origin": "http://watch.example"}).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:9999", "null", "http://localhost:1"])
def test_a_foreign_origin_gets_neither_data_nor_a_websocket(free, origin):
    assert free.get("/x", headers={"Origin": origin}).status_code == 403
    assert free.post("/x", headers={"Origin": origin}).status_code == 403
    assert not accepts_websocket(free, origin=origin)
    assert free.options("/x", headers={"Origin": origin}).headers.get("access-control-allow-origin") is None


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_can_only_link_to_pages(free, site):
    """Without a token, and without Origin, as of an image or a script: nothing else would tell it from a scraper."""
    for mode, dest in (("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
        part = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
        assert free.get("/api/v1/groups/g/what-if?join=1000", headers=part).status_code == 403
        assert free.get("/group/g", headers=part).status_code == 403
    link = LINK | {"Sec-Fetch-Site": site}
    assert free.get("/group/g", headers=link).status_code == 200
    assert free.get("/api/v1/groups/g/what-if", headers=link).status_code == 403
    assert free.get("/metrics", headers=link).status_code == 403
    assert free.post("/group/g", headers=link).status_code == 403
    for own_site in ("same-origin", "none"):
        own_part = {"Sec-Fetch-Site": own_site, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
        assert free.get("/api/v1/groups", headers=own_part).status_code == 200


def test_its_own_origin_gets_data_and_a_websocket(free):
    assert free.get("/x", headers={"Origin": own(free)}).status_code == 200
    assert accepts_websocket(free, origin=own(free))
    assert accepts_websocket(free)


@pytest.mark.parametrize("path", ["/x", "/api/v1/groups", "/metrics", "/login/", "/_nicegui/x.js"])
def test_with_a_token_set_every_path_needs_it(closed, path):
    answer = closed.get(path)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert closed.get(path, headers=BEARER).status_code == 200
    assert closed.get(path, headers={"Authorization": f"bearer  {TOKEN}"}).status_code == 200
    for wrong in ("Bearer", "Bearer x", f"Basic {TOKEN}", TOKEN):
        assert closed.get(path, headers={"Authorization": wrong}).status_code == 401


def test_with_a_token_set_the_websocket_needs_it(closed):
    assert not accepts_websocket(closed)
    assert accepts_websocket(closed, authorization=f"Bearer {TOKEN}")


@pytest.mark.parametrize("way", ["form", "header"])
def test_after_too_many_wrong_tokens_the_right_one_is_still_let_in(way):
    """By form and by header alike; who is logged in already is not affected."""
    with (
        answering(application(token=SecretStr(TOKEN))) as address,
        httpx.Client(base_url=address, timeout=SECONDS) as client,
        httpx.Client(base_url=address, timeout=SECONDS) as inside,
    ):
        inside.post("/login", data={"token": TOKEN})

        def attempt(token: str) -> httpx.Response:
            if way == "form":
                return client.post("/login", data={"token": token})
            return client.get("/x", headers={"Authorization": f"Bearer {token}"})

        statuses = [attempt(f"wrong {number}").status_code for number in range(LOGIN_FAILURES)]
        assert set(statuses) == {401}
        refused = attempt("wrong again")
        assert (refused.status_code, "retry in" in refused.text) == (429, True)
        assert refused.headers["Content-Type"].startswith("text/html" if way == "form" else "application/problem+json")
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert client.get("/x").status_code == 401
        assert inside.get("/x").status_code == 200
        assert client.get("/x", headers=BEARER).status_code == 200
        assert attempt(TOKEN).status_code == (303 if way == "form" else 200)


def test_who_guesses_many_at_a_time_learns_of_one_a_second(monkeypatch):
    """Most are refused without being compared: the answer to the right one among them is the same."""
    allowed = access("127.0.0.1", load_settings().web.model_copy(update={"token": SecretStr(TOKEN)}))
    compared, waited = [], []
    monkeypatch.setattr(type(allowed), "knows", lambda _, token: compared.append(token) or token == TOKEN)
    monkeypatch.setattr(access_module, "time", SimpleNamespace(monotonic=lambda: 1_000.0))

    async def no_sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr(access_module, "asyncio", SimpleNamespace(sleep=no_sleep))
    for number in range(LOGIN_FAILURES):
        assert not asyncio.run(allowed.check(f"wrong {number}", "10.0.0.1"))
    compared.clear()
    for number in range(100):
        with pytest.raises(TooManyError):
            asyncio.run(allowed.check(TOKEN if number == 50 else f"wrong {number}", "10.0.0.1"))
    assert len(compared) == LOGIN_TURNS + 1
    assert waited == list(range(1, LOGIN_TURNS + 1))
    assert asyncio.run(allowed.check(TOKEN, "10.0.0.2"))


def test_a_header_of_who_is_no_trusted_proxy_is_ignored(tmp_path):
    """Each request says another address and scheme: its tokens count all the same, and its cookie is Secure."""
    with Store(tmp_path / "tables") as store:
        for trusted, last in (([], 429), (["127.0.0.1", "10.1.2.3/8"], 401)):
            settings = load_settings(runtime={"root": tmp_path}, web={"token": TOKEN, "trusted_proxies": trusted})
            app = api_application(settings, store, access("127.0.0.1", settings.web))
            with answering(app) as address, httpx.Client(base_url=address, timeout=SECONDS) as client:
                for number in range(LOGIN_FAILURES + 1):
                    said = {"X-Forwarded-For": f"10.0.0.1, 192.0.2.{number}, 10.0.0.2", "X-Forwarded-Proto": "https"}
                    status = client.post("/login", data={"token": "wrong"}, headers=said).status_code
                assert status == last
                cookie = client.post("/login", data={"token": TOKEN}, headers=said).headers["Set-Cookie"]
                assert ("Secure" in cookie) == bool(trusted)


@pytest.mark.parametrize("web", [{"url": PUBLIC}, {"certificate_file": "x.pem", "key_file": "x.key"}])
def test_no_header_takes_secure_from_a_cookie(tmp_path, web):
    with Store(tmp_path / "tables") as store:
        given = {"token": TOKEN, "trusted_proxies": ["127.0.0.1"], **web}
        settings = load_settings(runtime={"root": tmp_path}, web=given)
        app = api_application(settings, store, access("127.0.0.1", settings.web))
        with answering(app) as address:
            said = {"X-Forwarded-Proto": "http"}
            answer = httpx.post(f"{address}/login", data={"token": TOKEN}, headers=said, timeout=SECONDS)
    assert "; Secure" in answer.headers["Set-Cookie"]


def test_a_body_that_is_too_large_or_has_no_length_is_not_read(free):
    """Of 5 GB the server would keep 5 GB, before it looks whether it is JSON."""
    assert free.post("/login", content=b"x" * 1_000).status_code == 401
    assert free.post("/login", content=b"x" * (REQUEST_BYTES + 1)).status_code == 413
    assert free.post("/login", content=iter([b"x"])).status_code == 411


def test_a_path_in_the_host_header_is_refused(closed):
    assert closed.get("/x", headers={"Host": "127.0.0.1/login?"}).status_code == 400


def test_a_browser_is_redirected_to_the_login_form_and_back(closed):
    answer = closed.get("/group/%25RETRY%25?at=1&x=a%20b", headers=PAGE)
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/login?next=%2Fgroup%2F%2525RETRY%2525%3Fat%3D1%26x%3Da%2520b",
    )
    form = closed.get(answer.headers["Location"], headers=PAGE)
    assert 'value="/group/%25RETRY%25?at=1&amp;x=a%20b"' in form.text
    wrong = closed.post("/login", data={"token": "x", "next": "/"}, headers={"Origin": own(closed)})
    assert (wrong.status_code, "Invalid token" in wrong.text) == (401, True)
    assert SESSION_COOKIE not in wrong.cookies

    given = closed.post("/login", data={"token": TOKEN, "next": "/group/g?at=1"}, headers={"Origin": own(closed)})
    assert (given.status_code, given.headers["Location"]) == (303, "/group/g?at=1")
    cookie = given.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert TOKEN not in cookie
    assert closed.get("/x").status_code == 200
    assert accepts_websocket(closed, cookie=f"{SESSION_COOKIE}={closed.cookies[SESSION_COOKIE]}")

    copied = {"Cookie": f"{SESSION_COOKIE}={closed.cookies[SESSION_COOKIE]}"}
    out = closed.post("/logout", headers={"Origin": own(closed)})
    assert out.headers["Location"] == "/login"
    assert closed.get("/x").status_code == 401
    assert closed.get("/x", headers=copied).status_code == 401, "a copy of the cookie has ended with it"


def test_the_cookie_is_secure_if_the_proxy_serves_https(behind):
    assert "Secure" in behind.post("/login", data={"token": TOKEN}).headers["Set-Cookie"]


@pytest.mark.parametrize("away", ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil", "evil", ""])
def test_the_form_redirects_to_no_other_site(closed, away):
    given = closed.post("/login", data={"token": TOKEN, "next": away})

    assert given.headers["Location"] == "/"


def test_the_form_escapes_its_parameters(closed):
    form = closed.get("/login", params={"next": '/"><script>alert(1)</script>'})

    assert "<script>" not in form.text


def test_a_login_form_that_is_too_long_is_not_read(closed):
    given = closed.post("/login", data={"x": "y" * 100_000, "token": TOKEN})

    assert given.status_code == 401


def test_without_a_token_set_the_login_form_redirects(free):
    assert free.get("/login", params={"next": "/x"}).headers["Location"] == "/x"
    assert free.post("/login", data={"token": ""}).status_code == 401


def test_a_link_from_another_site_reloads_so_that_the_cookie_is_sent(closed):
    answer = closed.get("/incident/1", headers={**PAGE, **LINK})
    assert (answer.status_code, 'http-equiv="refresh" content="0"' in answer.text) == (200, True)
    assert closed.get("/incident/1", headers={**PAGE, "Sec-Fetch-Site": "same-origin"}).status_code == 303


@pytest.mark.parametrize("path", ["/x", "/login?next=/"])
def test_every_answer_has_the_security_headers(closed, path):
    for answer in (closed.get(path, headers=BEARER), closed.get(path)):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
