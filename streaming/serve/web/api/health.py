"""The health endpoint: liveness and age of the telemetry."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from streaming.base.times import now_ms
from streaming.queries.results import QueryResult
from streaming.serve.metrics.snapshot import Sources
from streaming.serve.web.api.parameters import StoreOf
from streaming.serve.web.api.route import sent

router = APIRouter(tags=["health"])


class SourceAge(QueryResult):
    """A hook or a collector and its last event."""

    cluster: str
    source: str
    instance: str
    time: int = Field(description="Time of its last event, by its own clock.")
    age_ms: int = Field(description="Age of that event in milliseconds, by this server's clock.")


class Liveness(QueryResult):
    """The state of this server and the age of its sources."""

    release: str
    tables_version: int = Field(description="Version of the tables, which rises with new rows.")
    telemetry_age_ms: int | None = Field(
        description="Age of the newest telemetry in milliseconds; null if there is none."
    )
    sources: tuple[SourceAge, ...]


@router.get("/health", operation_id="health", response_model=Liveness)
def health(request: Request, store: StoreOf) -> Response:
    """Show liveness and the age of the telemetry."""
    sources: Sources = request.app.state.sources
    now = now_ms()
    ages = tuple(
        SourceAge(**source._asdict(), time=last.time, age_ms=max(0, now - last.time))
        for source, last in sorted(sources.last_events(store.model()).items())
    )
    return sent(
        Liveness(
            release=version("rebalance-watch"),
            tables_version=store.version,
            telemetry_age_ms=min((one.age_ms for one in ages), default=None),
            sources=ages,
        )
    )
