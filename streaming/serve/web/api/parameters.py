"""Parameters and responses shared by the endpoints."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute

from streaming.base.errors import InvalidValueError
from streaming.base.invalid import unknown_parameter
from streaming.base.language import ENGLISH, in_language
from streaming.base.settings import Settings
from streaming.base.terminal import shortened
from streaming.base.times import written
from streaming.queries.present import TIME_FORMS, Period, asked_instant, known_ends, period_of, present
from streaming.serve.operator_actions import Actor, Source
from streaming.serve.store import Store
from streaming.serve.user import current_user
from streaming.serve.web.api.route import ApiRoute, page_parameters

SOURCE_HEADER = "Rebalance-Watch-Source"
"""Header that a page sends with an action (`static/page.js`)."""
AS_OF_HEADER, NOTE_HEADER = "Rebalance-Watch-As-Of", "Rebalance-Watch-Note"
"""The instant of an answer: asked for, the last telemetry if that has ended, or now; and a sentence about it."""
_INSTANTS = ("at", "until", "to")
"""The parameters that name the instant of an answer."""


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


StoreOf = Annotated[Store, Depends(_store)]


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _at(
    at: Annotated[str | None, Query(description=f"Time of the state: {TIME_FORMS}. Default: now.")] = None,
) -> int | None:
    return asked_instant(at)


def _period(
    store: StoreOf,
    since: Annotated[
        str | None, Query(description=f"Start time: {TIME_FORMS}. Default: one hour before `until`.")
    ] = None,
    until: Annotated[str | None, Query(description="End time, in the same formats. Default: now.")] = None,
) -> Period:
    return period_of(store.model(), since, until)


class Which(NamedTuple):
    """The selected queues of a group."""

    group: str
    cluster: str | None
    topic: str | None
    retry: bool


def _which(
    group: Annotated[str, Path(description="Consumer group.")],
    cluster: Annotated[str | None, Query(description="Cluster; required if the group exists in several.")] = None,
    topic: Annotated[str | None, Query(description="Only this topic.")] = None,
    retry: Annotated[bool, Query(description="Include the queues of the retry topic.")] = False,  # noqa: FBT002  by name
) -> Which:
    return Which(group, cluster, topic, retry)


class DatedRoute(ApiRoute):
    """A route whose answers are of one instant, which they name in their headers."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests."""
        answer = super().get_route_handler()

        async def dated(request: Request) -> Response:
            response = await answer(request)
            if request.method == "GET":
                response.headers.update(await run_in_threadpool(_instant, request))
            return response

        return dated


def _instant(request: Request) -> dict[str, str]:
    """Return the headers that say of which instant an answer is, and what is not known of it."""
    given = next((text for name in _INSTANTS if (text := request.query_params.get(name))), None)
    at, model = _at(given), _store(request).model()
    headers = {AS_OF_HEADER: written(present(model, at))}
    ends = known_ends(model, at)
    with in_language(ENGLISH):  # a header is ASCII
        said = ends.said(at, lambda time: f"at={written(time)}") if ends is not None else None
    return headers | ({NOTE_HEADER: said} if said is not None else {})


def refuse_unknown(request: Request) -> None:
    """Refuse a query parameter that the route does not have: what it asks for would be left out without a word.

    Raises:
        InvalidValueError: there is one.
    """
    route: APIRoute = request.scope["route"]
    known = [*_query_names(route.dependant), *page_parameters(route)]
    if unknown := sorted(set(request.query_params) - set(known)):
        raise InvalidValueError(unknown_parameter(shortened(unknown[0]), request.url.path, known))


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for one in dependant.dependencies:
        yield from _query_names(one)


def actor_of(request: Request, by: str | None) -> Actor:
    """Return who does something by this request.

    Args:
        request: the request.
        by: the name that it gives; that of a person who has signed in counts instead.

    Raises:
        RequestValidationError: it gives none, and nobody has signed in.
    """
    user = current_user()
    if not (name := user.name or by):
        raise RequestValidationError([{"loc": ("body", "by"), "msg": "Field required", "type": "missing"}])
    return Actor(user.subject, name, source_of(request))


def source_of(request: Request) -> Source:
    """Return by what a request does something."""
    return "PAGE" if request.headers.get(SOURCE_HEADER) == "PAGE" else "REST"


SettingsOf = Annotated[Settings, Depends(_settings)]
At = Annotated[int | None, Depends(_at)]
InPeriod = Annotated[Period, Depends(_period)]
InWhich = Annotated[Which, Depends(_which)]
GroupName = Annotated[str, Path(alias="group", description="Consumer group.")]
Cluster = Annotated[str | None, Query(description="Cluster; required if the group exists in several.")]
