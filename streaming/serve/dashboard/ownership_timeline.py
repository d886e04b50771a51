"""The ownership timeline: owners of the queues over time, rebalances as marks, incidents as spans, and the slider."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import msgspec
from nicegui import ui
from nicegui.events import GenericEventArguments

from streaming.queries.health import SEVERITY
from streaming.queries.present import Ends
from streaming.queries.results import Incident, Interval, Queue
from streaming.serve.dashboard.page_data import History
from streaming.serve.dashboard.palette import short_names
from streaming.serve.links import incident_link, rebalance_link

Place = tuple[str, str, int]
"""Topic, broker, queue id."""


class OwnershipTimeline(ui.element, component="ownership_timeline.js"):
    """See `ownership_timeline.js`; ``on_seek`` receives the selected instant, None for now."""

    def __init__(self, on_seek: Callable[[int | None], object]) -> None:
        super().__init__()
        self._props["json"] = ""
        self._props["at"] = None
        self._on_seek = on_seek
        self.on("seek", self._chosen)

    def _chosen(self, event: GenericEventArguments) -> object:
        self._props["at"] = event.args  # the browser shows it already: an echo would pull the slider back
        return self._on_seek(event.args)

    def show(self, data: dict[str, object], at: int | None) -> None:
        """Show a period; unchanged data is not sent again, since thousands of queues are large."""
        moved, self._props["at"] = at != self._props["at"], at
        text = msgspec.json.encode(data).decode()  # one value: NiceGUI and Vue would each watch every part of a tree
        if text != self._props["json"]:
            self._props["json"] = text
            self.update()
        if moved:
            self.run_method("seek", at)


def timeline_data(
    history: History, queues: Iterable[Queue], ends: Ends, colours: Mapping[str, int], wanted: Callable[[Place], bool]
) -> dict[str, object]:
    """Return the data of the component, with offsets within the period instead of times to keep it small.

    Args:
        history: the history of the period.
        queues: the queues at the instant, for their status.
        ends: the ends of history.
        colours: the colours of the clients.
        wanted: returns whether a queue gets a lane.
    """
    states = {(q.topic, q.broker, q.queue_id): q.status for q in queues}
    of = _by_place(history.intervals)
    places = sorted(place for place in {*of, *states, *history.unowned} if wanted(place))
    lane_of = {place: lane for lane, place in enumerate(places)}
    clients = sorted({i.client_id for i in history.intervals})
    number, short = {client: n for n, client in enumerate(clients)}, short_names(clients)
    since, until = history.window
    known_until = min(until, ends.live)
    names = _names(places)
    return {
        "from": since,
        "to": until,
        "live": until >= ends.live,
        "lanes": names,
        "widest": max(map(len, names), default=0),
        "status": [states.get(place, "UNKNOWN") for place in places],
        "clients": [{"id": c, "short": short[c], "colour": colours[c]} for c in clients],
        "spans": [
            value for place in places
            for span in _spans(of.get(place, []), number, (since, known_until), unowned=place in history.unowned)
            for value in (lane_of[place], *span)
        ],
        "rebalances": [
            [r.start_time, r.end_time, r.trigger, rebalance_link(r.cluster, r.group, r.rebalance_id)]
            for r in history.rebalances
        ],
        "incidents": [
            _incident(i, lane_of, known_until) for i in sorted(history.incidents, key=lambda i: i.opened_at)
            if _place(i) is None or _place(i) in lane_of
        ],
        "label": f"Ownership of {len(places)} queues, one lane each; the table of queues has the same information",
        "summary": _summary(history, len(places), len(clients)),
    }  # fmt: skip


def _by_place(intervals: Iterable[Interval]) -> dict[Place, list[Interval]]:
    of: dict[Place, list[Interval]] = defaultdict(list)
    for interval in intervals:
        of[interval.topic, interval.broker, interval.queue_id].append(interval)
    return of


def _names(places: list[Place]) -> list[str]:
    """Return short names of queues, without the broker if all are on the same one."""
    brokers = {broker for _, broker, _ in places}
    return [f"{t}:{q}" if len(brokers) == 1 else f"{t}@{b}:{q}" for t, b, q in places]


def _spans(
    intervals: list[Interval], number: Mapping[str, int], window: tuple[int, int], *, unowned: bool
) -> list[tuple[int, int, int]]:
    """Return the spans of the owners, and unassigned ones (-1) between and after them; none before the first owner."""
    since, until = window
    spans: list[tuple[int, int, int]] = []
    end: int | None = since if unowned else None
    for interval in intervals:
        begin = max(interval.from_time, since)
        if end is not None and begin > end:
            spans.append((end - since, begin - since, -1))
        end = min(interval.to_time if interval.to_time is not None else until, until)
        if end > begin:
            spans.append((begin - since, end - since, number[interval.client_id]))
    if end is not None and end < until:
        spans.append((max(end, since) - since, until - since, -1))
    return spans


def _place(incident: Incident) -> Place | None:
    if incident.topic is None or incident.broker is None or incident.queue_id is None:
        return None
    return incident.topic, incident.broker, incident.queue_id


def _incident(incident: Incident, lane_of: Mapping[Place, int], until: int) -> dict[str, object]:
    place = _place(incident)
    what = f"{incident.code} {incident.sub_cause}".rstrip()
    return {
        "lane": -1 if place is None else lane_of[place],
        "from": incident.opened_at,
        "to": incident.resolved_at if incident.resolved_at is not None else until,
        "open": incident.resolved_at is None,
        "colour": SEVERITY[incident.severity].colour,
        "text": what if place is not None else f"{what} {incident.subject}".rstrip(),
        "link": incident_link(incident.incident_id),
    }


def _summary(history: History, lanes: int, clients: int) -> str:
    return (
        f"Ownership timeline: {lanes} queues, {clients} clients, {len(history.rebalances)} rebalances and "
        f"{len(history.incidents)} incidents in this period; the tables below list them"
    )
