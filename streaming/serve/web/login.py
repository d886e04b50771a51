"""The login form, which exchanges the token for a session, and what every way to sign in shares."""

from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Annotated, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, Template

from streaming.base.language import current, gettext
from streaming.base.limits import LOGIN_FORM_BYTES
from streaming.serve.links import LOGOUT_PATH, home_link, prefix
from streaming.serve.web.access import SESSION_SECONDS, Access, TooManyError
from streaming.serve.web.gate import LOGIN_PATH, SESSION_COOKIE, address_of

NOT_STORED = {"Cache-Control": "no-store"}
_SameSite = Literal["lax", "strict"]


def login_routes(access: Access) -> APIRouter:
    """Create the routes ``/login`` and ``/logout`` for the token."""
    router = APIRouter(include_in_schema=False)

    def login_form(target: str, problem: str = "") -> str:
        return login_page(gettext("Log in"), problem, action=f"{prefix()}{LOGIN_PATH}", next=target)

    @router.get(LOGIN_PATH)
    def form(target: Annotated[str, Query(alias="next")] = "") -> Response:
        if access.token is None:
            return RedirectResponse(own_address(target), HTTPStatus.SEE_OTHER)
        return HTMLResponse(login_form(own_address(target)), headers=NOT_STORED)

    @router.post(LOGIN_PATH)
    async def login(request: Request) -> Response:
        fields = await _form(request)
        target = own_address(fields.get("next", ""))
        try:
            is_right = await access.check(fields.get("token", "").strip(), address_of(request))
        except TooManyError as error:
            waiting = {"Retry-After": str(error.seconds)}
            return HTMLResponse(login_form(target, str(error)), HTTPStatus.TOO_MANY_REQUESTS, waiting)
        if not is_right:
            problem = gettext(
                "Invalid token. Use the one in the settings of the dashboard (web.token or web.token_file)."
            )
            return HTMLResponse(login_form(target, problem), HTTPStatus.UNAUTHORIZED)
        answer = RedirectResponse(target, HTTPStatus.SEE_OTHER)
        set_session(answer, request, access, access.sessions.begin(), SESSION_SECONDS, "strict")
        return answer

    @router.post(LOGOUT_PATH)
    def logout(request: Request) -> Response:
        access.sessions.end(request.cookies.get(SESSION_COOKIE, ""))
        answer = RedirectResponse(f"{prefix()}{LOGIN_PATH}", HTTPStatus.SEE_OTHER)
        remove_session(answer, "strict")
        return answer

    return router


def login_page(title: str, problem: str = "", **values: str) -> str:
    """Return the page with the form of the token or, with ``again``, with a link by which to sign in."""
    return str(_template().render(title=title, problem=problem, _=gettext, language=current(), **values))


def set_session(
    answer: Response, request: Request, access: Access, session: str, seconds: int, same_site: _SameSite
) -> None:  # fmt: skip
    """Give a browser the cookie of a session."""
    answer.set_cookie(
        SESSION_COOKIE, session, max_age=seconds, httponly=True, samesite=same_site, path=prefix() or "/",
        secure=access.is_https or request.url.scheme == "https",
    )  # fmt: skip


def remove_session(answer: Response, same_site: _SameSite) -> None:
    """Take the cookie of a session from a browser."""
    answer.delete_cookie(SESSION_COOKIE, path=prefix() or "/", httponly=True, samesite=same_site)


def own_address(target: str) -> str:
    """Return the address if it is on this server, else the home page."""
    leads_away = target.startswith(("//", "/\\")) or not target.isprintable()
    return target if target.startswith("/") and not leads_away else home_link()


@cache
def _template() -> Template:
    return Environment(autoescape=True).from_string(
        resources.files(__package__).joinpath("login.html").read_text("utf-8")
    )


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of the form, limited in size since the request is not authenticated yet."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LOGIN_FORM_BYTES:
            return {}
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
