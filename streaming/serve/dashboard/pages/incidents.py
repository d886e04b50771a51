"""The page of all incidents, open and past, with filters that are in its address."""

from typing import NamedTuple, get_args

from streaming.base.language import gettext, marked
from streaming.base.nearest import one_of
from streaming.base.times import duration_ms
from streaming.queries.columns import INCIDENT
from streaming.queries.health import SEVERITY, Severity
from streaming.queries.incidents import incidents, kinds_of_incidents
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.results import Incident
from streaming.serve.dashboard.parts.frame import element, frame, panel, search, stale
from streaming.serve.dashboard.parts.incident_table import COLUMNS
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup
from streaming.serve.dashboard.parts.moment import TimeBar
from streaming.serve.dashboard.parts.ordering import page_of
from streaming.serve.links import incidents_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

STATES = {"": marked("open and resolved"), "open": marked("open"), "resolved": marked("resolved")}
PERIODS = {
    "": marked("All"),
    "1h": marked("1 h"),
    "1d": marked("1 d"),
    "7d": marked("7 d"),
    "30d": marked("30 d"),
}
_ROWS = 50
_MOST = 2_000
"""The maximum number of incidents that are read."""


class IncidentFilters(NamedTuple):
    """The filters, as in the address; empty: any."""

    group: str = ""
    code: str = ""
    severity: str = ""
    state: str = ""
    since: str = ""
    """The length of the period that ends at the shown time."""
    find: str = ""
    """A part of the name of a group, queue or client, or of a code."""
    explained: bool = False
    """Whether those that another one explains are included."""
    cluster: str = ""
    """A cluster; empty: any. In addresses only, beside its group."""


def checked(filters: IncidentFilters) -> IncidentFilters:
    """Return the filters if each has a known value.

    Raises:
        InvalidValueError: one has not.
    """
    choices = {"severity": ("", *get_args(Severity)), "state": STATES, "since": PERIODS}
    return IncidentFilters(
        **filters._asdict() | {name: one_of(name, getattr(filters, name), known) for name, known in choices.items()}
    )


class IncidentsData(NamedTuple):
    """The values of the page."""

    ends: HistoryBounds
    incidents: list[Incident]
    cut: bool
    """Whether there are more incidents than were read."""
    kinds: list[tuple[str, str]]
    """The groups and codes to choose from."""


def _asked(model: ReadModel, filters: IncidentFilters, at: int | None) -> IncidentsData:
    ends = history_ends(model, at)
    now = ends.instant(at)
    listed = incidents(
        model, cluster=filters.cluster or None, group=filters.group or None, code=filters.code or None,
        severity=filters.severity or None, at=at,
        only_open=filters.state == "open", only_resolved=filters.state == "resolved",
        since=now - duration_ms(filters.since) if filters.since else 0,
        unfold=filters.explained, last=_MOST + 1,
    )  # fmt: skip
    return IncidentsData(ends, listed[:_MOST], len(listed) > _MOST, kinds_of_incidents(model))


class IncidentsPage(LivePage[IncidentsData]):
    """The incidents that match the filters, now or at an instant: open ones first, then the newest."""

    def __init__(self, store: Store, filters: IncidentFilters, at: int | None) -> None:
        super().__init__(store, at)
        self._filters = filters

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the group is unknown, or there are no rows yet, or none by that instant.
        """
        self._data = await self._store.ask(_asked, self._filters, self._at)

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(gettext("Incidents"), [(gettext("Incidents"), None)])
        self._when = TimeBar()
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("incidents_head")
        with panel(gettext("Filters"), "list") as line:
            with line:
                search(gettext("Find queues, clients, groups or codes"), self._search, self._filters.find)
                self._filter_form = LiveMarkup("incidents_filters")
            self._table = LiveMarkup("incidents_table", on_do=self._turner("incidents"))
        self._begin()

    def _search(self, text: str) -> None:
        self._filters = self._filters._replace(find=text.strip())
        explained = "true" if self._filters.explained else ""
        self._show_filtered(incidents_link(self._at, **self._filters._asdict() | {"explained": explained}))

    def _show(self) -> None:
        data, filters = self._data, self._filters
        now = data.ends.instant(self._at)
        stale(data.ends)
        text = filters.find.strip().lower()
        matching = [incident for incident in data.incidents if text in _text(incident)]
        self._head.show(at=self._at, ends=data.ends, open=sum(incident.resolved_at is None for incident in matching))
        self._when.show(data.ends, self._at, PERIODS, filters.since, "since")
        self._filter_form.show(
            filters=filters, states=STATES, severities=list(SEVERITY),
            groups=sorted({group for group, _ in data.kinds if group} | {filters.group} - {""}),
            codes=sorted({code for _, code in data.kinds} | {filters.code} - {""}),
        )  # fmt: skip
        listed = page_of(matching, self._pages["incidents"], _ROWS)
        self._table.show(
            incidents=listed.rows, **listed.pager,
            columns=(*COLUMNS, INCIDENT["consequences"]), cut=_MOST if data.cut else None,
            nothing=gettext("No incidents match these filters."), at=self._at, now=now,
        )  # fmt: skip


def _text(incident: Incident) -> str:
    names = incident.cluster, incident.group, incident.title, incident.subject, incident.client_id
    return " ".join(map(str, (*names, incident.incident_id))).lower()
