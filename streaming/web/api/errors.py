"""What went wrong, as ``{"error": sentence}``: never a traceback."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.errors import NotFoundError, UserError
from streaming.queries.answers import Answer

_LOG = logging.getLogger(__name__)


class Failure(Answer):
    """Why there is no answer."""

    error: str = Field(description="One sentence that says what to do.")


RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": Failure, "description": "The question is wrong."},
    404: {"model": Failure, "description": "There is no such thing."},
    422: {"model": Failure, "description": "A parameter is missing or of the wrong type."},
}


def tell_errors(app: FastAPI) -> None:
    """Let every error of this application be told so."""

    @app.exception_handler(UserError)
    def user_error(_: Request, error: UserError) -> JSONResponse:
        missing = isinstance(error, NotFoundError)
        return failure(HTTPStatus.NOT_FOUND if missing else HTTPStatus.BAD_REQUEST, str(error))

    @app.exception_handler(RequestValidationError)
    def wrong_parameter(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return failure(HTTPStatus.UNPROCESSABLE_ENTITY, f"{name}: {first['msg']}.")

    app.add_middleware(Faults)


class Faults:
    """What no handler knows is a fault of ours: the log has all of it, the answer one sentence."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer it if nothing else has."""
        answered = scope["type"] != "http"

        async def watched(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if answered:
                raise
            _LOG.exception("the request for %s failed", scope["path"])
            sentence = "Something is wrong in rebalance-watch: its log says what."
            await failure(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)(scope, receive, send)


def failure(status: HTTPStatus, sentence: str) -> JSONResponse:
    """An answer that says why there is none."""
    return JSONResponse({"error": sentence}, status)
