"""`/healthz` and `/readyz`, by which a service manager or Kubernetes watches a process.

The dashboard and `metrics` have them on their own port. The other long-running processes serve them from a thread, on
the port that [health] gives them. They need no token: they show only when the tasks of the process were last done.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from threading import Thread

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.base.health import Health
from streaming.serve.web.listening import listen

ALIVE, READY = "/healthz", "/readyz"
PATHS = frozenset({ALIVE, READY})
_HEADERS = {"Cache-Control": "no-store"}
_SHUTDOWN_SECONDS = 3


def routes(health: Health) -> list[Route]:
    """Return the routes: /healthz answers while the process lives, /readyz with 503 if it does not do its work."""

    async def alive(_: Request) -> Response:
        return Response(b'{"alive":true}', media_type="application/json", headers=_HEADERS)

    async def ready(_: Request) -> Response:
        found = health.now()
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(msgspec.json.encode(found), status, _HEADERS, "application/json")

    return [Route(ALIVE, alive), Route(READY, ready)]


@contextmanager
def probes(health: Health, host: str, port: int) -> Iterator[None]:
    """Serve the probes of this process until the end of the block; with port 0 none.

    Raises:
        UserError: the port cannot be bound.
    """
    if not port:
        yield
        return
    with listen(host, port, "set another port in [health]") as listening:
        config = uvicorn.Config(
            Starlette(routes=routes(health)), lifespan="off", log_config=None, log_level="warning", access_log=False,
            server_header=False, timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="probes", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(_SHUTDOWN_SECONDS)
