"""The home page: open incidents and groups by health."""

from collections import Counter

from streaming.serve.dashboard.frame import element, frame, panel, search, stale
from streaming.serve.dashboard.live_page import LivePage
from streaming.serve.dashboard.markup import LiveMarkup
from streaming.serve.dashboard.page_data import Overview, overview
from streaming.serve.dashboard.paging import page_of
from streaming.serve.links import INCIDENTS
from streaming.serve.store import Store

_INCIDENTS = 6
_GROUPS = 100


class Home(LivePage[Overview]):
    """Open incidents and all groups by health, now or at an instant."""

    def __init__(self, store: Store, at: int | None) -> None:
        super().__init__(store, at)
        self._wanted = ""

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: there are no rows yet, or none by that instant.
        """
        self._data = await self._store.ask(overview, self._at)

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame("Consumer groups", [("Groups", None)])
        with element("section", aria_label="Summary"):
            self._head = LiveMarkup("home_head")
            self._pick_time = LiveMarkup("pick_time")
        with panel("Open incidents", "incidents") as line:
            with line:
                element("a", href=INCIDENTS).text = "All incidents"
            self._incidents = LiveMarkup("incident_list", on_do=self._turner("incidents"))
        with panel("Groups by health", "groups") as line:
            with line:
                search("Find a group", self._search)
            self._groups = LiveMarkup("home_groups", on_do=self._turner("groups"))
        self._begin()

    def _search(self, text: str) -> None:
        self._wanted, self._pages["groups"] = text.strip().lower(), 0
        self._show()

    def _show(self) -> None:
        shown = self._data
        now = self._at if self._at is not None else shown.ends.live
        stale(shown.ends, self._at)
        self._head.show(
            at=self._at, ends=shown.ends, incidents=shown.incidents,
            counts=Counter(group.health for group in shown.groups),
        )  # fmt: skip
        self._pick_time.show(at=self._at, first=shown.ends.first)
        listed = page_of(shown.incidents, self._pages["incidents"], _INCIDENTS)
        self._incidents.show(
            incidents=listed.rows, page=listed.page, pages=listed.pages, total=len(shown.incidents), with_group=True,
            at=self._at, now=now, nothing="No open incidents.",
        )  # fmt: skip
        found = [g for g in shown.groups if self._wanted in f"{g.group} {g.cluster}".lower()]
        matching = page_of(found, self._pages["groups"], _GROUPS)
        self._groups.show(
            groups=matching.rows, page=matching.page, pages=matching.pages, total=len(found), at=self._at, now=now
        )
