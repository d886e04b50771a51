"""The dashboard below a path prefix, through a real proxy: links, forms, redirects, websocket, assets."""

import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import quote

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.serve.dashboard.tables import CLIENTS, Group, current_root
from tests.support.mcp_client import over_http
from tests.support.proxy import proxied
from tests.support.served import served
from tests.support.tables import append

PREFIX = "/ops/rw"
TOKEN = "a token of some length"
NOW = time.time_ns() // 1_000_000
"""The time at which the clock of the server stands still."""
expect.set_options(timeout=40_000)  # beside other tests on two cores


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A runtime root with the tables of `NOW`."""
    return current_root(tmp_path_factory.mktemp("prefix"), NOW)


@pytest.fixture(scope="module")
def server(root, browser):
    """The dashboard's own address; with the browser, so that all tests of it are in one group, which starts it once."""
    settings = {"WEB__URL": f"http://127.0.0.1{PREFIX}/", "WEB__TOKEN": TOKEN}
    with served("dashboard", root, now=NOW, asks_again="none", **settings) as address:
        yield address


_FORMS = [pytest.param(False, id="passed on", marks=pytest.mark.prove), pytest.param(True, id="removed")]


@pytest.fixture(scope="module", params=_FORMS)
def base(request, server):
    """The address of the proxy, which passes the prefix on or removes it."""
    with proxied(server, PREFIX, strips=request.param) as address:
        yield address


@pytest.fixture(scope="module")
def signed_in(browser, base):
    """A tab that has signed in, and a list of what has failed in it: scripts, and requests that are not below the
    prefix or do not succeed.
    """
    with browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US") as context:
        opened = context.new_page()
        failed: list[str] = []
        opened.on("pageerror", lambda error: failed.append(str(error)))
        opened.on("response", lambda answer: answer.status >= 400 and failed.append(f"{answer.status} {answer.url}"))
        opened.on(
            "request", lambda request: request.url.startswith((base, "data:", "blob:")) or failed.append(request.url)
        )
        sockets = base.replace("http", "ws")
        opened.on("websocket", lambda socket: socket.url.startswith(sockets) or failed.append(socket.url))
        opened.goto(base)
        opened.get_by_label("Token").fill(TOKEN)
        opened.get_by_role("button", name="Log in").click()
        expect(opened.get_by_role("heading", name="Consumer groups").first).to_be_visible()
        yield opened, failed


@pytest.fixture
def page(signed_in):
    """The tab; nothing has failed in it."""
    opened, failed = signed_in
    yield opened
    assert failed == []


@contextmanager
def chat(link: str):
    """Serve a page of another site with a link in it; yield its address."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<a href="{link}">alert</a>'.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def test_a_browser_logs_in_once_and_follows_a_link_of_another_site(base, browser):
    with browser.new_context(color_scheme="dark") as context:
        page = context.new_page()
        page.set_default_timeout(40_000)
        page.goto(f"{base}/group/orders-group?span=1h")
        assert page.url.startswith(f"{base}/login?next=")
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()

        page.get_by_label("Token").fill("something else")
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{base}/group/orders-group?span=1h")
        page.get_by_role("heading", level=1, name="orders-group").wait_for()

        with chat(f"{base}/incident/stuck0001") as elsewhere:
            page.goto(elsewhere)
            page.get_by_role("link", name="alert").click()
            page.get_by_role("heading", level=1).wait_for()
        assert page.url == f"{base}/incident/stuck0001"
        [cookie] = [one for one in context.cookies() if one["name"] == "rebalance-watch-session"]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie").find("rebalance-watch-session") == -1


def foreign_links(page, base):
    """Return the links and forms of a page that lead outside of the prefix."""
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    links = page.eval_on_selector_all("a[href], form[action]", "all => all.map(one => one.href ?? one.action)")
    assert len(links) > 4
    return [link for link in links if not re.match(rf"{re.escape(base)}([/?#]|$)", link)]


def test_a_user_goes_through_every_kind_of_page(page, base):
    assert page.url.rstrip("/") == base
    session = [one for one in page.context.cookies() if one["name"] == "rebalance-watch-session"]
    assert [one["path"] for one in session] == [PREFIX]
    assert foreign_links(page, base) == []

    page.get_by_role("link", name="orders-group", exact=True).first.click()
    expect(page).to_have_url(re.compile(f"^{base}/group/orders-group"))
    stuck = page.get_by_role("link", name=re.compile("Orders:0 is stuck")).first
    stuck.wait_for()
    assert foreign_links(page, base) == []
    stuck.click()
    expect(page).to_have_url(re.compile(f"^{base}/incident/"))
    opening = page.get_by_role("link", name="Group at opening")
    opening.wait_for()
    assert foreign_links(page, base) == []
    opening.click()
    expect(page).to_have_url(re.compile(f"^{base}/group/orders-group.*at="))
    page.get_by_role("link", name=re.compile("What if")).first.click()
    expect(page).to_have_url(re.compile(f"^{base}/group/orders-group/what-if"))
    page.locator("form.pad button").first.click()
    expect(page).to_have_url(re.compile(rf"^{base}/group/orders-group/what-if\?"))
    for name, path in (("Incidents", "incidents"), ("Clients", "clients"), ("Groups", "")):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page).to_have_url(re.compile(f"^{base}/{path}$"))
        assert foreign_links(page, base) == [], name
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("navigation", name="页面")).to_be_visible()
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def test_every_link_of_the_other_pages_is_below_the_prefix(page, base):
    queue, client = "Orders/broker-a/0", quote(CLIENTS[0], safe="")
    for path in (
        "", "/group/orders-group/what-if?restart=true", "/group/orders-group/rebalance/r1",
        f"/group/orders-group/queue/{queue}", f"/client/{client}",
    ):  # fmt: skip
        page.goto(base + path)
        assert foreign_links(page, base) == [], path


def test_an_open_page_follows_the_tables_and_finds(page, base, root):
    page.goto(f"{base}/")
    expect(page.get_by_role("link", name="orders-group", exact=True).first).to_be_visible()
    name = f"later-{base.split(':')[2].partition('/')[0]}"  # of this proxy
    later = Group(name, "Later", ("10.0.0.9@later-1",))
    later.state(NOW)
    append(root / "tables", later.taken())

    expect(page.get_by_role("link", name=name, exact=True).first).to_have_attribute(
        "href", re.compile(f"^{PREFIX}/group/{name}")
    )
    page.get_by_role("searchbox").first.press_sequentially("orders")
    expect(page).to_have_url(re.compile(f"^{base}/.*find=orders"))
    link = page.get_by_role("link", name="orders-group", exact=True).first
    expect(link).to_have_attribute("href", re.compile(f"^{PREFIX}/group/orders-group"))


def test_programs_reach_rest_metrics_and_mcp(base):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(headers=bearer, timeout=60) as client:
        assert "orders-group" in [one["group"] for one in client.get(f"{base}/api/v1/groups").json()]
        assert client.get(f"{base}/api/v1/openapi.json").json()["servers"] == [{"url": PREFIX}]
        assert "rocketmq_consumer_group_status" in client.get(f"{base}/metrics").text
        assert client.get(f"{base}/healthz").json() == {"alive": True}
    with over_http(base, TOKEN) as model:
        assert "orders-group" in [one["group"] for one in model.ask("list_groups")["answer"]]


def test_redirects_and_forms_have_the_prefix(base):
    with httpx.Client(headers={"Accept": "text/html"}, timeout=60) as client:
        asked = client.get(f"{base}/group/orders-group?span=1h")
        assert (asked.status_code, asked.headers["location"]) == (
            303, f"{PREFIX}/login?next=%2Fops%2Frw%2Fgroup%2Forders-group%3Fspan%3D1h",
        )  # fmt: skip
        form = client.get(f"{base}/login?next=%2Fops%2Frw%2Fincidents").text
        assert f'action="{PREFIX}/login"' in form
        answer = client.post(f"{base}/login", data={"token": TOKEN, "next": "//evil.example"})
        assert answer.headers["location"] == f"{PREFIX}/"
        assert f"Path={PREFIX};" in answer.headers["set-cookie"]
        left = client.post(f"{base}/logout", headers={"Accept": "text/html"})
        assert left.headers["location"] == f"{PREFIX}/login"


def test_assets_are_kept_by_the_browser(base):
    page = httpx.get(f"{base}/", headers={"Authorization": f"Bearer {TOKEN}", "Accept": "text/html"}, timeout=60).text
    script = re.search(r'src="([^"]+/static/nicegui\.js)"', page)[1]
    assert script.startswith(f"{PREFIX}/_nicegui/")
    asset = httpx.get(base.removesuffix(PREFIX) + script, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
    assert asset.status_code == 200
    assert "immutable" in asset.headers["cache-control"]


def test_the_websocket_needs_the_token_below_the_prefix_too(base):
    address = base.replace("http", "ws") + "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    with connect(address, additional_headers={"Authorization": f"Bearer {TOKEN}"}, open_timeout=60) as opened:
        assert opened.recv(timeout=60).startswith("0{")
    with pytest.raises(InvalidStatus), connect(address, open_timeout=60):
        pass


def test_no_header_of_a_client_changes_the_addresses(server):
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/html", "X-Forwarded-Prefix": "/evil"}
    assert "/evil" not in httpx.get(f"{server}/", headers=headers, timeout=60).text
