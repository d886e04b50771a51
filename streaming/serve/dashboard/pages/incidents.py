"""The page of all incidents, open and past, with filters that are in its address; the table of them for other pages."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from markupsafe import Markup

from rebalance_model.entities import INT64_MAX, MessageQueue
from streaming.base.language import gettext, marked
from streaming.base.nearest import one_of
from streaming.base.times import duration_ms
from streaming.queries.columns import INCIDENT
from streaming.queries.evidence import formatted, label
from streaming.queries.group_at import GroupAt
from streaming.queries.health import SEVERITY, Severity, WithoutOwner
from streaming.queries.incident_detail import incident, queue_without_owner, unknown_text, waiting_text
from streaming.queries.incidents import find_incident, incidents, kinds_of_incidents
from streaming.queries.labels import NOT_KNOWN
from streaming.queries.notifications import MESSAGES, step_text
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.queue_history import queue_history
from streaming.queries.results import Incident, IncidentDetail
from streaming.queries.roots import cards
from streaming.queries.rule_text import headline
from streaming.serve.dashboard.charts.queue_picture import Picture, picture
from streaming.serve.dashboard.parts.frame import element, frame, panel, search, stale
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup, clock, count, unknown
from streaming.serve.dashboard.parts.moment import TimeBar
from streaming.serve.dashboard.parts.ordering import Page, page_of
from streaming.serve.links import client_link, group_link, home_link, incidents_link, rebalance_link
from streaming.serve.store import Store
from streaming.serve.user import current_user
from streaming.tables import ReadModel

COLUMNS = tuple(
    INCIDENT[name] for name in ("headline", "severity", "group", "subject", "opened_at", "resolved_at", "duration")
)


def show_incidents_of_period(table: LiveMarkup, incidents: Page[Incident], **values: Any) -> None:
    """Show one page of the incidents of a period, with the values that the tables of the page have in common."""
    table.show(
        incidents=incidents.rows, **incidents.pager, columns=COLUMNS, cut=None,
        nothing=gettext("No incidents in this period."), **values,
    )  # fmt: skip


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
    """True if those that another one explains are included."""
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
    """True if there are more incidents than were read."""
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


_MINUTE_MS = 60_000
_AROUND_MS = 10 * _MINUTE_MS
_CLIENTS = frozenset({
    "asked_by", "client", "expected_owner", "first_taker", "former", "former_owner", "holder", "kept_by", "owner",
    "odd_one", "pool_holder", "rival", "taken_by", "who",
})  # fmt: skip
"""The fields of evidence that name one client."""

EvidenceRow = tuple[str, str | Markup, str | Markup]
"""The label of a field, and its values at the opening and at the worst transition."""


class IncidentData(NamedTuple):
    """The values of the page."""

    detail: IncidentDetail
    parent: Incident | None
    """The incident that explains it."""
    ends: HistoryBounds
    picture: Picture | None
    """Its queue around the opening; None if it is not about a queue."""
    without_owner: WithoutOwner
    """The kind of its queue if that has no owner."""


def _asked_detail(model: ReadModel, incident_id: str) -> IncidentData:
    detail = incident(model, incident_id)
    parent, ends = detail.incident.parent, history_ends(model)
    explained_by = find_incident(model, parent) if parent else None
    without_owner = queue_without_owner(model, detail)
    return IncidentData(detail, explained_by, ends, _picture(model, detail, ends), without_owner)


def _picture(model: ReadModel, detail: IncidentDetail, ends: HistoryBounds) -> Picture | None:
    """Return the picture of the incident's queue, with the opening in the middle unless that is too recent."""
    incident = detail.incident
    if incident.topic is None or incident.broker is None or incident.queue_id is None:
        return None
    until = min(incident.opened_at + _AROUND_MS // 2, max(ends.live, incident.opened_at))
    group_at, queue = (
        GroupAt(incident.cluster, incident.group, INT64_MAX),
        MessageQueue(incident.topic, incident.broker, incident.queue_id),
    )
    return picture(queue_history(model, group_at, queue, until - _AROUND_MS, until), ends.live, incident, detail.life)


class IncidentPage(LivePage[IncidentData]):
    """The current state of one incident."""

    def __init__(self, store: Store, incident_id: str) -> None:
        super().__init__(store)
        self._id = incident_id
        self._user = current_user()

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: see `streaming.queries.incident_detail.incident`.
        """
        self._data = await self._store.ask(_asked_detail, self._id)

    def lay_out(self) -> None:
        """Create the page and show it."""
        incident = self._data.detail.incident
        group = (incident.group, group_link(incident.cluster, incident.group, incident.opened_at))
        about = [(gettext("Groups"), home_link()), *([group] if incident.group else []), (incident.code, None)]
        frame(headline(incident), about)
        self._markup = LiveMarkup("incident")
        self._begin()

    def _show(self) -> None:
        detail, parent, ends, around, without_owner = self._data
        incident, life = detail.incident, detail.life
        event = detail.cause_event
        if incident.resolved_at is None:
            stale(ends)
        self._markup.show(
            i=incident, ends=ends, q=detail.queue, reach=detail.reach, parent=parent, life=life, at=incident.opened_at,
            children=cards(detail.absorbed), with_group=not incident.group, names_groups=True,
            impact=detail.impact, waiting_text=waiting_text, unknown_text=unknown_text,
            notifications=detail.notifications, acknowledged=detail.acknowledged, silences=detail.silences,
            MESSAGES=MESSAGES, step_text=step_text, rebalance=detail.last_rebalance,
            commands=detail.commands, picture=around, now=ends.live, stacks=detail.stacks,
            evidence=evidence_rows(incident, life[0].evidence, ends.live),
            changed=life[0].evidence != incident.evidence,
            here=group_link(incident.cluster, incident.group, incident.opened_at),
            before=group_link(incident.cluster, incident.group, incident.opened_at - _MINUTE_MS),
            without_owner=without_owner, colours={}, short={},
            user=self._user, event=event, raw=json.dumps(event, indent=2, ensure_ascii=False), cause=life[0].cause,
        )  # fmt: skip


def _linked(incident: Incident, name: str, said: str) -> str | Markup:
    """Return a value of evidence as a link to the page of the client or the rebalance that it names."""
    if name == "rebalance_id":
        address = rebalance_link(incident.cluster, incident.group, said)
    elif name in _CLIENTS and "@" in said and ", " not in said:
        address = client_link(said, incident.opened_at)
    else:
        return said
    return Markup('<a class="mono" href="{}">{}</a>').format(address, said)


def evidence_rows(incident: Incident, first: Mapping[str, object], now: int) -> list[EvidenceRow]:
    """Return each field of the evidence: its label and its values at the opening and at the worst transition."""

    def text(evidence: Mapping[str, object], name: str) -> str | Markup:
        if name not in evidence:
            # Evidence has what matters at a transition; other transitions may lack it.
            return Markup('<span class="quiet">{}</span>').format(gettext("not reported"))
        said = formatted(incident.code, name, evidence[name], now, number=count, time=clock)
        return unknown() if said == NOT_KNOWN else _linked(incident, name, said)

    worst = incident.evidence
    return [(label(incident.code, name), text(first, name), text(worst, name)) for name in {**first, **worst}]
