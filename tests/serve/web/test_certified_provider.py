"""Signing in at a certified OpenID provider that others wrote (github.com/zitadel/oidc), at a dashboard as it is run.

The other tests of signing in have a provider that can be wrong on request (`identity_server`).
"""

import re
import subprocess
from contextlib import contextmanager

import httpx
import pytest

from tests.support.go_programs import SOURCES, build, toolchain
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET
from tests.support.served import served
from tests.support.tables import read_rows
from tests.support.world import NOON, example

pytestmark = [pytest.mark.live, pytest.mark.prove, pytest.mark.xdist_group("certified provider")]

HTTP = {"timeout": 60, "verify": False, "follow_redirects": True}
OPERATOR, VIEWER = "test-user@127.0.0.1", "test-user2"
"""Two people of the provider's own example; their group has the same name."""
PASSWORD = "verysecure"
SQL = "/api/v1/sql"


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory):
    """A dashboard at which people sign in by the provider; yields its address and its root."""
    if toolchain() is None:
        pytest.skip("there is no Go toolchain (`go`) on the path to build the provider with")
    root = tmp_path_factory.mktemp("certified")
    example().write(root / "tables")
    program = build(SOURCES / "identity_provider", root)
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
    ) as provider:
        try:
            sign_in = {
                "KIND": "oidc", "ISSUER": provider.stdout.readline().strip(), "CLIENT_ID": CLIENT_ID,
                "CLIENT_SECRET": CLIENT_SECRET, "OPERATORS": f'["{OPERATOR}"]', "VIEWERS": '["*"]',
                "NAME_CLAIM": "email",
            }  # fmt: skip
            environment = {f"WEB__SIGN_IN__{name}": value for name, value in sign_in.items()}
            with served("dashboard", root, now=NOON + 10_000, **environment) as address:
                provider.stdin.write(f"{address}\n")
                assert provider.stdout.readline() == "registered\n"
                yield address, root
        finally:
            provider.kill()


@contextmanager
def signed_in(address, user, page="/"):
    """Open a page and sign in; yields the browser, and the page to which that led."""
    with httpx.Client(base_url=address, headers={"Accept": "text/html"}, **HTTP) as browser:
        form = browser.get(page)
        assert form.url.path == "/login/username", form.text
        [request] = re.findall(r'name="id" value="([^"]+)"', form.text)
        entered = {"id": request, "username": user, "password": PASSWORD}
        yield browser, browser.post(form.url.join("/login/username"), data=entered)


def test_an_operator_signs_in_and_acts_under_the_provider_s_name(dashboard):
    address, root = dashboard
    with signed_in(address, OPERATOR, "/incidents?span=1h") as (browser, page):
        assert (page.status_code, str(page.url)) == (200, f"{address}/incidents?span=1h")
        incident = browser.get("/api/v1/incidents").json()[0]
        done = browser.post(f"/api/v1/incidents/{incident['incident_id']}/acknowledge", json={"reason": "seen"})
        assert done.status_code == 200, done.text
    [action] = [row for row in read_rows(root / "tables", "operator_actions") if row["action"] == "ACKNOWLEDGE"]
    assert (action["name"], action["subject"], action["result"]) == ("test-user@zitadel.ch", "id1", "DONE")


def test_somebody_without_the_group_of_operators_is_a_viewer(dashboard):
    address, _ = dashboard
    with signed_in(address, VIEWER) as (browser, page):
        assert page.status_code == 200
        assert browser.get("/api/v1/groups").status_code == 200
        assert browser.post(SQL, json={"query": "SELECT 1"}).status_code == 403


def test_signing_out_ends_at_the_page_that_says_so(dashboard):
    address, _ = dashboard
    with signed_in(address, OPERATOR) as (browser, _):
        left = browser.post("/logout")
        there = re.search(r'location\.replace\("([^"]+)"\)', left.text)[1]
        ended = browser.get(there.replace("\\u0026", "&"))
        assert (ended.status_code, ended.url.path) == (200, "/login/ended")
        assert "You have signed out." in ended.text
        assert browser.get("/").url.path == "/login/username"
