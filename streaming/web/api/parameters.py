"""What the endpoints share: their parameters, the store, and how an answer is sent."""

from typing import Annotated, NamedTuple

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response

from streaming.errors import UserError
from streaming.queries.answers import as_json
from streaming.settings import Settings
from streaming.times import instant_ms, now_ms
from streaming.web.store import Store

FORMS = "ISO 8601 (UTC where no zone is said), epoch seconds or milliseconds, a span ago as 2h, or yesterday 14:00"
DEFAULT_SPAN_MS = 3_600_000


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _at(
    at: Annotated[str | None, Query(description=f"The instant: {FORMS}. Now, if it isn't given.")] = None,
) -> int | None:
    return None if at is None else instant_ms(at, now_ms())


class Span(NamedTuple):
    """From when to when, in epoch milliseconds."""

    since: int
    until: int


def _span(
    since: Annotated[str | None, Query(description=f"From when: {FORMS}. An hour before `until`.")] = None,
    until: Annotated[str | None, Query(description="Up to when, likewise. Now, if it isn't given.")] = None,
) -> Span:
    now = now_ms()
    end = now if until is None else instant_ms(until, now)
    begin = end - DEFAULT_SPAN_MS if since is None else instant_ms(since, now)
    if begin > end:
        raise UserError("since is later than until: swap them.")
    return Span(begin, end)


class Which(NamedTuple):
    """The group's queues that are asked about."""

    group: str
    cluster: str | None
    topic: str | None
    retry: bool


def _which(
    group: Annotated[str, Path(description="The consumer group.")],
    cluster: Annotated[str | None, Query(description="Its cluster, where the name is not enough.")] = None,
    topic: Annotated[str | None, Query(description="Only this topic.")] = None,
    retry: Annotated[bool, Query(description="With the queues of the retry topic.")] = False,  # noqa: FBT002  by name
) -> Which:
    return Which(group, cluster, topic, retry)


StoreOf = Annotated[Store, Depends(_store)]
SettingsOf = Annotated[Settings, Depends(_settings)]
At = Annotated[int | None, Depends(_at)]
InSpan = Annotated[Span, Depends(_span)]
InWhich = Annotated[Which, Depends(_which)]
GroupName = Annotated[str, Path(alias="group", description="The consumer group.")]
Cluster = Annotated[str | None, Query(description="Its cluster, where the name is not enough.")]


def sent(answer: object) -> Response:
    """An answer in the bytes that the command line prints."""
    return Response(as_json(answer), media_type="application/json", headers={"Cache-Control": "no-store"})
