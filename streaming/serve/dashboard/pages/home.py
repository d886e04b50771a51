"""The home page: groups by health over a period, filtered and sorted by the address, and open incidents.

Before the first events it shows the steps to them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from nicegui import ui

from streaming.base.language import gettext, marked
from streaming.base.nearest import one_of
from streaming.base.times import duration_ms
from streaming.queries.columns import GROUP, INTERVAL
from streaming.queries.columns.column import ResultColumn
from streaming.queries.group_health import SLICES, GroupKey, health_over
from streaming.queries.groups import groups
from streaming.queries.health import HEALTH, Health
from streaming.queries.incidents import incidents
from streaming.queries.lag import LagSeries, lag_over
from streaming.queries.ownership import find_owned
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import Group, Incident, Interval
from streaming.queries.roots import Card, cards
from streaming.serve.dashboard.charts.trends import sparkline_of, strip_of
from streaming.serve.dashboard.parts.frame import element, frame, panel, search, stale
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup, coverage_of
from streaming.serve.dashboard.parts.moment import DEFAULT_SPAN, SPANS, TimeBar, useful_spans
from streaming.serve.dashboard.parts.ordering import Order, Page, Rank, SortedFilters, number, page_of, turned
from streaming.serve.first_run import FirstRun
from streaming.serve.links import home_link, incidents_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

NOT_OK = "not-ok"
HEALTHS: Mapping[str, str] = {
    "": marked("Any health"),
    NOT_OK: marked("Not OK"),
    **dict[str, str](zip(HEALTH, HEALTH, strict=True)),
}


def _severity(group: Group) -> Rank:
    return group.incidents.critical, group.incidents.warning, group.incidents.info


ORDERS: Mapping[str, Order[Group]] = {
    "health": Order(marked("Worst first"), lambda g: (-HEALTH[g.health].rank, *_severity(g))),
    "group": Order(marked("By name"), lambda g: (g.group.lower(), g.cluster), descending=False),
    "incidents": Order(marked("Most incidents"), _severity),
    "lag": Order(marked("Largest lag"), lambda g: number(g.lag)),
    "members": Order(marked("Most members"), lambda g: (len(g.members),)),
    "queues": Order(marked("Most queues"), lambda g: (g.queues,)),
    "unowned": Order(marked("Most unassigned"), lambda g: number(g.unowned)),
    "last_rebalance": Order(marked("Latest rebalance"), lambda g: number(g.last_rebalance)),
    "time": Order(marked("Oldest update"), lambda g: (g.time,), descending=False),
}
"""The orders by the name of their column; the first one is used if none is chosen."""


@dataclass(frozen=True, kw_only=True)
class GroupFilters(SortedFilters[Group]):
    """The filters and the order, as in the address; empty: no filter, and the default order."""

    find: str = ""
    """A part of the name of a group or cluster, or of what `find_owned` finds."""
    health: str = ""
    """One of `HEALTHS`."""
    cluster: str = ""

    orders = ORDERS

    @property
    def text(self) -> str:
        """The text to find, in lower case."""
        return self.find.strip().lower()


def checked(filters: GroupFilters) -> GroupFilters:
    """Return the filters if each has a known value.

    Raises:
        InvalidValueError: one has not.
    """
    return replace(filters, health=one_of("health", filters.health, HEALTHS)).with_known_order()


def listed(groups: Iterable[Group], filters: GroupFilters, owned: Collection[GroupKey] = ()) -> list[Group]:
    """Return the groups that match the filters, in order.

    Args:
        groups: all groups.
        filters: the filters and the order.
        owned: groups with a queue that was found by the text.
    """
    by_name = sorted((g for g in groups if _matches(g, filters, owned)), key=lambda g: (g.cluster, g.group))
    return filters.in_order(by_name)


def _matches(group: Group, filters: GroupFilters, owned: Collection[GroupKey]) -> bool:
    if filters.cluster and group.cluster != filters.cluster:
        return False
    if filters.health and (group.health == "OK" if filters.health == NOT_OK else group.health != filters.health):
        return False
    names = " ".join((group.group, group.cluster, *group.members)).lower()
    return filters.text in names or (group.cluster, group.group) in owned


@dataclass(frozen=True)
class HomeOverview:
    """All groups and open incidents at an instant."""

    ends: HistoryBounds
    groups: list[Group]
    incidents: list[Incident]
    """The roots of the open incidents."""
    cards: list[Card]
    """All open incidents, the worst first."""


def overview(model: ReadModel, at: int | None = None) -> HomeOverview:
    """Read all groups and open incidents.

    Raises:
        UserError: see `history_ends`.
    """
    ends = history_ends(model, at)
    open_now = incidents(model, only_open=True, at=at)
    of_all = cards(open_now)
    return HomeOverview(ends, groups(model, at), [card.root for card in of_all], of_all)


_LOOK_SECONDS = 1.0


class FirstRunPage:
    """The steps until there are groups."""

    def __init__(self, first_run: FirstRun) -> None:
        self._first_run = first_run

    def lay_out(self) -> None:
        """Create the page and show what is known at once."""
        frame(gettext("First run"), [(gettext("Groups"), None)])
        with element("section", "panel", aria_labelledby="steps"):
            self._markup = LiveMarkup("first_run")
        self._show()
        ui.timer(_LOOK_SECONDS, self._show, immediate=False)

    def _show(self) -> None:
        self._markup.show(steps=self._first_run.current_steps())


_INCIDENTS = 3
_GROUPS = 50
_OWNED = 20
_MOST_OWNED = 2_000
"""The maximum number of queues that are found by a client or a name."""
_LEAST_TEXT = 3
"""The least number of characters by which queues are looked for."""
_STRIP = ResultColumn(Group, "strip", heading=marked("Over time"), made_from=("health",), wide=True)
COLUMNS = (*GROUP.page[:2], _STRIP, *GROUP.page[2:], GROUP["time"])
_OWNED_COLUMNS = tuple(INTERVAL[name] for name in ("client_id", "queue", "group", "from_time", "to_time"))


class GroupSelection(NamedTuple):
    """The groups that match the filters, and the page of them that is shown."""

    page: Page[Group]
    health: dict[GroupKey, tuple[Health, ...]]
    """The period of each group of the page."""
    lags: dict[GroupKey, LagSeries]
    """Its lag in the period."""
    owned: list[Interval]
    """Queues that the text finds, and who owned them in the period."""


def _select(
    model: ReadModel, groups: Sequence[Group], filters: GroupFilters, page: int, period: tuple[int, int]
) -> GroupSelection:
    since, until = period
    seek = len(filters.text) >= _LEAST_TEXT
    owned = find_owned(model, filters.text, since, until, _MOST_OWNED + 1) if seek else []
    matching = listed(groups, filters, {(interval.cluster, interval.group) for interval in owned})
    page_of_groups = page_of(matching, page, _GROUPS)
    names = [(group.cluster, group.group) for group in page_of_groups.rows]
    of_cluster = [interval for interval in owned if filters.cluster in {"", interval.cluster}]
    health, lags = health_over(model, names, since, until), lag_over(model, names, since, until)
    return GroupSelection(page_of_groups, health, lags, of_cluster)


def _stale(groups: Sequence[Group]) -> dict[Health, tuple[int, int]]:
    """Return of each health how many groups are stale, and the age of their oldest telemetry, milliseconds."""
    by_health: dict[Health, tuple[int, int]] = {}
    for group in groups:
        if group.is_stale and group.health != "UNKNOWN":
            number, age = by_health.get(group.health, (0, 0))
            by_health[group.health] = number + 1, max(age, group.telemetry_age_ms)
    return by_health


class HomePage(LivePage[HomeOverview]):
    """Groups by health and open incidents, now or at an instant."""

    def __init__(self, store: Store, at: int | None, filters: GroupFilters, span: str = DEFAULT_SPAN) -> None:
        super().__init__(store, at)
        self._span = span
        self._filters = filters
        self._version = -1

    async def ask(self) -> None:
        """Read the data of the page; the groups only if the tables have new rows, or telemetry has stopped.

        Raises:
            UserError: there are no rows yet, or none by that instant.
        """
        version = self._store.version
        if version != self._version or (self._at is None and self._data.ends.has_turned()):
            self._data = await self._store.ask(overview, self._at)
            self._version = version
        page = self._pages["groups"]
        self._selected = await self._store.ask(_select, self._data.groups, self._filters, page, self._period())

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(gettext("Consumer groups"), [(gettext("Groups"), None)])
        self._when = TimeBar()
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("home_head")
        with panel(gettext("Open incidents"), "incidents") as line:
            with line:
                element("a", href=incidents_link(self._at)).text = gettext("All incidents")
            self._incidents = LiveMarkup("incident_list", on_do=self._turner("incidents"))
        with panel(gettext("Groups by health"), "groups") as line:
            with line:
                search(gettext("Find a group, client or queue"), self._search, self._filters.find)
                self._filter_form = LiveMarkup("home_filters")
            self._groups = LiveMarkup("home_groups", on_do=self._turn)
        self._owned = LiveMarkup("home_owned", on_do=self._turner("owned"))
        self._begin()

    async def _turn(self, word: str) -> None:
        self._pages["groups"] = turned(word)
        await self._live.refresh()

    async def _search(self, text: str) -> None:
        self._filters = replace(self._filters, find=text.strip())
        self._pages["groups"] = self._pages["owned"] = 0
        span = self._span if self._span != DEFAULT_SPAN else ""
        ui.navigate.history.replace(home_link(self._at, **self._filters.values(), span=span))
        await self._live.refresh()

    def _period(self) -> tuple[int, int]:
        return self._now() - duration_ms(self._span), self._now()

    def _now(self) -> int:
        return self._data.ends.instant(self._at)

    def _show(self) -> None:
        data, now = self._data, self._now()
        stale(data.ends)
        self._head.show(
            at=self._at, ends=data.ends, incidents=data.incidents, filters=self._filters,
            counts=Counter(group.health for group in data.groups), stale=_stale(data.groups),
        )  # fmt: skip
        self._when.show(data.ends, self._at, SPANS, self._span, useful=useful_spans(data.ends))
        open_ones = page_of(data.cards, self._pages["incidents"], _INCIDENTS)
        self._incidents.show(
            cards=open_ones.rows, **open_ones.pager, with_group=True, consequences=0, at=self._at, now=now,
            nothing=gettext("No open incidents."),
        )  # fmt: skip
        self._filter_form.show(
            filters=self._filters, healths=HEALTHS, clusters=sorted({g.cluster for g in data.groups})
        )
        self._show_selected(now)

    def _show_selected(self, now: int) -> None:
        selection, names = self._selected, {"at": self._at, "now": now}
        self._groups.show(
            groups=selection.page.rows, **selection.page.pager, columns=COLUMNS, filters=self._filters, orders=ORDERS,
            coverage_of=coverage_of,
            strips={key: strip_of(worst, duration_ms(self._span)) for key, worst in selection.health.items()},
            slice_ms=duration_ms(self._span) // SLICES, span=self._span if self._span != DEFAULT_SPAN else "",
            sparklines={key: sparkline_of(lags) for key, lags in selection.lags.items()}, **names,
        )  # fmt: skip
        owned = page_of(selection.owned[:_MOST_OWNED], self._pages["owned"], _OWNED)
        self._owned.show(
            intervals=owned.rows, **owned.pager, cut=_MOST_OWNED if len(selection.owned) > _MOST_OWNED else None,
            text=self._filters.find if len(self._filters.text) >= _LEAST_TEXT else "", columns=_OWNED_COLUMNS,
            colours={}, short={}, **names,
        )  # fmt: skip
