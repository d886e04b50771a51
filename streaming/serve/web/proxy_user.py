"""The person whom the headers of a trusted proxy name (`web.sign_in`, kind ``proxy``).

Anybody can send these headers. So the outermost middleware removes them from what does not come from a proxy of
`web.trusted_proxies`, by the address of the connection: X-Forwarded-For is not considered yet. A header that comes
twice counts as none, because one of them may be the client's own, which its proxy has passed on.
"""

import ipaddress
from collections.abc import Sequence

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.base.addresses import is_among
from streaming.base.sections.web import SignIn
from streaming.serve.user import User


class ProxyHeaders:
    """Removes the headers that name a person from all requests but those of the proxies."""

    def __init__(self, app: ASGIApp, sign_in: SignIn, proxies: Sequence[str]) -> None:
        """Wrap an application.

        Args:
            app: the application.
            sign_in: names the headers.
            proxies: the networks of the proxies.
        """
        self._app = app
        self._names = frozenset({sign_in.name_header.encode(), sign_in.roles_header.encode()})
        self._proxies = tuple(map(ipaddress.ip_network, proxies))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a connection on."""
        if scope["type"] in {"http", "websocket"} and not self._is_proxy(scope):
            headers = [(name, value) for name, value in scope["headers"] if name.lower() not in self._names]
            scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)

    def _is_proxy(self, scope: Scope) -> bool:
        client = scope["client"]
        return client is not None and is_among(client[0], self._proxies)  # a Unix socket has no address


class NoRoleError(Exception):
    """A person has neither role."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def user_of_proxy(connection: HTTPConnection, sign_in: SignIn) -> User | None:
    """Return the person whom the headers of a request name; None: they name nobody.

    Raises:
        NoRoleError: the person has no role.
    """
    name = _only(connection, sign_in.name_header)
    if not name:
        return None
    values = [value.strip() for value in _only(connection, sign_in.roles_header).split(",") if value.strip()]
    if (role := sign_in.role_of(values)) is None:
        raise NoRoleError(name)
    return User(name, name, role)


def _only(connection: HTTPConnection, name: str) -> str:
    """Return the value of a header that comes once, else an empty text."""
    values = connection.headers.getlist(name)
    if len(values) != 1:
        return ""
    try:
        return values[0].encode("latin-1").decode("utf-8").strip()
    except UnicodeDecodeError:
        return values[0].strip()
