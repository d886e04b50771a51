"""Mutated requests to the dashboard's server: each is answered or refused in its form, in time, without a fault."""

import asyncio
import json
import logging
import re
import time
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from streaming.serve.web.access import access
from streaming.serve.web.server import api_application, dashboard_application
from tests.fuzz.conftest import SECONDS_MAX
from tests.fuzz.forms import fuzzed
from tests.fuzz.requests import MARK, NICEGUI, REQUESTS, TOKEN, Asked, answered
from tests.support.asked import asked_store
from tests.support.served import PROBLEM
from tests.support.world import example

pytestmark = pytest.mark.xdist_group("requests")  # one process starts the pages for all of them


class Faults(logging.Handler):
    """Collects what is logged as an error."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.texts = []

    def emit(self, record):
        self.texts.append(self.format(record))


@pytest.fixture(scope="module")
def faults():
    handler = Faults()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(scope="module")
def site(tmp_path_factory, settings_in, faults):
    """Pages, REST API and metrics over small tables, without a token and, but for the pages, with one."""
    settings = settings_in(tmp_path_factory.mktemp("requests"))
    web = settings.web.model_copy(update={"sql_seconds": 4, "sql_rows": 8})
    settings = settings.model_copy(update={"web": web})
    example().write(settings.runtime.tables)
    closed = web.model_copy(update={"token": SecretStr(TOKEN)})
    with (
        asked_store(settings.runtime.tables) as store,
        asyncio.Runner() as runner,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("NICEGUI_STORAGE_PATH", str(settings.runtime.root / "dashboard"))  # read at the import
        # No browser connects, for which a slow page would wait.
        patch.setattr("streaming.serve.dashboard.routes._PATIENCE", 15.0)
        dashboard = dashboard_application(settings, store, access("127.0.0.1", web))
        apps = (dashboard, api_application(settings, store, access("127.0.0.1", closed)))
        started, ended = asyncio.Event(), asyncio.Event()
        living = runner.get_loop().create_task(live(apps, started, ended))
        runner.run(started.wait())
        yield lambda number, asked: runner.run(answered(apps[number], asked))
        ended.set()
        runner.run(asyncio.wait_for(living, None))


async def live(apps, started, ended):
    """Run the lifespans of applications in one task, as a server does."""
    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.router.lifespan_context(app))
        started.set()
        await ended.wait()


TITLE = re.compile(rb"<title>[^<]*</title>")


def in_time(site, number, asked, tally):
    """Ask; what is slow, but not again, waited for other work of the server: refreshes, pages without browsers."""
    for _ in range(3):
        begin = time.process_time()
        answer = site(number, asked)
        seconds = time.process_time() - begin
        if seconds < SECONDS_MAX:
            tally.slowest = max(tally.slowest, seconds)
            return answer
    raise AssertionError(f"{seconds:.1f} s of processor time, three times")


def check(asked, answer):
    """Return what holds for every answer."""
    path = asked.target.partition(b"?")[0]
    kind = answer.headers.get("content-type", "")
    assert answer.status < 500 or answer.status == 503, answer
    assert b"Traceback" not in answer.body
    assert b"root:x:0" not in answer.body
    assert "zq" not in answer.headers.get("set-cookie", "")
    assert not answer.headers.get("location", "/").startswith(("//", "/\\"))
    if kind.startswith("text/html"):
        assert MARK not in answer.body
        assert b"`${zq" not in TITLE.sub(b"", answer.body)  # in no script
    elif answer.status >= 400 and answer.body and path != b"/readyz":
        refused = json.loads(answer.body)
        assert list(refused) == (["jsonrpc", "id", "error"] if "jsonrpc" in refused and path == b"/mcp" else PROBLEM)
        assert json.loads(answer.body)["error"]
    assert not path.startswith(b"/api/") or not kind.startswith("text/html")


def outcome(status):
    return f"requests {'answered' if status < 400 else 'refused'}"


@given(asked=REQUESTS)
@fuzzed(short=80, long=20_000)
def test_a_mutated_request_is_answered_or_refused_in_its_form(site, faults, asked, tally, form):
    answer = in_time(site, 0, asked, tally)
    check(asked, answer)
    assert faults.texts == []
    tally.add(outcome(answer.status))


@given(asked=REQUESTS, has_token=st.booleans())
@fuzzed(short=80, long=30_000)
def test_a_mutated_request_gets_nothing_without_the_token(site, faults, asked, has_token, tally, form):
    if has_token:
        asked = asked._replace(headers=((b"authorization", f"Bearer {TOKEN}".encode()), *asked.headers))
    answer = in_time(site, 1, asked, tally)
    check(asked, answer)
    assert faults.texts == []
    knows = TOKEN.encode() in b"".join(value for _, value in asked.headers) + asked.body.replace(b"%20", b" ")
    is_open = asked.target.partition(b"?")[0] in {b"/login", b"/healthz", b"/readyz"}
    assert knows or is_open or answer.status >= 300
    tally.add(outcome(answer.status))


def test_a_request_of_each_kind_is_answered(site):
    """Else the mutants would be mutants of nothing."""
    paths = (b"/", b"/group/orders", b"/api/v1/groups", b"/metrics", b"/healthz", b"/login")
    answers = [site(0, Asked("GET", path, (), b"")) for path in paths]
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 200, 303]
    assert b"orders" in answers[1].body


def test_what_pages_do_not_take_is_refused_as_a_page_or_in_one_sentence(site):
    """Found by mutation: both were FastAPI's own JSON."""
    page = site(0, Asked("GET", b"/group/orders/queue/Orders/b/x", (), b""))
    assert (page.status, page.headers["content-type"].partition(";")[0]) == (422, "text/html")
    assert b"queue_id: Input should be a valid integer" in page.body
    for method, target, status in (("HEAD", b"/", 405), ("GET", f"{NICEGUI}/static/x".encode(), 404)):
        answer = site(0, Asked(method, target, (), b""))
        assert (answer.status, list(json.loads(answer.body))) == (status, PROBLEM)
