"""Signing in at an identity provider: OpenID Connect, authorization code with PKCE (`web.sign_in`, kind ``oidc``).

Authlib speaks with the provider and checks what it says. What this module adds:

- The state of a sign-in is in a signed cookie of its browser, so that other sign-ins take none of its room; an answer
  of the provider counts once, and only from the browser that asked.
- The id token must be of this issuer, for this client, and signed with one of the provider's public keys, which are
  read at each sign-in: a key that was withdrawn opens nothing.
- A person without a role gets no session.
"""

import json
import logging
import secrets
import ssl
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.starlette_client import OAuthError
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from joserfc.errors import JoseError
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.routing import Route

from streaming.base.errors import SettingsError, first_line
from streaming.base.language import gettext
from streaming.base.lines import Seldom
from streaming.base.secrets import Redaction
from streaming.base.sections.web import SignIn, Web
from streaming.base.terminal import visible
from streaming.serve.links import LOGOUT_PATH, prefix
from streaming.serve.user import User
from streaming.serve.web.access import Access
from streaming.serve.web.gate import (
    CALLBACK_PATH,
    LOGGED_OUT_PATH,
    LOGIN_PATH,
    SESSION_COOKIE,
    no_role,
)
from streaming.serve.web.login import NOT_STORED, login_page, own_address, remove_session, set_session
from streaming.serve.web.provider import SIGN_IN_SECONDS, Provider, WrongProviderError

_LOG = logging.getLogger(__name__)
_COOKIE = "rebalance-watch-sign-in"
_TARGET = "target"
_LINES = 10
"""Refused sign-ins a minute that are in the log; of more, which anybody can cause, only the number is."""
_UNUSABLE = (httpx2.HTTPError, WrongProviderError, ValueError, KeyError, TypeError, AttributeError)
"""A provider that does not answer, or answers with something else than it should."""
_REASON_CHARACTERS = 100
_TARGET_BYTES = 2_000
"""A cookie has room for 4,096, with the rest of the state and all of it in base 64."""
_LEEWAY_SECONDS = 60
"""Seconds by which the provider's clock may differ from this one."""


def add_oidc(app: FastAPI, access: Access, web: Web) -> None:
    """Add the routes by which people sign in at an identity provider, and out.

    Raises:
        SettingsError: the authority in web.sign_in.ca_file can't be used.
    """
    Seldom.install(__name__, _LINES)
    routes = _Routes(access, web)
    flow = Middleware(
        SessionMiddleware, secret_key=secrets.token_hex(32), session_cookie=_COOKIE, max_age=SIGN_IN_SECONDS,
        path=f"{web.prefix}{LOGIN_PATH}", same_site="lax", https_only=access.is_https,
    )  # fmt: skip
    app.router.routes.extend(
        [
            Route(LOGIN_PATH, routes.begin, middleware=[flow]),
            Route(CALLBACK_PATH, routes.finish, middleware=[flow]),
            Route(LOGGED_OUT_PATH, routes.ended),
            Route(LOGOUT_PATH, routes.log_out, methods=["POST"]),
        ]
    )


class _Routes:
    """The answers of the routes."""

    def __init__(self, access: Access, web: Web) -> None:
        self._access = access
        self._sign_in = web.sign_in
        self._public = web.url.rstrip("/")
        self._redaction = Redaction(filter(None, [access.client_secret]))
        self._provider = Provider.of(web.sign_in, access.client_secret, verify=_authority(web.sign_in))

    async def begin(self, request: Request) -> Response:
        """Send a person to the provider."""
        target = own_address(request.query_params.get("next", ""))
        request.session[_TARGET] = target if len(json.dumps(target)) <= _TARGET_BYTES else own_address("")
        try:
            answer: Response = await self._provider.authorize_redirect(request, self._address(request, CALLBACK_PATH))
        except _UNUSABLE as error:
            return self._unusable(error)
        answer.headers.update(NOT_STORED)
        return answer

    async def finish(self, request: Request) -> Response:
        """Take what the provider says of a person, and begin a session."""
        target = own_address(str(request.session.get(_TARGET, "")))
        try:
            token = await self._provider.authorize_access_token(
                request, claims_options=self._expected, leeway=_LEEWAY_SECONDS
            )
            said = await self._said_of_person(token)
        except (OAuthError, JoseError) as error:
            return self._refused(error)
        except _UNUSABLE as error:
            return self._unusable(error)
        subject, name = str(said["sub"]), _text(said, self._sign_in.name_claim) or str(said["sub"])
        role = self._sign_in.role_of(_values(said, self._sign_in.roles_claim))
        if role is None:
            _LOG.warning("%s (%s) has signed in and has no role", visible(name), visible(subject))
            return _page(no_role(name), HTTPStatus.FORBIDDEN)
        seconds = self._sign_in.session_seconds
        user = User(subject, name, role, has_session=True)
        self._access.sessions.end(request.cookies.get(SESSION_COOKIE, ""))
        session = self._access.sessions.begin(user=user, seconds=seconds, id_token=str(token["id_token"]))
        answer = RedirectResponse(target, HTTPStatus.SEE_OTHER, NOT_STORED)
        set_session(answer, request, self._access, session, seconds, "lax")
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the session here and, where the provider has an address for that, there."""
        id_token = self._access.sessions.end(request.cookies.get(SESSION_COOKIE, ""))
        address = f"{prefix()}{LOGGED_OUT_PATH}"
        try:
            address = await self._provider.logout_address(self._address(request, LOGGED_OUT_PATH), id_token) or address
        except _UNUSABLE as error:
            _LOG.warning("a session has ended here, but not at the identity provider: %s", self._visible_text(error))
        # Not a redirect: the Content-Security-Policy lets a form lead to this server only.
        answer = HTMLResponse(_LEAVE.format(json.dumps(address).replace("<", "\\u003c")), headers=NOT_STORED)
        remove_session(answer, "lax")
        return answer

    async def ended(self, _: Request) -> Response:
        """Say that the person has signed out."""
        return HTMLResponse(login_page(gettext("You have signed out."), again=f"{prefix()}{LOGIN_PATH}"))

    @property
    def _expected(self) -> Mapping[str, Mapping[str, object]]:
        """Return the claims that an id token must have."""
        return {
            "iss": {"essential": True, "value": self._sign_in.issuer},
            "aud": {"essential": True, "value": self._sign_in.client_id},
            "sub": {"essential": True},
        }

    async def _said_of_person(self, token: Mapping[str, object]) -> Mapping[str, object]:
        """Return the claims of the id token; those that it lacks and that are needed, of the provider's userinfo.

        Raises:
            OAuthError: there is no id token, or the userinfo is of another person.
        """
        said = token.get("userinfo")
        if not isinstance(said, dict):
            raise OAuthError(error="no id token")
        lacks = any(not _values(said, name) for name in (self._sign_in.name_claim, self._sign_in.roles_claim))
        if not lacks or "userinfo_endpoint" not in await self._provider.load_server_metadata():
            return said
        more = await self._provider.userinfo(token=token)
        if more.get("sub") != said["sub"]:
            raise OAuthError(error="the userinfo is of another person")
        return {**more, **said}

    def _refused(self, error: Exception) -> Response:
        """Create the response to an answer of the provider that does not count."""
        _LOG.warning("a sign-in was refused: %s", self._visible_text(error))
        reason = self._redaction.of(visible(str(getattr(error, "error", "") or type(error).__name__)))
        sentence = gettext("The sign-in was refused ({reason}): sign in again.", reason=reason[:_REASON_CHARACTERS])
        return _page(sentence, HTTPStatus.FORBIDDEN)

    def _unusable(self, error: Exception) -> Response:
        """Create the response where the provider does not answer as it should."""
        _LOG.warning("the identity provider can't be used: %s", self._visible_text(error))
        sentence = gettext("The identity provider can't be used at present: the log of the dashboard says why.")
        return _page(sentence, HTTPStatus.BAD_GATEWAY)

    def _visible_text(self, error: Exception) -> str:
        """Return the text of an error, in which a provider may repeat what it was sent."""
        return self._redaction.of(visible(first_line(error) or type(error).__name__))

    def _address(self, request: Request, path: str) -> str:
        own = urlsplit(str(request.url))
        return f"{self._public or f'{own.scheme}://{own.netloc}'}{path}"


_LEAVE = '<!doctype html><meta charset="utf-8"><title>rebalance-watch</title><script>location.replace({})</script>'


def _authority(sign_in: SignIn) -> ssl.SSLContext:
    """Return the context by which the provider's certificate is checked; each sign-in would read the files again."""
    if not sign_in.ca_file:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=Path(sign_in.ca_file).expanduser())
    except OSError as error:  # as of a file without certificates, too
        raise SettingsError(
            f"The file {sign_in.ca_file} can't be used ({error.strerror or first_line(error)}): correct "
            "web.sign_in.ca_file."
        ) from None


def _page(problem: str, status: HTTPStatus) -> Response:
    page = login_page(gettext("Sign in"), problem, again=f"{prefix()}{LOGIN_PATH}")
    return HTMLResponse(page, status, NOT_STORED)


def _text(said: Mapping[str, object], claim: str) -> str:
    return next(iter(_values(said, claim)), "").strip()


def _values(said: Mapping[str, object], claim: str) -> Sequence[str]:
    """Return the values of a claim; ``a.b`` is one of that name, or b inside of a."""
    value: object = said.get(claim)
    if value is None:
        value = said
        for part in claim.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, list):
        return [str(one) for one in value]
    return [] if value is None or isinstance(value, dict) else [str(value)]
