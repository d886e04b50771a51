"""Parts that every endpoint of the API has: a name, the form of its answer, pages of lists, the version of an answer.

A list is cut after it was made: its rows are those of one instant, and a reader that gives `at` gets the same ones on
each page.
"""

import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Coroutine
from functools import wraps
from http import HTTPStatus
from inspect import signature
from typing import Any, Final, get_origin

import msgspec
from fastapi import Request
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute

from streaming.queries.results import as_json

_PROCESS: Final = secrets.token_hex(4)
"""Versions of the tables are counted from the start of a process."""
_SLOT_SECONDS: Final = 10
"""The time for which an answer about now keeps its version while the tables do: the ages in it grow."""
_ROWS_MAX: Final = 10_000
_INSTANTS: Final = ("at", "since", "until", "from", "to")
_FIXED: Final = re.compile(r"\d{4}-\d\d-\d\d.*|\d{9,}")
_PAGE: Final = [
    {
        "name": "limit", "in": "query", "required": False,
        "description": "Maximum number of rows; the header `Link` then has the address of the next page.",
        "schema": {"type": "integer", "minimum": 1, "maximum": _ROWS_MAX},
    },
    {
        "name": "cursor", "in": "query", "required": False, "schema": {"type": "string"},
        "description": "Where the page begins, from the `Link` of the one before.",
    },
]  # fmt: skip


class ApiRoute(APIRoute):
    """A route that answers a question: its lists have pages, and its answers to GET have a version (`ETag`)."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        if isinstance(given["response_model"], DefaultPlaceholder):
            given["response_model"] = signature(endpoint, eval_str=True).return_annotation
        self.is_list = get_origin(given["response_model"]) is list
        if self.is_list:
            given["openapi_extra"] = {"parameters": _PAGE}
        if given.get("operation_id") is None:
            given["operation_id"] = endpoint.__name__

        @wraps(endpoint)
        def asked(*arguments: Any, **named: Any) -> Response:
            answer = endpoint(*arguments, **named)
            return answer if isinstance(answer, Response) else sent(answer)

        super().__init__(path, asked, **given)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def answered(request: Request) -> Response:
            store = getattr(request.app.state, "store", None)
            if request.method != "GET" or store is None:
                return await answer(request)
            begin, limit = _page_of(request) if self.is_list else (0, None)
            version = _version(request, store.version)
            if version in request.headers.get("if-none-match", "").replace(" ", "").split(","):
                return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": version})
            response = await answer(request)
            if response.status_code == HTTPStatus.OK:
                if begin or limit is not None:
                    _cut(request, response, begin, limit or _ROWS_MAX)
                response.headers["ETag"] = version
            return response

        return answered


def sent(answer: object) -> Response:
    """Create a response with the JSON that the command line prints."""
    return sent_json(as_json(answer))


def sent_json(content: bytes) -> Response:
    """Create a response with this JSON."""
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


def page_parameters(route: APIRoute) -> list[str]:
    """Return the names of the query parameters that a route has for its pages."""
    return [str(one["name"]) for one in _PAGE] if isinstance(route, ApiRoute) and route.is_list else []


def _version(request: Request, of_tables: int) -> str:
    """Return the version of an answer: that of the tables, and of the time if the answer is about now."""
    asked = [value for name in _INSTANTS for value in request.query_params.getlist(name)]
    ends = any(request.query_params.get(name) for name in ("at", "until", "to"))
    fixed = ends and all(map(_FIXED.fullmatch, asked))
    slot = "" if fixed else f"-{int(time.time()) // _SLOT_SECONDS}"
    return f'W/"{_PROCESS}-{of_tables}{slot}"'


def _page_of(request: Request) -> tuple[int, int | None]:
    """Return the first row of the page, and the maximum number of rows.

    Raises:
        RequestValidationError: they are no numbers of a page.
    """
    limit, cursor = request.query_params.get("limit"), request.query_params.get("cursor")
    if limit is not None and not (re.fullmatch(r"[0-9]{1,5}", limit) and 1 <= int(limit) <= _ROWS_MAX):
        raise _wrong("limit", f"Input should be a number from 1 to {_ROWS_MAX}")
    if cursor is None:
        return 0, None if limit is None else int(limit)
    try:
        begin = int(urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
    except ValueError:  # binascii's, too
        raise _wrong("cursor", "Input should be the cursor of a Link") from None
    return max(0, begin), None if limit is None else int(limit)


def _wrong(name: str, sentence: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("query", name), "msg": sentence, "type": "value_error"}])


def _cut(request: Request, response: Response, begin: int, limit: int) -> None:
    """Leave the rows of a page in a response, and name the next one."""
    rows = msgspec.json.decode(response.body, type=list[msgspec.Raw])
    response.body = b"[" + b",".join(map(bytes, rows[begin : begin + limit])) + b"]"
    response.headers["Content-Length"] = str(len(response.body))
    if len(rows) > begin + limit:
        cursor = urlsafe_b64encode(str(begin + limit).encode()).decode().rstrip("=")
        following = request.url.include_query_params(cursor=cursor)
        response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
