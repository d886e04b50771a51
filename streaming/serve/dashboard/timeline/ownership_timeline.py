"""The ownership timeline: owners of the queues over time, rebalances as marks, incidents as spans, and the slider."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from nicegui import ui

from streaming.base.language import gettext, ngettext
from streaming.queries.health import SEVERITY, WithoutOwner
from streaming.queries.present import HistoryBounds
from streaming.queries.results import Incident, Queue
from streaming.serve.dashboard.parts.markup import page_handler
from streaming.serve.dashboard.parts.palette import short_names
from streaming.serve.dashboard.static import STATIC
from streaming.serve.dashboard.timeline.lane_folds import (
    FEW_LANES,
    Fold,
    History,
    Lanes,
    OwnerSpan,
    Place,
    has_moved,
    lanes_of,
    why,
)
from streaming.serve.links import incident_link, rebalance_link

_MEANING = {"info": 0, "warning": 5, "DOUBLE": 6, "critical": 7}
"""The classes of `static/lanes/heat.js` for an incident: a double owner has its own."""


class LaneChoice(NamedTuple):
    """The lanes that the user wants to see."""

    has_lane: Callable[[Place], bool]
    """Returns whether a queue gets a lane."""
    fold: str = "none"
    """See `lane_folds.FOLDS`."""
    colours: Mapping[str, int] | None = None
    """The colours of the clients; None: colours show what happened to the queues, not the owners."""
    marked: Collection[str] = ()
    """The clients that are highlighted."""
    without_owner: WithoutOwner = WithoutOwner.UNASSIGNED
    """The kind of a queue without an owner."""


class OwnershipTimeline(
    ui.element,
    component=STATIC / "ownership_timeline.js",
    esm={"rebalance-watch-lanes": str(STATIC / "lanes")},
):
    """See `static/ownership_timeline.js`.

    ``on_seek`` receives the selected instant, None for now, and ``on_zoom`` the ends of a selected period; epoch
    milliseconds.
    """

    def __init__(self, on_seek: Callable[[int | None], object], on_zoom: Callable[[Sequence[int]], object]) -> None:
        super().__init__()
        self._props["json"] = ""
        self._props["at"] = None
        self._props["charts"] = []
        self._on_seek = on_seek
        self.on("seek", page_handler(self._chosen))
        self.on("zoom", page_handler(on_zoom))

    def _chosen(self, at: int | None) -> object:
        self._props["at"] = at  # the browser shows it already: an echo would pull the slider back
        return self._on_seek(at)

    def follow(self, *charts: int) -> None:
        """Let charts under the lanes, named by their ids, have the width and the cursor of the lanes."""
        self._props["charts"] = [*charts]

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
    history: History,
    spans: Mapping[Place, Sequence[OwnerSpan]],
    queues: Iterable[Queue],
    ends: HistoryBounds,
    lane_choice: LaneChoice,
) -> dict[str, object]:
    """Return the data of the component, with offsets within the period instead of times to keep it small.

    Args:
        history: the history of the period.
        spans: its `owner_spans`.
        queues: the queues at the instant, for their status.
        ends: the ends of history.
        lane_choice: what the user wants to see.
    """
    states = {(q.topic, q.broker, q.queue_id): q for q in queues}
    places = sorted(place for place in {*spans, *states} if lane_choice.has_lane(place))
    of_lane = [spans.get(place, ()) for place in places]
    clients = sorted({i.client_id for i in history.intervals})
    number, short = {client: n for n, client in enumerate(clients)}, short_names(clients)
    since, until = history.window
    moved = {lane for lane, spans_of_lane in enumerate(of_lane) if has_moved(spans_of_lane)}
    lanes = lanes_of(places, states, moved, lane_choice.fold, lane_choice.without_owner)
    names = _names(places)
    return {
        "from": since,
        "to": until,
        "live": until >= ends.live,
        "lanes": names,
        "widest": max(map(len, names), default=0),
        "status": [states[place].status if place in states else "UNKNOWN" for place in places],
        "why": [why(states[place]) if place in states else "" for place in places],
        "clients": [{"id": c, "short": short[c], "colour": (lane_choice.colours or {}).get(c, 0)} for c in clients],
        "marked": [number[client] for client in sorted(lane_choice.marked) if client in number],
        "spans": [
            value for lane, spans_of_lane in enumerate(of_lane) for span in spans_of_lane
            for value in (lane, span.begin, span.end, -1 if span.client_id is None else number[span.client_id])
        ],
        "rebalances": [
            [r.start_time, r.end_time, r.trigger, rebalance_link(r.cluster, r.group, r.rebalance_id)]
            for r in history.rebalances
        ],
        **_incidents(history, places, of_lane, min(until, ends.live)),
        **_folding(lanes, len(places), by_meaning=lane_choice.colours is None),
        "label": ngettext(
            "Ownership of {n} queue, in a lane; the table of queues has the same information",
            "Ownership of {n} queues, one lane each; the table of queues has the same information", len(places),
        ),
        "summary": _summary(history, len(places), len(clients)),
        "overview": _overview(len(places), len(moved), sum(map(bool, map(why, states.values())))),
    }  # fmt: skip


def _folding(lanes: Lanes, count: int, *, by_meaning: bool) -> dict[str, object]:
    def folds(groups: Sequence[Fold]) -> list[dict[str, object]]:
        return [
            {
                "name": fold.name,
                "facts": fold.facts,
                "status": fold.status,
                "says": gettext(fold.status),
                "lanes": fold.lanes,
            }
            for fold in groups
        ]

    return {
        "byMeaning": by_meaning, "many": count > FEW_LANES, "top": lanes.top, "folds": folds(lanes.folds),
        "narrow": lanes.narrow, "bands": folds(lanes.bands) if count > FEW_LANES else [],
    }  # fmt: skip


def _names(places: list[Place]) -> list[str]:
    """Return short names of queues, without the broker if all are on the same one."""
    brokers = {broker for _, broker, _ in places}
    return [f"{t}:{q}" if len(brokers) == 1 else f"{t}@{b}:{q}" for t, b, q in places]


def _incidents(
    history: History, places: Sequence[Place], spans: Sequence[Sequence[OwnerSpan]], until: int
) -> dict[str, object]:
    """Return the incidents of the queues and of the whole group, and which part of which lane is affected by one."""
    lane_of = {place: lane for lane, place in enumerate(places)}
    since = history.window.since
    incidents = sorted(history.incidents, key=lambda i: i.opened_at)
    affected: list[int] = []
    for incident in incidents:
        meaning = _MEANING["DOUBLE" if incident.code == "QUEUE_DOUBLE_OWNED" else incident.severity]
        end = until if incident.resolved_at is None else min(until, incident.resolved_at)
        during = max(0, incident.opened_at - since), end - since
        if meaning:
            affected += [n for part in _parts(incident, lane_of, spans, during) for n in (*part, meaning)]
    return {
        "incidents": [_incident(i, lane_of, until) for i in incidents if _place(i) is None or _place(i) in lane_of],
        "affected": affected,
    }


def _parts(
    incident: Incident, lane_of: Mapping[Place, int], spans: Sequence[Sequence[OwnerSpan]], during: tuple[int, int]
) -> Iterator[tuple[int, int, int]]:
    """Yield lane, begin and end of what an incident affects: its queue, its broker's queues, or its client's."""
    place = _place(incident)
    if place is not None:
        if place in lane_of:
            yield lane_of[place], *during
    elif not incident.group:
        yield from ((lane, *during) for (_, broker, _), lane in lane_of.items() if broker == incident.subject)
    else:
        for lane, of_lane in enumerate(spans):
            for begin, end, client_id in of_lane:
                if client_id == incident.subject and begin < during[1] and end > during[0]:
                    yield lane, max(begin, during[0]), min(end, during[1])


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
    return gettext(
        "Ownership timeline: {queues} queues, {clients} clients, {rebalances} rebalances and {incidents} incidents in "
        "this period; the tables below list them",
        queues=lanes,
        clients=clients,
        rebalances=len(history.rebalances),
        incidents=len(history.incidents),
    )


def _overview(lanes: int, moved: int, problems: int) -> str:
    return gettext(
        "Overview of all {lanes} lanes: {problems} with a problem, {moved} changed owner in this period",
        lanes=f"{lanes:,}",
        problems=f"{problems:,}",
        moved=f"{moved:,}",
    )
