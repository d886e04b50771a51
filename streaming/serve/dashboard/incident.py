"""The page of an incident, to which alerts link: diagnosis, evidence, timeline and next step."""

import json

from markupsafe import Markup

from streaming.queries.evidence import formatted, label
from streaming.queries.incident_detail import incident
from streaming.queries.incidents import incident_of
from streaming.queries.labels import NOT_KNOWN
from streaming.queries.present import Ends, history_ends
from streaming.queries.results import Incident, IncidentDetail, Transition
from streaming.serve.dashboard.frame import frame
from streaming.serve.dashboard.live import Live
from streaming.serve.dashboard.markup import UNKNOWN, LiveMarkup, clock, count
from streaming.serve.links import HOME, group_link
from streaming.serve.store import Store
from streaming.tables import ReadModel

_MINUTE_MS = 60_000
_NOT_REPORTED = Markup('<span class="quiet">not reported</span>')
"""Evidence has what matters at a transition; other transitions may lack it."""


EvidenceRow = tuple[str, str | Markup, str | Markup]
"""The label of a field, and its values at the first and the latest transition."""
_Data = tuple[IncidentDetail, Incident | None, Ends]
"""The incident, the one that explains it, and the ends of history."""


def _asked(model: ReadModel, incident_id: str) -> _Data:
    detail = incident(model, incident_id)
    parent = detail.incident.parent
    return detail, incident_of(model, parent) if parent else None, history_ends(model)


class IncidentPage:
    """The current state of one incident."""

    def __init__(self, store: Store, incident_id: str) -> None:
        self._store = store
        self._id = incident_id
        self._data: _Data
        self._live = Live(store, self._update, tick=self._turned_silent)

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: see `streaming.queries.incident_detail.incident`.
        """
        self._data = await self._store.ask(_asked, self._id)

    def lay_out(self) -> None:
        """Create the page and show it."""
        shown = self._data[0].incident
        group = (shown.group, group_link(shown.cluster, shown.group, shown.opened_at))
        about = [("Groups", HOME), *([group] if shown.group else []), (shown.code, None)]
        frame(f"{shown.code} in {shown.where}", about)
        self._markup = LiveMarkup("incident")
        self._show()
        self._live.begin()

    async def _update(self) -> None:
        await self.ask()
        self._show()

    def _turned_silent(self) -> bool:
        return self._data[2].has_turned()

    def _show(self) -> None:
        detail, parent, ends = self._data
        shown, life = detail.incident, detail.life
        event = detail.cause_event
        self._markup.show(
            i=shown, q=detail.queue, reach=detail.reach, parent=parent, life=life, absorbed=detail.absorbed,
            now=ends.live,
            evidence=evidence_rows(shown, life[0], life[-1], ends.live),
            changed=life[0].evidence != life[-1].evidence,
            here=group_link(shown.cluster, shown.group, shown.opened_at),
            before=group_link(shown.cluster, shown.group, shown.opened_at - _MINUTE_MS),
            event=event, raw=json.dumps(event, indent=2, ensure_ascii=False), cause=life[0].cause,
        )  # fmt: skip


def evidence_rows(shown: Incident, first: Transition, last: Transition, now: int) -> list[EvidenceRow]:
    """Return each field of the evidence: its label and its values at the first and the latest transition."""

    def text(step: Transition, name: str) -> str | Markup:
        if name not in step.evidence:
            return _NOT_REPORTED
        said = formatted(shown.code, name, step.evidence[name], now, number=count, time=clock)
        return UNKNOWN if said == NOT_KNOWN else said

    names = {**first.evidence, **last.evidence}
    return [(label(shown.code, name), text(first, name), text(last, name)) for name in names]
