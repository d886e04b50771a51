"""An incident's page: where an alert leads. What is wrong, on what evidence, since when, and what to do."""

import json

from markupsafe import Markup

from streaming.dashboard.frame import frame
from streaming.dashboard.links import HOME, group_link
from streaming.dashboard.live import Live
from streaming.dashboard.markup import UNKNOWN, LiveMarkup, count, duration
from streaming.queries.answers import Incident, IncidentStory
from streaming.queries.incident_story import incident
from streaming.queries.incidents import incident_of
from streaming.queries.present import Ends, told_ends
from streaming.read_model import ReadModel
from streaming.web.store import Store

_MINUTE_MS = 60_000
_NOT_SAID = Markup('<span class="quiet">not told</span>')
"""Evidence names what matters at a transition: another transition may not have it."""


_Facts = tuple[IncidentStory, Incident | None, Ends]
"""The incident, what explains it, and where history ends."""


def _asked(model: ReadModel, incident_id: str) -> _Facts:
    story = incident(model, incident_id)
    parent = story.incident.parent
    return story, incident_of(model, parent) if parent else None, told_ends(model)


class IncidentPage:
    """One incident, as the tables have it now."""

    def __init__(self, store: Store, incident_id: str) -> None:
        self._store = store
        self._id = incident_id
        self._facts: _Facts
        self._live = Live(store, self._update, tick=self._turned_silent)

    async def ask(self) -> None:
        """Get what the page shows.

        Raises:
            UserError: see `streaming.queries.incident_story.incident`.
        """
        self._facts = await self._store.ask(_asked, self._id)

    def lay_out(self) -> None:
        """Make the page and show it."""
        shown = self._facts[0].incident
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
        return self._facts[2].has_turned()

    def _show(self) -> None:
        story, parent, told = self._facts
        shown, life = story.incident, story.life
        first, last = life[0].evidence, life[-1].evidence
        event = story.cause_event
        self._markup.show(
            i=shown, q=story.queue, reach=story.reach, parent=parent, life=life, absorbed=story.absorbed, now=told.live,
            evidence=[_fact(name, first.get(name, _NOT_SAID), last.get(name, _NOT_SAID)) for name in {**first, **last}],
            changed=first != last,
            here=group_link(shown.cluster, shown.group, shown.opened_at),
            before=group_link(shown.cluster, shown.group, shown.opened_at - _MINUTE_MS),
            event=event, raw=json.dumps(event, indent=2, ensure_ascii=False), cause=life[0].cause,
        )  # fmt: skip


def _fact(name: str, first: object, last: object) -> tuple[str, str | Markup, str | Markup]:
    """A number of the evidence, with its unit in words, at the first transition and at the last."""
    if name.endswith("_ms"):
        return _words(name.removesuffix("_ms")), _said(first, is_span=True), _said(last, is_span=True)
    return _words(name), _said(first), _said(last)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _said(value: object, *, is_span: bool = False) -> str | Markup:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return duration(value) if is_span else count(value)
    return str(value)
