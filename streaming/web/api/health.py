"""Whether this server lives, and how old what it shows is."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from streaming.metrics.sources import Sources
from streaming.queries.answers import Answer
from streaming.times import now_ms
from streaming.web.api.parameters import StoreOf, sent

router = APIRouter(tags=["health"])


class SourceAge(Answer):
    """A hook or a collector, and when it was last heard."""

    cluster: str
    source: str
    instance: str
    time: int = Field(description="Its last event, by its own clock.")
    age_ms: int = Field(description="How long ago that is, by this server's clock.")


class Liveness(Answer):
    """This server answers; what it shows is as old as its sources."""

    release: str
    tables_version: int = Field(description="Rises whenever this server saw new rows.")
    telemetry_age_ms: int | None = Field(description="Of the source heard last; None: no source is known.")
    sources: tuple[SourceAge, ...]


@router.get("/health", response_model=Liveness)
def health(request: Request, store: StoreOf) -> Response:
    """Liveness, and the age of the telemetry."""
    sources: Sources = request.app.state.sources
    now = now_ms()
    ages = tuple(
        SourceAge(**source._asdict(), time=heard.time, age_ms=now - heard.time)
        for source, heard in sorted(store.ask_here(sources.look).items())
    )
    return sent(
        Liveness(
            release=version("rebalance-watch"),
            tables_version=store.version,
            telemetry_age_ms=min((one.age_ms for one in ages), default=None),
            sources=ages,
        )
    )
