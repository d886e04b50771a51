"""A reverse proxy in front of a server, as nginx or an ingress is: HTTP and websockets, under a path prefix."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web

_HOP = {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding", "upgrade"}
"""Headers that are of one connection, or of the body as it is sent on it."""


class _Proxy:
    def __init__(self, server: Callable[[], str], prefix: str, *, strips: bool) -> None:
        self._server = server
        self._prefix = prefix
        self._strips = strips
        self._session: aiohttp.ClientSession | None = None

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 24)
        app.cleanup_ctx.append(self._client)
        app.router.add_route("*", f"{self._prefix}{{path:(/.*)?}}", self._pass_on)
        return app

    async def _client(self, _: web.Application):
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            yield

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path_qs
        target = f"{self._server()}{(path.removeprefix(self._prefix) or '/') if self._strips else path}"
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        headers |= {"X-Forwarded-Prefix": self._prefix, "X-Forwarded-Proto": "http"}
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._websocket(request, target, headers)
        body = await request.read()
        async with self._session.request(
            request.method, target, headers=headers, data=body or None, allow_redirects=False
        ) as upstream:
            answer = web.Response(status=upstream.status, body=await upstream.read())
            for name, value in upstream.headers.items():
                if name.lower() not in _HOP - {"content-encoding"} and name.lower() != "content-type":
                    answer.headers.add(name, value)
            answer.headers["Content-Type"] = upstream.headers.get("Content-Type", "text/plain")
            return answer

    async def _websocket(self, request: web.Request, target: str, headers: dict[str, str]) -> web.WebSocketResponse:
        kept = {name: value for name, value in headers.items() if not name.lower().startswith("sec-websocket")}
        theirs = web.WebSocketResponse(max_msg_size=0)
        async with self._session.ws_connect(target, headers=kept, max_msg_size=0) as ours:
            await theirs.prepare(request)
            ways = [asyncio.create_task(_copy(ours, theirs)), asyncio.create_task(_copy(theirs, ours))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        await theirs.close()
        return theirs


async def _copy(source, target) -> None:
    async for message in source:
        if message.type is aiohttp.WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await target.send_bytes(message.data)


@contextmanager
def proxied(server: str | Callable[[], str], prefix: str, *, strips: bool) -> Iterator[str]:
    """Run a proxy until the end of the block; yields its address with the prefix.

    Args:
        server: the address of the server; a function, if the server starts later.
        prefix: the path prefix, such as ``/rw``; other paths are not found.
        strips: whether the server gets the path without the prefix.
    """
    loop = asyncio.new_event_loop()
    at = server if callable(server) else lambda: server
    runner = web.AppRunner(_Proxy(at, prefix, strips=strips).application(), access_log=None, shutdown_timeout=1)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner.addresses[0][1]

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        yield f"http://127.0.0.1:{port}{prefix}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
