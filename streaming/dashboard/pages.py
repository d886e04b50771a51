"""The pages and their addresses (see `links`)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol

from nicegui import app as nicegui
from nicegui import ui

from streaming.dashboard.frame import dress, element, sorry
from streaming.dashboard.group import GroupPage
from streaming.dashboard.home import Home
from streaming.dashboard.incident import IncidentPage
from streaming.dashboard.moment import parse_at, parse_span
from streaming.dashboard.rebalance import RebalancePage
from streaming.errors import NotFoundError, UserError
from streaming.web.store import Store

_SECONDS = 20.0
"""So long a browser may take to connect."""
_PATIENCE = 1.0
"""After so many seconds a page begins without its answers."""


class _Page(Protocol):
    async def ask(self) -> None:
        """Get what the page shows at first."""

    def lay_out(self) -> None:
        """Make the page and show it."""


def register(store: Store) -> None:
    """Define the pages. Called once, before NiceGUI is mounted on the application."""
    nicegui.config.quasar_config["loadingBar"] = {"skipHijack": True}  # it has no name for a screen reader

    def page(path: str) -> ui.page:
        return ui.page(path, language="en-US", response_timeout=_SECONDS)

    @page("/")
    async def home(at: str | None = None) -> None:
        await _built("Consumer groups", lambda: Home(store, parse_at(at)))

    @page("/group/{group}")
    async def group(group: str, cluster: str | None = None, at: str | None = None, span: str | None = None) -> None:
        await _built(group, lambda: GroupPage(store, group, cluster, parse_at(at), parse_span(span)))

    @page("/group/{group}/rebalance/{rebalance_id}")
    async def rebalance(group: str, rebalance_id: str, cluster: str | None = None) -> None:
        await _built("Rebalance", lambda: RebalancePage(store, group, cluster, rebalance_id))

    @page("/incident/{incident_id}")
    async def incident(incident_id: str) -> None:
        await _built("Incident", lambda: IncidentPage(store, incident_id))

    @page("/{path:path}")
    async def elsewhere(path: str) -> None:
        dress()
        sorry("No such page", f"There is nothing at /{path}.", 404)


async def _built(title: str, make: Callable[[], _Page]) -> None:
    """The page, or the one sentence why there is none."""
    dress()
    try:
        page = make()
        await _patiently(page.ask())
        page.lay_out()
    except UserError as error:
        sorry(title, str(error), 404 if isinstance(error, NotFoundError) else 400)


async def _patiently(asking: Coroutine[None, None, None]) -> None:
    """Wait for the first answer; where the tables are large, not before an empty browser window."""
    asked = asyncio.create_task(asking)
    await asyncio.wait({asked}, timeout=_PATIENCE)
    if asked.done():
        await asked
        return
    sign = element("p", "empty", role="status")
    sign.text = "Reading the tables…"
    try:
        await ui.context.client.connected(timeout=_SECONDS)
        await asked
    finally:
        sign.delete()
