"""The page of all clients, with filters that are in its address."""

from typing import NamedTuple

from streaming.base.language import gettext
from streaming.queries.clients import clients, mixed_versions
from streaming.queries.columns import CLIENT
from streaming.queries.present import Ends, history_ends
from streaming.queries.results import Client
from streaming.serve.dashboard.frame import element, frame, stale
from streaming.serve.dashboard.live_page import LivePage
from streaming.serve.dashboard.markup import LiveMarkup
from streaming.serve.dashboard.paging import page_of
from streaming.serve.store import Store
from streaming.tables import ReadModel

_ROWS = 100


class Data(NamedTuple):
    """What the page shows."""

    ends: Ends
    found: list[Client]
    groups: list[str]
    """The groups to choose from."""


def _asked(model: ReadModel, group: str, cluster: str, at: int | None) -> Data:
    rows = model.rows("SELECT DISTINCT s.group FROM group_state s ORDER BY s.group")
    found = clients(model, group or None, cluster=cluster or None, at=at)
    return Data(history_ends(model, at), found, [row["group"] for row in rows])


class ClientsPage(LivePage[Data]):
    """The clients of all groups or of one, now or at an instant."""

    def __init__(self, store: Store, group: str, find: str, at: int | None, cluster: str = "") -> None:
        super().__init__(store, at)
        self._group = group
        self._cluster = cluster
        self._find = find

    async def ask(self) -> None:
        """Read the data of the page.

        Raises:
            UserError: the group is unknown, or there are no rows yet, or none by that instant.
        """
        self._data = await self._store.ask(_asked, self._group, self._cluster, self._at)

    def lay_out(self) -> None:
        """Create the page and show it."""
        frame(gettext("Clients"), [(gettext("Clients"), None)])
        with element("section", aria_label=gettext("Summary")):
            self._head = LiveMarkup("clients_head")
            self._pick_time = LiveMarkup("pick_time")
        with element("section", "panel", aria_labelledby="list"):
            self._filters = LiveMarkup("clients_filters")
            self._table = LiveMarkup("clients_table", on_do=self._turner("clients"))
        self._begin()

    def _show(self) -> None:
        shown = self._data
        now = shown.ends.instant(self._at)
        stale(shown.ends)
        found = [one for one in shown.found if self._find.strip().lower() in _text(one)]
        self._head.show(at=self._at, ends=shown.ends, total=len(found), mixed=mixed_versions(found))
        self._pick_time.show(at=self._at, first=shown.ends.first)
        self._filters.show(group=self._group, groups=shown.groups, find=self._find)
        listed = page_of(found, self._pages["clients"], _ROWS)
        self._table.show(
            clients=listed.rows, **listed.pager, columns=CLIENT.page,
            at=self._at, now=now, colours={}, short={},
        )  # fmt: skip


def _text(one: Client) -> str:
    return f"{one.client_id} {one.group} {one.version} {one.language} {one.address} {one.subscriptions}".lower()
