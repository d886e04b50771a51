"""The page of a client: what it declares, its queues over time, and its incidents."""

from typing import Any, NamedTuple

from streaming.base.language import gettext
from streaming.base.times import duration_ms
from streaming.queries import labels
from streaming.queries.clients import client
from streaming.queries.columns import CLIENT, INTERVAL, shown_columns
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import ClientDetail, Interval
from streaming.serve.dashboard.parts.frame import element, frame, panel, stale
from streaming.serve.dashboard.parts.incident_table import show_incidents_of_period
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.moment import SPANS, TimeBar, useful_spans
from streaming.serve.dashboard.parts.ordering import page_of
from streaming.serve.links import clients_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

_ROWS = {"intervals": 50, "incidents": 20}
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


def _asked(model: ReadModel, client_id: str, span: str, at: int | None) -> ClientData:
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
        self._data = await self._store.ask(_asked, *self._request)

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
        intervals = page_of(tuple(reversed(client.intervals)), self._pages["intervals"], _ROWS["intervals"])
        self._intervals.show(intervals=intervals.rows, columns=INTERVAL.page, **intervals.pager, **common)
        incidents = page_of(client.incidents, self._pages["incidents"], _ROWS["incidents"])
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
