"""The login form, which exchanges the token for a session."""

from http import HTTPStatus
from importlib import resources
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Template

from streaming.base.language import current, gettext
from streaming.base.limits import LOGIN_FORM_BYTES
from streaming.serve.links import home_link, prefix
from streaming.serve.web.access import Access, TooManyError
from streaming.serve.web.gate import LOGIN_PATH, SESSION_COOKIE, address_of
from streaming.serve.web.sessions import SESSION_SECONDS


def login_routes(access: Access) -> APIRouter:
    """Create the routes ``/login`` and ``/logout``."""
    router = APIRouter(include_in_schema=False)
    page = Template(resources.files(__package__).joinpath("login.html").read_text("utf-8"), autoescape=True)

    def shown(target: str, problem: str = "") -> str:
        return str(
            page.render(action=f"{prefix()}{LOGIN_PATH}", next=target, problem=problem, _=gettext, language=current())
        )

    @router.get(LOGIN_PATH)
    def form(target: Annotated[str, Query(alias="next")] = "") -> Response:
        if access.token is None:
            return RedirectResponse(_own(target), HTTPStatus.SEE_OTHER)
        return HTMLResponse(shown(_own(target)), headers={"Cache-Control": "no-store"})

    @router.post(LOGIN_PATH)
    async def login(request: Request) -> Response:
        fields = await _form(request)
        target = _own(fields.get("next", ""))
        try:
            is_right = await access.check(fields.get("token", "").strip(), address_of(request))
        except TooManyError as error:
            waiting = {"Retry-After": str(error.seconds)}
            return HTMLResponse(shown(target, str(error)), HTTPStatus.TOO_MANY_REQUESTS, waiting)
        if not is_right:
            problem = gettext(
                "Invalid token. Use the one in the settings of the dashboard (web.token or web.token_file)."
            )
            return HTMLResponse(shown(target, problem), HTTPStatus.UNAUTHORIZED)
        answer = RedirectResponse(target, HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            SESSION_COOKIE, access.sessions.begin(), max_age=SESSION_SECONDS, httponly=True, samesite="strict",
            path=prefix() or "/", secure=access.is_https or request.url.scheme == "https",
        )  # fmt: skip
        return answer

    @router.post("/logout")
    def logout(request: Request) -> Response:
        access.sessions.end(request.cookies.get(SESSION_COOKIE, ""))
        answer = RedirectResponse(f"{prefix()}{LOGIN_PATH}", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(SESSION_COOKIE, path=prefix() or "/", httponly=True, samesite="strict")
        return answer

    return router


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of the form, limited in size since the request is not authenticated yet."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LOGIN_FORM_BYTES:
            return {}
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _own(target: str) -> str:
    """Return the address if it is on this server, else the home page."""
    leads_away = target.startswith(("//", "/\\")) or not target.isprintable()
    return target if target.startswith("/") and not leads_away else home_link()
