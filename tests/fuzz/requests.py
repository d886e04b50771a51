"""Requests to our own server, well-formed as HTTP and otherwise mutated, sent to its ASGI application in process."""

import asyncio
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import quote, quote_from_bytes, unquote

from fastapi import FastAPI
from hypothesis import strategies as st

from tests.fuzz.mutations import HOSTILE, mutants
from tests.support.world import NOON

_HANG_SECONDS = 100
MARK = b"<zq"
"""Begins an element that no page of ours has."""
TOKEN = "a token of some length"

_PAGES = (
    "/", "/group/{}", "/group/{}/rebalance/{}", "/group/{}/what-if", "/group/{}/queue/{}/{}/{}", "/clients",
    "/client/{}", "/incidents", "/incident/{}", "/{}", "/{}/{}",
)  # fmt: skip
_REST = (
    "/health", "/groups", "/groups/{}", "/groups/{}/queues", "/groups/{}/owners", "/groups/{}/owners/{}/{}/{}",
    "/groups/{}/intervals", "/groups/{}/diff", "/groups/{}/rebalances", "/groups/{}/rebalances/{}", "/groups/{}/lag",
    "/groups/{}/what-if", "/groups/{}/rolling-restart", "/incidents", "/incidents/{}", "/clients", "/clients/{}",
    "/quality", "/groups/{}/queues/{}/{}/{}", "/openapi.json", "/{}", "/sql",
    "/owners/{}/{}/{}", "/groups/{}/rebalances/totals",
)  # fmt: skip
NICEGUI = f"/_nicegui/{version('nicegui')}"
_OTHERS = (
    "/mcp", "/metrics", "/healthz", "/readyz", "/login", "/logout", "/_nicegui/{}", NICEGUI + "/static/{}",
    NICEGUI + "/static/../{}", NICEGUI + "/libraries/{}/{}", NICEGUI + "/components/{}/{}",
    NICEGUI + "/resources/{}/{}", "/_nicegui/auto/static/{}", "/_nicegui/client/{}/dynamic_resource/{}",
)  # fmt: skip
PATHS = (*_PAGES, *("/api/v1" + path for path in _REST), *_OTHERS)
_PARAMETERS = (
    "at", "since", "until", "from", "to", "span", "cluster", "group", "topic", "broker", "client", "find", "health",
    "sort", "fold", "code", "severity", "state", "explained", "all", "resolved", "retry", "last", "slices", "join",
    "leave", "strategy", "restart", "next", "limit", "queue_id", "suite", "format",
)  # fmt: skip
_KNOWN = tuple(
    text.encode()
    for text in (
        "orders", "quiet", "all", "c", "Orders", "b", "0", "1", "A", "B", "over", "ordered_queue_stuck-orders-0",
        f"r{NOON - 2_000}", str(NOON), str(NOON - 10_000), "2026-11-21T12:00:00.001", "1h", "7d", "now", "true",
        "false", "critical", "BAD", "AVG", "CONFIG", "%RETRY%orders", "LAG_GROWTH", "open", "2",
    )
)  # fmt: skip
_ODD = (
    b'<zq onload="zq">', b"'\"><zq>", b"</script><zq>", b"`${zq}`", b"{{zq}}", b"../../../../../../etc/passwd",
    b"..%2f..%2f..%2f..%2f..%2fetc%2fpasswd", b"/etc/passwd", b"..\\..", b"%", b"%zz", b"*", b"[", b"[a-", b"(?:",
    b"' OR 1=1 --", b'"; SELECT 1', b"a%00b", b"\xe2\x80\xae", b"\xf0\x9f\x98\x80", b"a\r\nSet-Cookie: zq=1", b"//evil",
    b"-1h", b"0s", b"1e9d", b"999999999d", b"-9999999999999", b"9999-12-31T23:59:59", b"0001-01-01", b"2026-02-30",
    b"2026-11-21T12:00:00+99:00", b"24:00", b"10000000000000000", b"A=1,B=2", b"join=1000", b"1000", b",,,", b"=",
)  # fmt: skip
_VALUES = st.one_of(
    st.sampled_from(_KNOWN), st.sampled_from(_KNOWN), st.sampled_from(_ODD), st.sampled_from(HOSTILE),
    mutants(_KNOWN, most=2), st.binary(max_size=12),
)  # fmt: skip
_HEADERS = (
    "accept", "accept-language", "accept-encoding", "authorization", "cookie", "content-type", "content-length",
    "transfer-encoding", "host", "if-modified-since", "if-none-match", "origin", "range", "referer", "sec-fetch-dest",
    "sec-fetch-mode", "sec-fetch-site", "user-agent", "x-forwarded-for", "x-forwarded-prefix", "upgrade", "expect",
)  # fmt: skip
_HEADER_VALUES = st.one_of(
    st.sampled_from((
        b"text/html", b"application/json", b"application/x-www-form-urlencoded", b"zh-CN,en;q=0.5", b"en;q=NaN", b"*",
        b"127.0.0.1:8411", b"localhost", b"evil.example", b"http://127.0.0.1", b"null", b"bytes=0-1", b"bytes=9-1,-",
        b"bytes=" + b"0-," * 500, b"cross-site", b"same-origin", b"navigate", b"document", b"chunked", b"gzip",
        b"rebalance-watch-session=x", b"rebalance-watch-language=zh", b"rebalance-watch-session=%22;;==", b"Basic !",
        f"Bearer {TOKEN}".encode(), b"Bearer wrong", b"bearer ", b"Wed, 99 Foo 2026", b'W/"x"', b"100-continue",
    )),
    _VALUES,
)  # fmt: skip
_BODIES = (
    b'{"query":"SELECT g.group, g.health FROM current_groups g ORDER BY 1"}',
    b'{"query":"SELECT * FROM incidents LIMIT 3"}',
    b"token=" + quote(TOKEN).encode() + b"&next=%2Fgroup%2Forders",
    b"token=wrong&next=//evil",
)


class Asked(NamedTuple):
    """A request."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Answered(NamedTuple):
    """Its answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def _target(path: str, values: list[bytes], query: list[tuple[str, bytes]], *, is_quoted: bool) -> bytes:
    """Fill in the gaps of a path and append parameters; unquoted values may contain what ends a segment."""
    write = (lambda value: quote_from_bytes(value, safe="")) if is_quoted else _as_in_a_browser
    filled = path.format(*(write(value) for value in values))
    asked = "&".join(f"{name}={write(value)}" for name, value in query)
    return f"{filled}?{asked}".encode() if query else filled.encode()


def _as_in_a_browser(value: bytes) -> str:
    """Quote only what HTTP does not allow in a target."""
    return quote_from_bytes(value, safe="!\"#$%&'()*+,/:;<=>?@[\\]^_`{|}~")


def _header(value: bytes) -> bytes:
    """Remove what HTTP does not allow in a header."""
    return value.translate(None, b"\r\n\0").strip()


_TARGETS = st.builds(
    _target,
    st.sampled_from(PATHS),
    st.lists(_VALUES, min_size=4, max_size=4),
    st.lists(st.tuples(st.sampled_from(_PARAMETERS), _VALUES), max_size=4),
    is_quoted=st.booleans(),
)
REQUESTS = st.builds(
    lambda method, target, headers, body: Asked(
        method, target, tuple((name.encode(), _header(value)) for name, value in headers.items()), body
    ),
    st.sampled_from(("GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "POST", "OPTIONS", "PUT", "DELETE", "zq")),
    _TARGETS,
    st.dictionaries(st.sampled_from(_HEADERS), _HEADER_VALUES, max_size=3),
    st.one_of(st.just(b""), mutants(_BODIES)),
)


async def answered(app: FastAPI, asked: Asked) -> Answered:
    """Send a request as uvicorn does, and return the whole answer."""
    raw, _, query = asked.target.partition(b"?")
    headers = {b"host": b"127.0.0.1", b"content-length": str(len(asked.body)).encode(), **dict(asked.headers)}
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "scheme": "http", "method": asked.method,
        "root_path": "", "path": unquote(raw.decode()), "raw_path": raw, "query_string": query,
        "headers": list(headers.items()), "state": {},
    }  # fmt: skip
    to_come = [{"type": "http.request", "body": asked.body, "more_body": False}]
    came: list[dict[str, Any]] = []
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if to_come:
            return to_come.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        came.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            ended.set()

    await asyncio.wait_for(app(scope, receive, send), _HANG_SECONDS)
    assert ended.is_set()
    start, *parts = came
    names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answered(start["status"], names, b"".join(part.get("body", b"") for part in parts))
