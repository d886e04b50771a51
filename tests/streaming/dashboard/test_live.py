"""A page and the rows that come while it is being made."""

import asyncio

import pytest

from streaming.dashboard.group import GroupPage
from streaming.dashboard.home import Home
from streaming.dashboard.incident import IncidentPage
from streaming.web.store import Store
from tests.streaming.dashboard.tables import orders
from tests.streaming.tables import append, make_tables

NOW = 1_795_300_000_000

PAGES = {
    "home": lambda store: Home(store, None),
    "group": lambda store: GroupPage(store, "orders-group", None, None, "1h"),
    "incident": lambda store: IncidentPage(store, "stuck0001"),
}


@pytest.mark.parametrize("make", PAGES.values(), ids=PAGES)
def test_rows_that_come_while_a_page_asks_are_shown_though_none_follow(tmp_path, monkeypatch, make):
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
