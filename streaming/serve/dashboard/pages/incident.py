"""The page of an incident, to which alerts link: diagnosis, evidence, timeline and next step."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup

from rebalance_model.entities import INT64_MAX, MessageQueue
from streaming.base.language import gettext
from streaming.queries.evidence import formatted, label
from streaming.queries.group_at import GroupAt
from streaming.queries.health import WithoutOwner
from streaming.queries.incident_detail import incident, queue_without_owner, unknown_text, waiting_text
from streaming.queries.incidents import find_incident
from streaming.queries.labels import NOT_KNOWN
from streaming.queries.notifications import MESSAGES, step_text
from streaming.queries.present import HistoryBounds, history_ends
from streaming.queries.queue_history import queue_history
from streaming.queries.results import Incident, IncidentDetail
from streaming.queries.roots import cards
from streaming.queries.rule_text import headline
from streaming.serve.dashboard.charts.queue_picture import Picture, picture
from streaming.serve.dashboard.parts.frame import frame, stale
from streaming.serve.dashboard.parts.live import LivePage
from streaming.serve.dashboard.parts.markup import LiveMarkup, clock, count, unknown
from streaming.serve.links import client_link, group_link, home_link, rebalance_link
from streaming.serve.store import Store
from streaming.serve.user import current_user
from streaming.tables import ReadModel

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
    """What its queue is if it has no owner."""


def _asked(model: ReadModel, incident_id: str) -> IncidentData:
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
        self._data = await self._store.ask(_asked, self._id)

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
