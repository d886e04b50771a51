"""The pages and their addresses (see `links`)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Protocol

from fastapi import Query, Request, Response
from nicegui import Client, ui
from nicegui import app as nicegui

from streaming.base.errors import NotFoundError, NotReadyError, UserError
from streaming.base.language import gettext
from streaming.base.sections.web import Web
from streaming.queries import labels
from streaming.serve.dashboard.pages.actions import ActionsPage, kind_of
from streaming.serve.dashboard.pages.clients import ClientFilters, ClientPage, ClientsPage
from streaming.serve.dashboard.pages.clients import checked as checked_clients
from streaming.serve.dashboard.pages.group import GroupPage
from streaming.serve.dashboard.pages.home import FirstRunPage, GroupFilters, HomePage
from streaming.serve.dashboard.pages.home import checked as checked_groups
from streaming.serve.dashboard.pages.incidents import IncidentFilters, IncidentPage, IncidentsPage, checked
from streaming.serve.dashboard.pages.queue import QueueName, QueuePage
from streaming.serve.dashboard.pages.rebalance import RebalancePage
from streaming.serve.dashboard.pages.runbook import RulePage, RunbookPage
from streaming.serve.dashboard.pages.sql import SqlPage
from streaming.serve.dashboard.pages.what_if import MembershipChange, WhatIfPage
from streaming.serve.dashboard.parts.frame import dress, error_page, outline
from streaming.serve.dashboard.parts.moment import parse_at, parse_span, parse_zoom
from streaming.serve.dashboard.timeline.lane_folds import LaneFilter
from streaming.serve.dashboard.timeline.lane_folds import checked as checked_lanes
from streaming.serve.first_run import FirstRun
from streaming.serve.store import Store

_SECONDS = 20.0
"""The time that a browser has to connect, in seconds."""
_LOOK_SECONDS = 1.0
"""The interval in which a page without data looks for it, in seconds."""
_PATIENCE = 0.15
"""The time after which the outline of a page is sent, without its data, in seconds."""


class _Page(Protocol):
    async def ask(self) -> None:
        """Read the initial data of the page."""

    def lay_out(self) -> None:
        """Create the page and show it."""


def _route(path: str) -> ui.page:
    return ui.page(path, response_timeout=_SECONDS)


def register(store: Store, first_run: FirstRun, web: Web) -> None:
    """Define the pages; called once, before NiceGUI is mounted on the application.

    Args:
        store: the tables.
        first_run: what is left to do until there are groups.
        web: the limits of users' own SQL.
    """
    nicegui.config.quasar_config["loadingBar"] = {"skipHijack": True}  # it has no name for a screen reader

    @_route("/")
    async def home(
        find: str = "", health: str = "", cluster: str = "", sort: str = "", at: str | None = None,
        span: str | None = None,
    ) -> None:  # fmt: skip
        filters = GroupFilters(find=find, health=health, cluster=cluster, sort=sort)
        await _built(
            gettext("Consumer groups"),
            lambda: HomePage(store, parse_at(at), checked_groups(filters), parse_span(span)),
            first_run,
        )

    @_route("/group/{group}")
    async def group(
        group: str, cluster: str | None = None, at: str | None = None, span: str | None = None, find: str = "",
        fold: str = "", since: str | None = None, until: str | None = None,
    ) -> None:  # fmt: skip
        lanes = LaneFilter(find.strip(), fold)
        await _built(
            group,
            lambda: GroupPage(
                store, group, cluster, parse_at(at), parse_span(span), checked_lanes(lanes), parse_zoom(since, until)
            ),
        )

    @_route("/group/{group}/rebalance/{rebalance_id}")
    async def rebalance(group: str, rebalance_id: str, cluster: str | None = None) -> None:
        await _built(gettext("Rebalance"), lambda: RebalancePage(store, group, cluster, rebalance_id))

    @_route("/group/{group}/what-if")
    async def what_if(
        group: str, leave: Annotated[list[str] | None, Query()] = None, join: str = "", strategy: str = "",
        cluster: str | None = None, at: str | None = None, restart: bool = False,  # noqa: FBT001, FBT002  by name
    ) -> None:  # fmt: skip
        change = MembershipChange(tuple(leave or ()), join.strip(), strategy, restart)
        title = gettext("What if: {group}", group=group)
        await _built(title, lambda: WhatIfPage(store, group, cluster, change, parse_at(at)))

    @_route("/group/{group}/queue/{topic}/{broker}/{queue_id}")
    async def queue(
        group: str, topic: str, broker: str, queue_id: int, cluster: str | None = None, span: str | None = None,
        at: str | None = None,
    ) -> None:  # fmt: skip
        of = QueueName(group, topic, broker, queue_id, cluster)
        name = labels.queue_name(topic, broker, queue_id)
        await _built(name, lambda: QueuePage(store, of, parse_span(span), parse_at(at)))

    _register_others(store, web)


def _register_others(store: Store, web: Web) -> None:
    """Define the pages beside those of groups; last the one for unknown addresses."""

    @_route("/clients")
    async def clients(
        group: str = "", find: str = "", at: str | None = None, cluster: str = "", sort: str = ""
    ) -> None:  # fmt: skip
        filters = ClientFilters(group=group, find=find, cluster=cluster, sort=sort)
        await _built(gettext("Clients"), lambda: ClientsPage(store, checked_clients(filters), parse_at(at)))

    @_route("/client/{client_id}")
    async def client(client_id: str, span: str | None = None, at: str | None = None) -> None:
        await _built(client_id, lambda: ClientPage(store, client_id, parse_span(span), parse_at(at)))

    @_route("/incidents")
    async def incidents(  # noqa: PLR0913, PLR0917  its filters
        group: str = "", code: str = "", severity: str = "", state: str = "", since: str = "", find: str = "",
        explained: bool = False, at: str | None = None, cluster: str = "",  # noqa: FBT001, FBT002  by name
    ) -> None:  # fmt: skip
        filters = IncidentFilters(group, code, severity, state, since, find, explained, cluster)
        await _built(gettext("Incidents"), lambda: IncidentsPage(store, checked(filters), parse_at(at)))

    @_route("/incident/{incident_id}")
    async def incident(incident_id: str) -> None:
        await _built(gettext("Incident"), lambda: IncidentPage(store, incident_id))

    @_route("/rule/{code}")
    async def rule(code: str) -> None:
        await _built(gettext("Rule"), lambda: RulePage(code))

    @_route("/runbook")
    async def runbook() -> None:
        await _built(gettext("Runbook"), RunbookPage)

    @_route("/actions")
    async def actions(find: str = "", kind: str = "") -> None:
        await _built(gettext("Actions"), lambda: ActionsPage(store, kind_of(kind), find))

    @_route("/sql")
    async def sql(query: str = "") -> None:
        await _built(gettext("SQL"), lambda: SqlPage(store, web, query))

    @_route("/{path:path}")
    async def elsewhere(path: str) -> None:
        dress()
        error_page(gettext("No such page"), gettext("There is no page at {path}.", path=f"/{path}"), 404)


def refusal(request: Request, sentence: str, status: int) -> Response:
    """Return the page for a request whose parameters no page takes."""
    with Client(ui.page(""), request=request) as client:
        dress()
        error_page(gettext("No such page"), sentence, status)
    return client.build_response(request, status)


async def _built(title: str, make: Callable[[], _Page], first_run: FirstRun | None = None) -> None:
    """Build a page, or the error page with the reason; where there are no groups yet, the checklist until there are.

    If the browser has left the page meanwhile, there is nothing to build: its elements are deleted.
    """
    dress()
    client = ui.context.client
    try:
        page = make()
        await _patiently(title, page.ask())
        if not client.is_deleted:
            page.lay_out()
    except UserError as error:
        if not client.is_deleted:
            _lay_out_reason(title, error, make, first_run)


def _lay_out_reason(title: str, reason: UserError, make: Callable[[], _Page], first_run: FirstRun | None) -> None:
    """Show why a page can't be built."""
    if isinstance(reason, NotReadyError):
        if first_run is not None:
            FirstRunPage(first_run).lay_out()
        else:
            error_page(gettext("No data yet"), str(reason), 503)
        _reload_when_ready(make, str(reason))
    else:
        error_page(title, str(reason), 404 if isinstance(reason, NotFoundError) else 400)


def _reload_when_ready(make: Callable[[], _Page], reason: str) -> None:
    """Look once a second whether the page can be built, or lacks something else, and load it again then."""

    async def look() -> None:
        try:
            await make().ask()
        except UserError as error:
            if str(error) == reason:
                return
        looking.deactivate()
        ui.navigate.reload()

    looking = ui.timer(_LOOK_SECONDS, look, immediate=False)


async def _patiently(title: str, asking: Coroutine[None, None, None]) -> None:
    """Wait for the data; if that takes long, show the outline of the page in the meantime."""
    asked = asyncio.create_task(asking)
    await asyncio.wait({asked}, timeout=_PATIENCE)
    if asked.done():
        await asked
        return
    with outline(title):
        try:
            await ui.context.client.connected(timeout=_SECONDS)
            await asked
        finally:
            if not asked.cancel() and not asked.cancelled():
                asked.exception()  # where no browser has connected nothing else takes it, and it would be logged
