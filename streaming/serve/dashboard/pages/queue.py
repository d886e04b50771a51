"""The page of a queue: owner, offsets, lag, waiting time and lock over time, and its incidents."""

from typing import Any, NamedTuple

from rebalance_model.entities import MessageQueue
from streaming.base.language import gettext
from streaming.base.times import duration_ms
from streaming.queries.columns import INTERVAL, QUEUE
from streaming.queries.group_at import find_group
from streaming.queries.labels import queue_name
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.queue_history import queue_detail
from streaming.queries.results import QueueDetail
from streaming.serve.dashboard.charts.queue_picture import picture
from streaming.serve.dashboard.pages.incidents import show_incidents_of_period
from streaming.serve.dashboard.parts.frame import element, frame, panel, stale
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.moment import SPANS, TimeBar, useful_spans
from streaming.serve.dashboard.parts.ordering import page_of
from streaming.serve.dashboard.parts.palette import colours, short_names
from streaming.serve.links import group_link, home_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

_ROWS = {"intervals": 20, "incidents": 20}
_INTERVALS = tuple(column for column in INTERVAL.page if column.name not in {"queue", "group"})
_FACTS = tuple(
    QUEUE[name]
    for name in ("owner", "since", "expected_owner", "lag", "waiting_ms", "lock_age_ms", "pull_age_ms",
                 "consume_age_ms", "cached_count", "time")
)  # fmt: skip


class QueueName(NamedTuple):
    """A queue, as in the address."""

    group: str
    topic: str
    broker: str
    queue_id: int
    cluster: str | None


class QueueData(NamedTuple):
    """The values of the page."""

    ends: HistoryBounds
    detail: QueueDetail


def _asked(model: ReadModel, name: QueueName, span: str, at: int | None) -> QueueData:
    ends = history_ends(model, at)
    now = ends.instant(at)
    since = min(max(now - duration_ms(span), ends.first), now - 1)
    group, topic, broker, queue_id, cluster = name
    group_at = find_group(model, group, cluster, at)
    return QueueData(ends, queue_detail(model, group_at, MessageQueue(topic, broker, queue_id), since))


class QueuePage(LivePage[QueueData]):
    """A queue of a group, now or at an instant, and over the period before it."""

    def __init__(self, store: Store, name: QueueName, span: str, at: int | None) -> None:
        super().__init__(store, at)
        self._name = name
        self._span = span

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the group has no such queue, or there are no rows yet.
        """
        self._data = await self._store.ask(_asked, self._name, self._span, self._at)

    def lay_out(self) -> None:
        """Create the page and show it."""
        history = self._data.detail.history
        name = queue_name(history.topic, history.broker, history.queue_id)
        frame(gettext("{queue} of {group}", queue=name, group=history.group), [
            (gettext("Groups"), home_link()),
            (history.group, group_link(history.cluster, history.group, self._at)), (name, None),
        ])  # fmt: skip
        self._when = TimeBar()
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("queue_head")
        with panel(gettext("Over time"), "picture"):
            self._picture = LiveMarkup("queue_picture")
        with panel(gettext("Owners in this period"), "owners"):
            self._intervals = LiveMarkup("client_intervals", on_do=self._turner("intervals"))
        with panel(gettext("Incidents in this period"), "incidents"):
            self._incidents = LiveMarkup("incidents_table", on_do=self._turner("incidents"))
        self._begin()

    def _show(self) -> None:
        ends, (queue, history) = self._data.ends, (self._data.detail.queue, self._data.detail.history)
        clients = {interval.client_id for interval in history.intervals}
        names: dict[str, Any] = {"colours": colours(clients), "short": short_names(clients)}
        common = {"at": self._at, "now": history.until, **names}
        stale(ends)
        self._head.show(ends=ends, queue=queue, history=history, columns=_FACTS, **common)
        self._when.show(ends, self._at, SPANS, self._span, useful=useful_spans(ends))
        self._picture.show(picture=picture(history, min(ends.live, history.until)), **common)
        owners = page_of(tuple(reversed(history.intervals)), self._pages["intervals"], _ROWS["intervals"])
        self._intervals.show(
            intervals=owners.rows, **owners.pager, columns=(INTERVAL["client_id"], *_INTERVALS), **common
        )  # fmt: skip
        listed = page_of(tuple(reversed(history.incidents)), self._pages["incidents"], _ROWS["incidents"])
        show_incidents_of_period(self._incidents, listed, **common)
