"""The page of all clients, with filters that are in its address."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from streaming.base.language import gettext, marked
from streaming.queries.clients import clients, mixed_versions
from streaming.queries.columns import CLIENT, shown_columns
from streaming.queries.group_at import group_names
from streaming.queries.health import HEALTH
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import GroupClient
from streaming.serve.dashboard.parts.frame import element, frame, panel, search, stale
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.moment import TimeBar
from streaming.serve.dashboard.parts.ordering import Order, Rank, SortedFilters, number, page_of
from streaming.serve.links import clients_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

_ROWS = 100

ORDERS: Mapping[str, Order[GroupClient]] = {
    "health": Order(marked("Worst first"), lambda c: (-HEALTH[c.health].rank, c.open_incidents)),
    "client_id": Order(marked("By name"), lambda c: (c.client_id.lower(),), descending=False),
    "group": Order(marked("By group"), lambda c: (c.group.lower(), c.client_id.lower()), descending=False),
    "queues": Order(marked("Most queues"), lambda c: (c.queues,)),
    "version": Order(marked("Oldest version"), lambda c: _release(c.version), descending=False),
    "last_heartbeat": Order(marked("Oldest heartbeat"), lambda c: number(c.last_heartbeat), descending=False),
    "seen_at": Order(marked("Least recently listed"), lambda c: number(c.seen_at), descending=False),
    "open_incidents": Order(marked("Most incidents"), lambda c: (c.open_incidents,)),
}
"""The orders by the name of their column; the first one is used if none is chosen."""


@dataclass(frozen=True, kw_only=True)
class ClientFilters(SortedFilters[GroupClient]):
    """The filters and the order, as in the address; empty: no filter, and the default order."""

    group: str = ""
    find: str = ""
    """A part of an id, group, version, language, address or subscription."""
    cluster: str = ""
    """A cluster; empty: any. In addresses only, beside its group."""

    @property
    def orders(self) -> Mapping[str, Order[GroupClient]]:
        """The orders by the name of their column."""
        return ORDERS


def checked(filters: ClientFilters) -> ClientFilters:
    """Return the filters if the order is a known one.

    Raises:
        UserError: it is not.
    """
    return filters.with_known_order()


def _release(version: str | None) -> Rank | None:
    """Return the rank of a release such as ``5.3.1``; None if it is unknown."""
    numbers = tuple(float(part) for part in re.findall(r"\d+", version or ""))
    return numbers or None


class ClientsData(NamedTuple):
    """The values of the page."""

    ends: HistoryBounds
    clients: list[GroupClient]
    groups: list[str]
    """The groups to choose from."""


def _asked(model: ReadModel, group: str, cluster: str, at: int | None) -> ClientsData:
    listed = clients(model, group or None, cluster=cluster or None, at=at)
    return ClientsData(history_ends(model, at), listed, group_names(model))


class ClientsPage(LivePage[ClientsData]):
    """The clients of all groups or of one, now or at an instant."""

    def __init__(self, store: Store, filters: ClientFilters, at: int | None) -> None:
        super().__init__(store, at)
        self._filters = filters

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the group is unknown, or there are no rows yet, or none by that instant.
        """
        self._data = await self._store.ask(_asked, self._filters.group, self._filters.cluster, self._at)

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(gettext("Clients"), [(gettext("Clients"), None)])
        self._when = TimeBar()
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("clients_head")
        with panel(gettext("Filters"), "list") as line:
            with line:
                search(gettext("Find clients, addresses, versions or topics"), self._search, self._filters.find)
                self._filter_form = LiveMarkup("clients_filters")
            self._table = LiveMarkup("clients_table", on_do=self._turner("clients"))
        self._begin()

    def _search(self, text: str) -> None:
        self._filters = replace(self._filters, find=text.strip())
        self._show_filtered(clients_link(at=self._at, **self._filters.values()))

    def _show(self) -> None:
        data, filters = self._data, self._filters
        now = data.ends.instant(self._at)
        stale(data.ends)
        text = filters.find.strip().lower()
        matching = [client for client in data.clients if text in _text(client)]
        matching = filters.in_order(matching)
        self._head.show(at=self._at, ends=data.ends, total=len(matching), mixed=mixed_versions(matching))
        self._when.show(data.ends, self._at)
        self._filter_form.show(groups=data.groups, filters=filters)
        listed = page_of(matching, self._pages["clients"], _ROWS)
        self._table.show(
            clients=listed.rows, **listed.pager, columns=shown_columns(CLIENT.page, listed.rows),
            at=self._at, now=now, colours={}, short={}, filters=filters, orders=ORDERS,
        )  # fmt: skip


def _text(client: GroupClient) -> str:
    names = client.client_id, client.group, client.version, client.language, client.address, client.subscriptions
    return " ".join(map(str, names)).lower()
