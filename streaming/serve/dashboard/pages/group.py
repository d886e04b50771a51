"""The page of a group: owners, expected owners and status, now or at an instant selected with the slider."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from nicegui import ui

from streaming.base.errors import UserError
from streaming.base.language import gettext, marked
from streaming.base.times import duration_ms, written
from streaming.queries.columns import PROXIED_COLUMNS, QUEUE
from streaming.queries.columns.groups import freshness
from streaming.queries.present import history_ends
from streaming.queries.results import LagPoint
from streaming.queries.roots import cards
from streaming.serve.dashboard.charts.trends import LagChart
from streaming.serve.dashboard.pages import group_state
from streaming.serve.dashboard.pages.group_state import REBALANCE_ORDERS, State, state
from streaming.serve.dashboard.parts.frame import check, choice, element, frame, panel, search, stale
from streaming.serve.dashboard.parts.live import Live
from streaming.serve.dashboard.parts.markup import LiveMarkup, coverage_of
from streaming.serve.dashboard.parts.moment import (
    DEFAULT_SPAN,
    SPANS,
    TimeBar,
    Window,
    ending,
    until,
    useful_spans,
    window,
    zoomed,
)
from streaming.serve.dashboard.parts.ordering import Page, choices, in_order, page_of, turned
from streaming.serve.dashboard.parts.palette import CLIENTS_WITH_COLOURS, colours, short_names
from streaming.serve.dashboard.timeline.lane_folds import (
    ALL_LANES,
    FEW_LANES,
    FOLDS,
    REASONS,
    History,
    LaneFilter,
    OwnerSpan,
    Place,
    has_moved,
    history,
    owner_spans,
    reasons,
)
from streaming.serve.dashboard.timeline.ownership_timeline import LaneChoice, OwnershipTimeline, timeline_data
from streaming.serve.links import clients_link, group_link, home_link, what_if_link
from streaming.serve.store import Store

T = TypeVar("T")

_ROWS = {"open": 6, "members": 20, "queues": 50, "failed": 10, "rebalances": 20, "incidents": 20}
"""The number of rows on one page of each table."""
_FEW = 3
"""The number of rows of a table that a phone shows at first."""
_ORDERS = {"status": marked("Worst first"), "name": marked("By name"), "lag": marked("By lag")}


def _translated(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: gettext(text) for name, text in texts.items()}


def _waiting_s(point: LagPoint) -> float | None:
    return point.waiting_ms / 1000 if point.waiting_ms is not None else None


class GroupPage:
    """A group at an instant and over the period around it."""

    def __init__(
        self, store: Store, name: str, cluster: str | None, at: int | None, span: str,
        lanes: LaneFilter = ALL_LANES, zoom: Window | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._name = name
        self._cluster = cluster
        self._at = at
        """The instant that is shown; None is now."""
        self._span = span
        self._zoom = zoom
        """The period that the user has selected on the lanes; None: one of `SPANS`."""
        self._note = ""
        self._lanes = lanes
        self._order = "status"
        self._rebalance_order = next(iter(REBALANCE_ORDERS))
        self._folds_well = True
        """True if queues without a problem are folded on a phone."""
        self._unfolded: set[str] = set()
        """The tables of which a phone shows all rows, not only the first `_FEW`."""
        self._pages = dict.fromkeys(_ROWS, 0)
        self._state: State
        self._history: History
        self._window: Window
        self._ends_now = False
        """True if the period follows the current time; not derived from clocks, which jump after a suspend."""
        self._version = -1
        self._live = Live(store, self._update, tick=self._time_has_passed)

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: see `streaming.queries.group_at.find_group`.
        """
        await self._ask_state()
        if self._zoom is not None:
            self._zoom_to(*self._zoom)
        else:
            self._choose(window(self._state.ends, self._span, self._at))
        await self._ask_history()

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(self._name, [(gettext("Groups"), home_link()), (self._name, None)])
        self._when = TimeBar(self._set_time)
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("group_head")
        self._status = element("div", "visually-hidden", role="status")
        with panel(gettext("Open incidents"), "open"):
            self._open = self._table("open", "incident_list")
        self._lay_out_ownership()
        with panel(gettext("Retry and dead letters"), "failed"):
            self._failed = self._table("failed", "group_failed_messages")
        with panel(gettext("Rebalances"), "rebalances") as line:
            with line:
                choice(gettext("Sort rebalances"), choices(REBALANCE_ORDERS), self._reorder_rebalances)
            self._totals = LiveMarkup("group_totals")
            self._rebalances = self._table("rebalances", "group_rebalances")
        with panel(gettext("Incidents in this period"), "past"):
            self._past = self._table("incidents", "group_past_incidents")
        self._show()
        self._live.begin()

    def _lay_out_ownership(self) -> None:
        with panel(gettext("Ownership"), "ownership") as line:
            with line:
                search(gettext("Find queues or clients"), self._search, self._lanes.find)
                check(gettext("Problems only"), lambda only: self._narrow(self._lanes._replace(only_problems=only)))
                check(gettext("Moved only"), lambda only: self._narrow(self._lanes._replace(only_moved=only)))
                choice(
                    gettext("Fold lanes"),
                    {name: gettext(text) for name, text in FOLDS.items()},
                    self._fold,
                    self._lanes.fold,
                )
            self._reasons = LiveMarkup("group_reasons")
            self._timeline = OwnershipTimeline(self._seek, self._select)
            self._lag = LagChart(
                "lag", gettext("Lag"), gettext("Lag by topic"),
                lambda point: point.lag, lambda point: point.lag_is_at_least,
            )  # fmt: skip
            title, label = (
                gettext("Waiting time of the next message (seconds)"),
                gettext("Waiting time by topic (seconds)"),
            )
            self._waiting = LagChart("waiting", title, label, _waiting_s)
            self._timeline.follow(self._lag.id, self._waiting.id)
            self._legend = LiveMarkup("legend")
        with panel(gettext("Queues"), "queues") as line:
            with line:
                choice(gettext("Sort queues"), _translated(_ORDERS), self._reorder)
            self._queues = LiveMarkup("group_queues", on_do=self._do_queues)
        with panel(gettext("Members"), "members") as line:
            with line:
                element("a", href=clients_link(self._name)).text = gettext("Versions, addresses and heartbeats")
                element("a", href=self._what_if()).text = gettext("What if members join or leave")
            self._members = self._table("members", "group_members")

    def _what_if(self) -> str:
        return what_if_link(self._state.group.cluster, self._name)

    def _table(self, name: str, template: str) -> LiveMarkup:
        return LiveMarkup(template, on_do=lambda word: self._do_table(name, word))

    # User actions.

    def _do_queues(self, word: str) -> None:
        if word == "unfold":
            self._folds_well = False
            self._show()
        else:
            self._turn("queues", turned(word))

    def _do_table(self, table: str, word: str) -> None:
        if word == "unfold":
            self._unfolded.add(table)
            self._show()
        else:
            self._turn(table, turned(word))

    def _turn(self, table: str, page: int) -> None:
        self._pages[table] = page
        self._show()

    def _search(self, text: str) -> None:
        self._narrow(self._lanes._replace(find=text.strip()))
        ui.navigate.history.replace(self._address())

    def _fold(self, fold: str) -> None:
        self._narrow(self._lanes._replace(fold=fold))
        ui.navigate.history.replace(self._address())

    def _narrow(self, lanes: LaneFilter) -> None:
        self._lanes, self._pages["queues"] = lanes, 0
        self._show()

    def _reorder(self, order: str) -> None:
        self._order, self._pages["queues"] = order, 0
        self._show()

    def _reorder_rebalances(self, order: str) -> None:
        self._rebalance_order, self._pages["rebalances"] = order, 0
        self._show()

    async def _seek(self, at: int | None) -> None:
        self._at = at
        self._ends_now = self._ends_now or at is None
        await self._moved()

    async def _set_time(self, word: str) -> None:
        what, _, value = word.partition(":")
        now = self._now()
        if what == "span":
            self._span, self._zoom = value, None
            self._choose(window(self._state.ends, value, self._at))
        elif what == "zoom":
            length = self._window.until - self._window.since  # shorter than the chosen one where history is
            middle = self._at if self._at is not None else sum(self._window) // 2
            half = length // 4 if value == "in" else length
            self._zoom_to(middle - half, middle + half)
        elif what == "shift":
            half = int(value) * self._length() // 2
            self._choose(ending(self._state.ends, self._length(), self._window.until + half))
            if self._zoom is not None:
                self._zoom = self._window
            self._at = min(max(now + half, self._window.since), self._window.until)
        elif what == "change":
            step = group_state.before if value == "-1" else group_state.after
            self._at = step(group_state.changes(self._history), now) or self._at
        else:
            self._at = self._zoom = None
            self._choose(window(self._state.ends, self._span, None))
        await self._moved()

    async def _select(self, ends: Sequence[int]) -> None:
        """Show the period that was selected on the lanes; the instant stays if it is in it."""
        self._zoom_to(min(ends), max(ends))
        await self._moved()

    def _zoom_to(self, since: int, until: int) -> None:
        self._zoom = self._window = zoomed(self._state.ends, since, until)
        self._ends_now = False
        if self._at is not None:
            self._at = min(max(self._at, self._window.since), self._window.until)

    def _length(self) -> int:
        """Return the length of the period, milliseconds."""
        return duration_ms(self._span) if self._zoom is None else self._zoom.until - self._zoom.since

    def _choose(self, span: Window) -> None:
        """Show a period; one that ends now follows the current time."""
        self._window = span
        self._ends_now = span.until >= self._state.ends.live

    async def _moved(self) -> None:
        ui.navigate.history.replace(self._address())
        await self._live.refresh()
        self._status.text = (
            gettext("Showing the current state")
            if self._at is None
            else gettext("Showing the state at {time}", time=written(self._at))
        )

    def _address(self) -> str:
        span = self._span if self._span != DEFAULT_SPAN else None
        group = self._state.group
        return group_link(
            group.cluster, group.group, self._at, span if self._zoom is None else None, self._lanes.find or None,
            self._lanes.fold or None, period=self._zoom,
        )  # fmt: skip

    # Page content.

    async def _ask_state(self) -> None:
        self._state = await self._store.ask(state, self._name, self._cluster, self._at)

    async def _ask_history(self) -> None:
        self._version = self._store.version
        self._history = await self._store.ask(history, self._name, self._cluster, self._window)

    async def _update(self) -> None:
        self._note = ""
        try:
            await self._ask_state()
        except UserError as error:
            self._note = str(error)  # e.g. a time before the group's history: keep the content and add the message
            self._state = replace(self._state, ends=await self._store.ask(history_ends, self._at))
        self._follow()
        if self._history.window != self._window or self._version != self._store.version:
            await self._ask_history()
        self._show()

    def _follow(self) -> None:
        """Move the period to end now, while it followed the current time and the instant stays in it."""
        live, length = self._state.ends.live, self._length()
        self._ends_now = self._ends_now and (self._at is None or self._at > live - length)
        if self._ends_now:
            self._window = until(self._state.ends, self._span, live)

    def _time_has_passed(self) -> bool:
        """Return whether the timeline would visibly move, or telemetry has stopped or resumed."""
        ends = self._state.ends
        passed = ends.by().live - self._window.until
        moved_on = self._at is None and self._zoom is None and passed > max(self._length() // 240, 5_000)
        return moved_on or ends.has_turned()

    def _now(self) -> int:
        return self._state.ends.instant(self._at)

    def _show(self) -> None:
        state, past, now = self._state, self._history, self._now()
        clients = {*state.group.members, *(i.client_id for i in past.intervals)}
        clients |= {c for q in state.queues for c in (q.owner, q.expected_owner) if c is not None}
        palette = colours(clients) if len(clients) <= CLIENTS_WITH_COLOURS else None
        names = {"colours": palette or {}, "short": short_names(clients), "now": now, "at": self._at}
        text = self._lanes.text
        owners, spans = group_state.owners_in(past), owner_spans(past, state.ends.live)
        matching = {
            place: q for q in state.queues for place in [(q.topic, q.broker, q.queue_id)]
            if group_state.matches(q, self._lanes, owners[place], moved=has_moved(spans.get(place, ())))
        }  # fmt: skip
        self._show_head(now)
        self._show_lanes(spans, None if self._lanes.shows_all else matching, palette, clients)
        self._lag.show(past.lag, past.window, self._at)
        self._waiting.show(past.lag, past.window, self._at)
        self._fill(self._failed, "failed", state.failed, **names)
        nothing = gettext("No matching queues.") if state.queues else gettext("No queues.")
        self._fill(self._queues, "queues", group_state.in_order(matching.values(), self._order),
                   without_owner=state.group.without_owner, text=text, owners=owners,
                   folded=self._folds_well and self._order == "status",
                   well=sum(not q.is_problem for q in matching.values()), page_size=_ROWS["queues"],
                   columns=[c for c in QUEUE.page if state.group.orderly or c.name != "lock_age_ms"],
                   nothing=nothing, **names)  # fmt: skip
        self._fill(self._members, "members", group_state.members(state.group, state.queues),
                   proxied=state.proxied, proxied_columns=PROXIED_COLUMNS, columns=group_state.MEMBER_COLUMNS,
                   **names | {"short": {}})  # fmt: skip
        rebalances = in_order(past.rebalances, REBALANCE_ORDERS[self._rebalance_order])
        self._fill(self._rebalances, "rebalances", rebalances, **names)
        self._totals.show(totals=past.totals)
        # They are those at the period's end, which is later than the instant that is shown.
        self._fill(self._past, "incidents", past.incidents,
                   **names | {"now": min(past.window.until, state.ends.live)})  # fmt: skip

    def _show_lanes(
        self, spans: Mapping[Place, Sequence[OwnerSpan]], places: Container[Place] | None,
        palette: Mapping[str, int] | None, clients: Collection[str],
    ) -> None:  # fmt: skip
        """Show the lanes of these queues, or of all, and what is wrong with the group's queues."""
        state, text, without_owner = self._state, self._lanes.text, self._state.group.without_owner
        marked = {client for client in clients if text in client.lower()} if text else ()
        lanes = LaneChoice(
            lambda place: places is None or place in places, self._lanes.fold, palette, marked, without_owner
        )  # fmt: skip
        drawn = timeline_data(self._history, spans, state.queues, state.ends, lanes)
        self._timeline.show(drawn, self._at)
        owned = {interval.client_id for interval in self._history.intervals}
        names = short_names(clients)
        owners = [(names[client], palette[client]) for client in sorted(owned)] if palette is not None else []
        self._legend.show(by_meaning=palette is None, folded=bool(drawn["folds"]), owners=owners)
        many = len(state.queues) > FEW_LANES
        problems = reasons(state.queues, names, without_owner) if many else []
        queues, moved = len(state.queues), sum(map(has_moved, spans.values()))
        well = queues - sum(reason.queues for reason in problems)
        self._reasons.show(
            many=many, reasons=problems[:REASONS], more=len(problems[REASONS:]), queues=queues, well=well, moved=moved
        )  # fmt: skip

    def _show_head(self, now: int) -> None:
        state = self._state
        times = group_state.changes(self._history)
        stale(state.ends)
        self._head.show(
            group=state.group, at=self._at, note=self._note, ends=state.ends,
            consequences=state.consequences,
            coverage=coverage_of(state.group.coverage),
            brokers=[(one.broker, freshness(one)) for one in state.brokers if not one.is_fresh],
            **group_state.owner_counts(state),
        )  # fmt: skip
        self._when.show(
            state.ends, self._at, SPANS, "" if self._zoom else self._span, useful=useful_spans(state.ends),
            controls={
                "zoom": self._zoom, "window": self._window,
                "earlier": group_state.before(times, now), "later": group_state.after(times, now),
            },
        )  # fmt: skip
        shown = page_of(cards(state.incidents), self._pages["open"], _ROWS["open"])
        self._open.show(
            cards=shown.rows, **shown.pager, with_group=False,
            consequences=state.consequences,
            at=self._at, now=now, nothing=gettext("No open incidents."),
        )  # fmt: skip

    def _fill(self, table: LiveMarkup, name: str, rows: list[T], **values: object) -> None:
        shown: Page[T] = page_of(rows, self._pages[name], _ROWS[name])
        few = None if name in self._unfolded else _FEW
        table.show(**{name: shown.rows}, **shown.pager, **{"few": few} | values)
