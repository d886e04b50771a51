"""The home page: what is wrong first."""

from collections import Counter

from streaming.dashboard.facts import Overview, overview
from streaming.dashboard.frame import element, frame, panel, search, stale
from streaming.dashboard.live import Live
from streaming.dashboard.markup import LiveMarkup
from streaming.dashboard.paging import page_of, turned
from streaming.web.store import Store

_INCIDENTS = 6
_GROUPS = 100


class Home:
    """All groups by health, and the open incidents, now or at an instant."""

    def __init__(self, store: Store, at: int | None) -> None:
        self._store = store
        self._at = at
        self._wanted = ""
        self._page = self._incidents_page = 0
        self._live = Live(store, self._update, tick=self._turned_silent)
        self._facts: Overview

    async def ask(self) -> None:
        """Get what the page shows.

        Raises:
            UserError: nothing has been told yet, or not by that instant.
        """
        self._facts = await self._store.ask(overview, self._at)

    def lay_out(self) -> None:
        """Make the page and show it."""
        frame("Consumer groups", [("Groups", None)])
        with element("section", aria_label="Summary"):
            self._head = LiveMarkup("home_head")
        with panel("Open incidents", "incidents"):
            self._incidents = LiveMarkup("incident_list", on_do=self._turn_incidents)
        with panel("Groups by health", "groups") as line:
            with line:
                search("Find a group", self._search)
            with element("div", "scroll", tabindex="0", role="group", aria_label="Groups, table"):
                self._groups = LiveMarkup("home_groups", on_do=self._turn_groups)
        self._show()
        if self._at is None:
            self._live.begin()

    async def _update(self) -> None:
        await self.ask()
        self._show()

    def _turned_silent(self) -> bool:
        return self._facts.ends.has_turned()

    def _search(self, text: str) -> None:
        self._wanted, self._page = text.strip().lower(), 0
        self._show()

    def _turn_incidents(self, word: str) -> None:
        self._incidents_page = turned(word)
        self._show()

    def _turn_groups(self, word: str) -> None:
        self._page = turned(word)
        self._show()

    def _show(self) -> None:
        facts = self._facts
        now = self._at if self._at is not None else facts.ends.live
        stale(facts.ends, self._at)
        self._head.show(
            at=self._at, ends=facts.ends, incidents=facts.incidents,
            counts=Counter(group.health for group in facts.groups),
        )  # fmt: skip
        told = page_of(facts.incidents, self._incidents_page, _INCIDENTS)
        self._incidents.show(
            incidents=told.rows, page=told.page, pages=told.pages, total=len(facts.incidents), with_group=True,
            at=self._at, now=now, nothing="No incident is open.",
        )  # fmt: skip
        found = [g for g in facts.groups if self._wanted in f"{g.group} {g.cluster}".lower()]
        shown = page_of(found, self._page, _GROUPS)
        self._groups.show(groups=shown.rows, page=shown.page, pages=shown.pages, total=len(found), at=self._at, now=now)
