"""The page of all clients, with filters that are in its address."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from streaming.base.language import gettext, marked
from streaming.base.times import duration_ms
from streaming.queries import labels
from streaming.queries.clients import client, clients, mixed_versions
from streaming.queries.columns import CLIENT, INTERVAL, shown_columns
from streaming.queries.group_at import group_names
from streaming.queries.health import HEALTH
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import ClientDetail, GroupClient, Interval
from streaming.serve.dashboard.pages.incidents import show_incidents_of_period
from streaming.serve.dashboard.parts.frame import element, frame, panel, search, stale
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.moment import SPANS, TimeBar, useful_spans
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

    orders = ORDERS


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


_INTERVALS = {"intervals": 50, "incidents": 20}
_LANES = 60
"""The maximum number of lanes; the table has all of them."""


class ClientData(NamedTuple):
    """The values of the page."""

    ends: HistoryBounds
    client: ClientDetail


class Lane(NamedTuple):
    """A queue and the times during which the client had it: begin and width in percent of the period."""

    group: str
    name: str
    spans: list[tuple[float, float]]


def _asked_client(model: ReadModel, client_id: str, span: str, at: int | None) -> ClientData:
    ends = history_ends(model, at)
    now = ends.instant(at)
    since = max(now - duration_ms(span), ends.first)
    return ClientData(ends, client(model, client_id, since=since, at=at))


class ClientPage(LivePage[ClientData]):
    """A client in all of its groups, now or at an instant, and over the period before it."""

    def __init__(self, store: Store, client_id: str, span: str, at: int | None) -> None:
        super().__init__(store, at)
        self._request = client_id, span, at

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the client is unknown in this period, or there are no rows yet.
        """
        self._data = await self._store.ask(_asked_client, *self._request)

    def lay_out(self) -> None:
        """Create the page and show it."""
        client_id = self._request[0]
        frame(client_id, [(gettext("Clients"), clients_link()), (client_id, None)])
        self._when = TimeBar()
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("client_head")
        with panel(gettext("Groups"), "groups"):
            self._groups = LiveMarkup("clients_table")
        with panel(gettext("Queues over time"), "queues"):
            self._lanes = LiveMarkup("client_lanes")
            self._intervals = LiveMarkup("client_intervals", on_do=self._turner("intervals"))
        with panel(gettext("Incidents in this period"), "incidents"):
            self._incidents = LiveMarkup("incidents_table", on_do=self._turner("incidents"))
        self._begin()

    def _show(self) -> None:
        ends, client = self._data
        common: dict[str, Any] = {"at": self._at, "now": client.until, "colours": {}, "short": {}}
        stale(ends)
        self._head.show(ends=ends, client=client, **common)
        self._when.show(ends, self._at, SPANS, self._request[1], useful=useful_spans(ends))
        columns = [column for column in shown_columns(CLIENT.page, client.groups) if column.name != "client_id"]
        self._groups.show(
            clients=client.groups, page=0, pages=1, total=len(client.groups),
            columns=[*columns, CLIENT["started_at"]], orders={}, **common,
        )  # fmt: skip
        lanes = lanes_of(client)
        self._lanes.show(lanes=lanes[:_LANES], more=len(lanes) - _LANES, client=client)
        intervals = page_of(tuple(reversed(client.intervals)), self._pages["intervals"], _INTERVALS["intervals"])
        self._intervals.show(intervals=intervals.rows, columns=INTERVAL.page, **intervals.pager, **common)
        incidents = page_of(client.incidents, self._pages["incidents"], _INTERVALS["incidents"])
        show_incidents_of_period(self._incidents, incidents, **common)


def lanes_of(client: ClientDetail) -> list[Lane]:
    """Return a lane for each queue that the client had in the period, in the order of groups and queues."""
    lanes: dict[tuple[str, str, str, str, int], list[Interval]] = {}
    for interval in client.intervals:
        lanes.setdefault(
            (interval.cluster, interval.group, interval.topic, interval.broker, interval.queue_id), []
        ).append(interval)
    length = max(1, client.until - client.since)

    def percent(time: int) -> float:
        return round(100 * min(1.0, max(0.0, (time - client.since) / length)), 3)

    def span(interval: Interval) -> tuple[float, float]:
        left = percent(interval.from_time)
        return left, max(
            0.2, round(percent(interval.to_time if interval.to_time is not None else client.until) - left, 3)
        )

    return [
        Lane(group, labels.queue_name(topic, broker, queue_id), [span(interval) for interval in intervals])
        for (_, group, topic, broker, queue_id), intervals in lanes.items()
    ]
