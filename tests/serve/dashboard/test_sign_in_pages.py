"""Signing in with a real browser, through a proxy with a path prefix, at a real provider on another site."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from streaming.serve.web.gate import SESSION_COOKIE
from tests.serve.dashboard.conftest import SIZES
from tests.serve.dashboard.tables import current_root
from tests.support.chromium import inaccessible
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, identity_provider
from tests.support.proxy import proxied
from tests.support.served import served
from tests.support.tables import read_rows

PREFIX = "/ops/rw"
expect.set_options(timeout=40_000)  # beside other tests on two cores


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return current_root(tmp_path_factory.mktemp("sign-in-pages"))


@pytest.fixture(scope="module")
def base(root):
    """The address of the dashboard for people."""
    secret = root / "secret"
    secret.write_text(f"{CLIENT_SECRET}\n")
    started: list[str] = []
    with identity_provider() as provider, proxied(lambda: started[0], PREFIX, strips=True) as public:
        settings = {
            "URL": public, "SIGN_IN__KIND": "oidc", "SIGN_IN__ISSUER": provider.issuer,
            "SIGN_IN__CLIENT_ID": CLIENT_ID, "SIGN_IN__CLIENT_SECRET_FILE": str(secret),
            "SIGN_IN__OPERATORS": '["sre"]', "SIGN_IN__VIEWERS": '["dev"]',
        }  # fmt: skip
        with served("dashboard", root, **{f"WEB__{name}": value for name, value in settings.items()}) as server:
            started.append(server)
            yield public
    log = (root / "dashboard.log").read_text()
    assert "Traceback" not in log
    assert CLIENT_SECRET not in log


_LOOKS = ((1440, "light"), (390, "dark"))
_OTHERS = ((1440, "dark"), (390, "light"))


@pytest.fixture
def context(browser):
    made = browser.new_context(viewport={"width": 1440, "height": SIZES[1440]}, locale="en-US")
    yield made
    made.close()


def open_as(context, base, person, path):
    """Open a page, signing in on the way; returns it."""
    page = context.new_page()
    page.set_default_timeout(40_000)
    page.goto(base + path)
    page.get_by_role("button", name=person).click()
    expect(page).to_have_url(f"{base}{path}")
    return page


def test_an_operator_signs_in_acknowledges_and_signs_out(context, base, root):
    page = open_as(context, base, "ann", "/incident/stuck0001")
    user = page.get_by_label("Signed in: ann, Operator")
    user.click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    user.click()
    page.get_by_text("Acknowledge", exact=True).click()
    form = page.get_by_role("form", name="Acknowledge")
    expect(form.get_by_label("Your name")).to_have_count(0)
    form.get_by_label("Reason").press_sequentially("on it")
    form.get_by_role("button").click()
    expect(page.get_by_text(re.compile("Acknowledged by ann, .* on it"))).to_be_visible()
    [row] = [row for row in read_rows(root / "tables", "operator_actions") if row["name"] == "ann"]
    assert (row["subject"], row["source"], row["action"], row["target"], row["detail"], row["result"]) == (
        "u-1", "PAGE", "ACKNOWLEDGE", "stuck0001", "on it", "DONE",
    )  # fmt: skip

    user.click()
    page.get_by_role("link", name="Your actions").click()
    listed = page.get_by_role("row").filter(has_text="acknowledged")
    expect(listed).to_contain_text("ann")
    expect(listed.get_by_role("link", name="stuck0001")).to_have_attribute("href", f"{PREFIX}/incident/stuck0001")

    query = f"SELECT 1 -- {'x' * 400}"
    assert page.request.post(f"{base}/api/v1/sql", data={"query": query}).status == 200
    page.get_by_label("Kind of action").select_option("SQL")
    listed = page.get_by_role("row").filter(has_text="ran SQL")
    expect(listed.get_by_role("cell", name="done (1 row)")).to_be_visible()
    expect(listed.get_by_text(re.compile("^SELECT 1 -- x{288}…$"))).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="acknowledged")).to_have_count(0)
    page.go_back()

    other = context.new_page()
    other.goto(f"{base}/incidents")
    expect(other.get_by_role("heading", level=1)).to_have_text("Incidents")
    other.wait_for_function("window.socket?.connected")
    page.get_by_label("Signed in: ann, Operator").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You have signed out.")).to_be_visible()
    expect(other.get_by_role("heading", name="Provider")).to_be_visible()  # it has gone to sign in
    page.get_by_role("link", name="Sign in").click()
    expect(page.get_by_role("heading", name="Provider")).to_be_visible()


def test_an_open_page_ends_with_the_session(context, base):
    page = open_as(context, base, "bob", "/incidents")
    page.wait_for_function("window.socket?.connected")
    [cookie] = [one for one in context.cookies() if one["name"] == SESSION_COOKIE]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", PREFIX)
    expect(page.get_by_role("heading", level=1)).to_have_text("Incidents")
    httpx.post(f"{base}/logout", cookies={SESSION_COOKIE: cookie["value"]}, timeout=60).raise_for_status()
    expect(page.get_by_role("heading", name="Provider")).to_be_visible()  # its connection was closed


def test_a_viewer_sees_why_nothing_can_be_done(context, base):
    page = open_as(context, base, "bob", "/incident/stuck0001")
    notifications = page.get_by_role("region", name="Notifications")
    for name in ("Silence", "Close"):
        expect(notifications.get_by_role("button", name=name)).to_be_disabled()
    expect(notifications).to_contain_text("Only an operator may do this, and bob is a viewer.")
    sent = page.evaluate(
        """async (address) => (await fetch(address, {method: 'POST', headers: {'Content-Type': 'application/json'},
        body: '{"reason": "x"}'})).status""",
        f"{PREFIX}/api/v1/incidents/stuck0001/acknowledge",
    )
    assert sent == 403

    page.goto(f"{base}/sql?query=SELECT 1")
    expect(page.get_by_role("button", name="Run")).to_be_disabled()
    expect(page.get_by_text("Only an operator may do this, and bob is a viewer.")).to_be_visible()
    page.get_by_role("textbox", name="Query").press("Control+Enter")
    expect(page.get_by_role("alert")).to_have_text("Only an operator may do this, and bob is a viewer.")


def test_who_has_no_role_is_told_so(context, base):
    page = context.new_page()
    page.goto(f"{base}/incidents")
    page.get_by_role("button", name="eve").click()
    expect(page.get_by_role("alert")).to_contain_text("eve is signed in, and has no role here")
    expect(page.get_by_role("link", name="Sign in")).to_have_attribute("href", f"{PREFIX}/login")


@pytest.mark.parametrize("looks", [_LOOKS, pytest.param(_OTHERS, marks=pytest.mark.prove)], ids=["short", "others"])
def test_the_pages_are_accessible_in_chinese(browser, base, looks):
    with browser.new_context(locale="zh-CN") as made:
        page = open_as(made, base, "bob", "/incident/stuck0001")
        page.get_by_label("已登录：bob，观察者").click()
        expect(page.get_by_role("button", name="退出登录")).to_be_visible()
        for path in ("", "/actions"):
            if path:
                page.goto(f"{base}{path}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            for width, scheme in looks:
                page.set_viewport_size({"width": width, "height": SIZES[width]})
                page.emulate_media(color_scheme=scheme)
                expect(page.locator("html")).to_have_attribute("data-theme", scheme)
                assert inaccessible(page, runOnly=["wcag2a", "wcag2aa", "wcag21aa"]) == []
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
