"""An open page while rows are written and time passes."""

import asyncio
from types import SimpleNamespace

import pytest

from streaming.serve.dashboard.pages.group import GroupPage
from streaming.serve.dashboard.pages.home import GroupFilters, HomePage
from streaming.serve.dashboard.pages.incidents import IncidentPage
from streaming.serve.dashboard.parts import live
from streaming.serve.dashboard.parts.live import Live
from streaming.serve.dashboard.parts.moment import Window
from streaming.serve.store import Store
from tests.serve.dashboard.tables import MINUTE, orders
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000
HOUR = 60 * MINUTE

PAGES = {
    "home": lambda store: HomePage(store, None, GroupFilters()),
    "group": lambda store: GroupPage(store, "orders-group", None, None, "1h"),
    "incident": lambda store: IncidentPage(store, "stuck0001"),
}


def _in_short(pages, *short):
    """Return the pages as parameters: these in the short form, the others use the same `Live` and are proved."""
    return [
        pytest.param(page, id=name, marks=() if name in short else pytest.mark.prove) for name, page in pages.items()
    ]


@pytest.mark.parametrize("make", _in_short(PAGES, "home", "group"))
def test_rows_written_during_an_update_are_shown_without_later_rows(tmp_path, monkeypatch, make):
    group = orders(NOW)
    append(make_tables(tmp_path / "tables"), group.taken())
    with Store(tmp_path / "tables") as store:
        page = make(store)
        asyncio.run(page.ask())
        group.state(NOW)
        append(tmp_path / "tables", group.taken())
        store.refresh()

        updates = []
        monkeypatch.setattr(page, "_show", lambda: updates.append(store.version))
        for _ in range(2):
            asyncio.run(page._live._look())
        assert updates == [store.version]


@pytest.fixture
def clock(monkeypatch):
    """The machine's clock; epoch milliseconds."""
    fake = SimpleNamespace(now=NOW)
    monkeypatch.setattr("time.time_ns", lambda: fake.now * 1_000_000)
    return fake


@pytest.fixture
def store(tmp_path, clock):
    append(make_tables(tmp_path / "tables"), orders(NOW).taken())
    with Store(tmp_path / "tables") as opened:
        yield opened


def look(page, times=1):
    for _ in range(times):
        page._live._rest_until = 0.0
        asyncio.run(page._live._look())


SILENT_PAGES = {**PAGES, "past": lambda store: GroupPage(store, "orders-group", None, NOW - 20 * MINUTE, "15m")}


@pytest.mark.parametrize("make", _in_short(SILENT_PAGES, "home", "past"))
def test_an_open_page_turns_silent_and_ages_without_new_rows(store, clock, monkeypatch, make):
    page = make(store)
    asyncio.run(page.ask())
    updates = []
    monkeypatch.setattr(page, "_show", lambda: updates.append(clock.now))

    look(page)
    clock.now = NOW + 1 * MINUTE  # the last row is a minute older
    look(page)
    updates.clear()
    clock.now = NOW + 2 * MINUTE
    look(page, times=3)
    clock.now = NOW + 5 * HOUR
    look(page, times=3)

    assert updates == [NOW + 2 * MINUTE, NOW + 5 * HOUR]  # once each: what it says of its age has changed


def group_page(store, monkeypatch, at=None, span="1h"):
    """Return a group's page without a browser."""
    page = GroupPage(store, "orders-group", None, at, span)
    monkeypatch.setattr(page, "_show", lambda: None)
    monkeypatch.setattr(page, "_moved", page._live.refresh)
    asyncio.run(page.ask())
    return page


def test_a_page_at_a_time_before_history_turns_silent_once(store, clock, monkeypatch):
    page = group_page(store, monkeypatch)
    asyncio.run(page._seek(NOW - 55 * MINUTE))
    assert "begins at" in page._note

    clock.now = NOW + 14 * MINUTE
    assert page._time_has_passed()
    look(page)
    assert not page._time_has_passed()


def append_telemetry(store, tmp_path, time):
    """Write new telemetry."""
    group = orders(NOW)
    group.taken()
    group.state(time)
    append(tmp_path / "tables", group.taken())
    store.refresh()


@pytest.mark.parametrize("silent", [True, False], ids=["after it was seen silent", "after the machine was suspended"])
def test_a_span_that_ends_now_still_does_after_a_gap(store, clock, tmp_path, monkeypatch, silent):
    page = group_page(store, monkeypatch, span="15m")
    if silent:
        clock.now = NOW + 20 * MINUTE
        look(page)
        assert page._window.until == NOW - MINUTE  # the time of the last row

    clock.now = NOW + 40 * MINUTE
    append_telemetry(store, tmp_path, clock.now)
    look(page)

    assert page._window == page._history.window == Window(NOW + 25 * MINUTE, NOW + 40 * MINUTE)
    assert not page._time_has_passed()


@pytest.mark.parametrize(
    ("at", "actions", "until"),
    [
        (None, ["shift:-1"], NOW - 5 * MINUTE),
        (None, ["shift:-1", "now:"], NOW + 5 * MINUTE),
        pytest.param(NOW - 30 * MINUTE, ["span:1h"], NOW + 5 * MINUTE, marks=pytest.mark.prove),
        pytest.param(None, ["shift:-1", "shift:1"], NOW + 5 * MINUTE, marks=pytest.mark.prove),
        pytest.param(None, ["shift:-1", "span:1h"], NOW + 5 * MINUTE, marks=pytest.mark.prove),
        pytest.param(NOW - 30 * MINUTE, [], NOW - 25 * MINUTE, marks=pytest.mark.prove),
        pytest.param(NOW - 4 * MINUTE, [], NOW + 5 * MINUTE, marks=pytest.mark.prove),
        (NOW - 7 * MINUTE, [], NOW),  # the instant would leave the span
    ],
)
def test_a_span_follows_now_if_the_user_made_it_end_now(store, clock, tmp_path, monkeypatch, at, actions, until):
    page = group_page(store, monkeypatch, at, "10m")
    for action in actions:
        asyncio.run(page._set_time(action))

    clock.now = NOW + 5 * MINUTE
    append_telemetry(store, tmp_path, clock.now)
    look(page)

    assert page._window.until == until


def test_at_the_end_of_the_slider_the_span_follows_now(store, clock, tmp_path, monkeypatch):
    page = group_page(store, monkeypatch, NOW - 12 * MINUTE, "15m")
    clock.now = NOW + 5 * MINUTE
    append_telemetry(store, tmp_path, clock.now)
    look(page)
    assert page._window.until == NOW  # the instant would have left the span

    asyncio.run(page._seek(None))
    assert page._window.until == clock.now


def test_a_failed_update_is_retried_after_a_pause(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: clock.now))
    asked, reported = [], []

    async def update():
        asked.append(clock.now)
        if len(asked) <= 2:
            raise OSError("a file is gone")

    page = Live(SimpleNamespace(version=1), update)
    for ask in (page.refresh, *[page._look] * 60):  # what the user did, then each second
        try:
            asyncio.run(ask())
        except OSError:
            reported.append(clock.now)
        clock.now += 1.0

    assert asked == [100.0, 115.0, 130.0]
    assert reported == [100.0, 115.0]
