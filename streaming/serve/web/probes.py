"""`/healthz` and `/readyz`, by which a service manager or Kubernetes watches a process.

The dashboard and `metrics` have them on their own port. The other long-running processes serve them from a thread, on
the port that [health] gives them, and all of them on a Unix socket if `rebalance-watch up` runs them and asks for it.
They need no token: they show only when the tasks of the process were last done.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from threading import Thread

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.base.errors import UserError
from streaming.base.health import ALIVE, PROBE_SOCKET, READY, Reporter
from streaming.base.limits import PROBE_CONNECTIONS
from streaming.serve.web.http_server import HttpServer


def listen(host: str, port: int, mend: str = "choose another with --port or --host") -> socket.socket:
    """Bind before anything is started, so that a port in use is reported in one sentence.

    Args:
        host: the address.
        port: 0 for any free one.
        mend: what the user can do if that fails.

    Raises:
        UserError: the port is in use or the address does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        # Python adds the address to the message of a failed bind; for an unknown name there is no other message.
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise UserError(f"Cannot listen on {host} port {port} ({why}): {mend}.") from None


def address(listening: socket.socket, scheme: str = "http") -> str:
    """Return the address for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


PATHS = frozenset({ALIVE, READY})
_HEADERS = {"Cache-Control": "no-store"}
_SHUTDOWN_SECONDS = 3


def routes(health: Reporter) -> list[Route]:
    """Return the routes: /healthz answers while the process lives, /readyz with 503 if it does not do its work."""

    async def alive(_: Request) -> Response:
        return Response(b'{"alive":true}', media_type="application/json", headers=_HEADERS)

    def ready(_: Request) -> Response:
        found = health.now()
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(msgspec.json.encode(found), status, _HEADERS, "application/json")

    return [Route(ALIVE, alive), Route(READY, ready)]


@contextmanager
def probes(health: Reporter, host: str, port: int) -> Iterator[None]:
    """Serve the probes of this process until the end of the block; with port 0 only on the supervisor's socket, if any.

    Raises:
        UserError: the port cannot be bound.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in _listening(host, port)]
        if not sockets:
            yield
            return
        server = HttpServer(
            Starlette(routes=routes(health)), connections=PROBE_CONNECTIONS, loop="asyncio", lifespan="off"
        )
        thread = Thread(target=server.run, kwargs={"sockets": sockets}, name="probes", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(_SHUTDOWN_SECONDS)


def _listening(host: str, port: int) -> Iterator[socket.socket]:
    if port:
        yield listen(host, port, "set another port in [health]")
    if path := os.environ.get(PROBE_SOCKET):
        Path(path).unlink(missing_ok=True)  # of a former run of this process
        yield _listen_locally(path)


def _listen_locally(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    return listening
