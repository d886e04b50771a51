"""Errors as problem details (RFC 9457) with the sentence in `detail`, never as a traceback."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.base.errors import ForbiddenError, InvalidValueError, NotFoundError, NotReadyError, UserError
from streaming.base.invalid import of_parameter
from streaming.base.terminal import shortened_whole
from streaming.queries.results import QueryResult

_LOG = logging.getLogger(__name__)


class Failure(QueryResult):
    """The reason of a failure, as problem details (RFC 9457)."""

    title: str = Field(description="The name of the status.")
    status: int = Field(description="The status.")
    detail: str = Field(description="Message that says what to do.")
    error: str = Field(description="The message again, for readers of earlier releases.")


RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": Failure, "description": "The request is invalid."},
    403: {"model": Failure, "description": "The person may not do this."},
    404: {"model": Failure, "description": "The requested object does not exist."},
    422: {"model": Failure, "description": "A parameter is unknown, missing or has no valid value."},
    503: {"model": Failure, "description": "There are no tables yet."},
}
_STATUS = {
    ForbiddenError: HTTPStatus.FORBIDDEN,
    InvalidValueError: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotFoundError: HTTPStatus.NOT_FOUND,
    NotReadyError: HTTPStatus.SERVICE_UNAVAILABLE,
}


def install_error_handlers(app: FastAPI) -> None:
    """Install the error handlers of an application."""

    @app.exception_handler(UserError)
    def user_error(_: Request, error: UserError) -> JSONResponse:
        return failure(_STATUS.get(type(error), HTTPStatus.BAD_REQUEST), str(error))

    @app.exception_handler(RequestValidationError)
    def wrong_parameter(_: Request, error: RequestValidationError) -> JSONResponse:
        return failure(HTTPStatus.UNPROCESSABLE_ENTITY, sentence_of(error))

    install_refusals(app)
    app.add_middleware(Faults)


def install_refusals(app: FastAPI) -> None:
    """Let an application answer what FastAPI itself refuses, such as a wrong method or a body that is no JSON."""

    @app.exception_handler(HTTPStatus.NOT_FOUND)  # for which NiceGUI has a handler of its own
    @app.exception_handler(HTTPException)
    def refused(_: Request, error: HTTPException) -> JSONResponse:
        answer = failure(HTTPStatus(error.status_code), f"{error.detail.removesuffix('.')}.")
        answer.headers.update(error.headers or {})
        return answer


def sentence_of(error: RequestValidationError) -> str:
    """Return which parameter is wrong, and why."""
    first = error.errors()[0]
    return of_parameter(".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0]), first)


class Faults:
    """Handles unexpected errors: logs the traceback and responds with one sentence.

    A request whose client has gone is given up without a word: anybody can cause that as often as they like.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and respond if it fails."""
        answered, gone = scope["type"] != "http", False

        async def watched(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        async def received() -> Message:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        try:
            await self._app(scope, received, watched)
        except Exception:
            if gone:
                return
            if answered:
                raise
            _LOG.exception("the request for %s failed", scope["path"])
            sentence = "Internal error in rebalance-watch: see its log."
            await failure(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)(scope, receive, send)


def failure(status: HTTPStatus, sentence: str) -> JSONResponse:
    """Create an error response."""
    said = shortened_whole(sentence)
    problem = {"title": status.phrase, "status": int(status), "detail": said, "error": said}
    return JSONResponse(problem, status, media_type="application/problem+json")
