"""Settings of the servers that processes run: the dashboard, metrics, and health probes."""

import re
from collections.abc import Collection
from ipaddress import ip_network
from typing import Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from streaming.base.addresses import is_loopback
from streaming.base.language import LanguageCode
from streaming.base.sections.section import Certified, Section

Role: TypeAlias = Literal["viewer", "operator"]
"""A viewer sees everything; an operator also acknowledges, silences and closes incidents, and runs SQL."""
EVERYONE = "*"
"""In the place of a role's values: everybody who signs in has it."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class SignIn(Section):
    """The sign-in of people. Programs always send the token."""

    kind: Literal["token", "oidc", "proxy"]
    operators: tuple[str, ...]
    viewers: tuple[str, ...]
    session_hours: float = Field(gt=0, le=720)
    issuer: str = Field(pattern=r"^(https?://[^\s?#]+)?$")
    client_id: str
    client_secret: SecretStr
    client_secret_file: str
    ca_file: str
    scopes: tuple[str, ...]
    name_claim: str = Field(min_length=1)
    roles_claim: str = Field(min_length=1)
    name_header: str
    roles_header: str

    @field_validator("issuer")
    @classmethod
    def _is_encrypted(cls, issuer: str) -> str:
        at = urlsplit(issuer)
        if at.scheme == "http" and not is_loopback(at.hostname or ""):
            raise ValueError("should begin with https://: what the provider says of people must not be changed")
        return issuer

    @field_validator("name_header", "roles_header")
    @classmethod
    def _is_header(cls, name: str) -> str:
        if not _HEADER.fullmatch(name):
            raise ValueError("should be the name of a header, such as X-Forwarded-User")
        return name.lower()

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.kind == "token":
            return self
        if not (self.operators or self.viewers):
            raise ValueError(f'nobody could sign in: set operators or viewers, such as operators = ["{EVERYONE}"]')
        if self.kind == "oidc" and not (self.issuer and self.client_id):
            raise ValueError("kind oidc needs issuer and client_id, as the identity provider has them")
        if self.kind == "oidc" and "openid" not in self.scopes:
            raise ValueError("scopes should have openid")
        return self

    @property
    def session_seconds(self) -> int:
        """The length of a session."""
        return max(1, round(self.session_hours * 3600))

    def role_of(self, values: Collection[str]) -> Role | None:
        """Return the role of a person with these values; None: no role, so the person is not let in."""
        roles: tuple[tuple[Role, tuple[str, ...]], ...] = (("operator", self.operators), ("viewer", self.viewers))
        return next((role for role, wanted in roles if EVERYONE in wanted or not set(wanted).isdisjoint(values)), None)


DASHBOARD_PATHS = frozenset(
    {"actions", "api", "client", "clients", "group", "healthz", "incident", "incidents", "login", "logout", "mcp",
     "metrics", "readyz", "rule", "runbook", "sql"}
)  # fmt: skip
"""The first parts of the dashboard's own paths, beside those of NiceGUI."""
_PLAIN = re.compile(r"(/[\w.~-]+)*", re.ASCII)
"""A path that nobody has to encode."""


def path_prefix(url: str) -> str:
    """Return the path of an address, such as ``/rw``; empty: none."""
    _, slash, path = url.partition("://")[2].partition("/")
    return f"{slash}{path}".rstrip("/")


def check_prefix(prefix: str) -> None:
    """Check that requests below a prefix can be distinguished from those of the dashboard's own paths.

    Raises:
        ValueError: they can't, or it is no plain path.
    """
    if not _PLAIN.fullmatch(prefix):
        raise ValueError("should have no more than a plain path, such as https://host/rw")
    first = prefix.removeprefix("/").partition("/")[0]
    if first in DASHBOARD_PATHS or first.startswith("_nicegui"):
        raise ValueError(f"should not begin with /{first}, which is a path of the dashboard: use one such as /rw")


def _network(proxy: str) -> str:
    try:
        network = ip_network(proxy, strict=False)
    except ValueError:
        raise ValueError('should have addresses or networks of proxies, such as "10.0.0.5" or "10.0.1.0/24"') from None
    if not network.prefixlen:
        raise ValueError("should name the proxies: of any address, each request could say where it comes from")
    return str(network)


class Web(Certified):
    """The dashboard, its REST API and its metrics."""

    host: str = Field(min_length=1)
    port: int = Field(ge=0, le=65_535)
    url: str = Field(pattern=r"^(https?://[^/\s]+(/\S*)?)?$")
    trusted_proxies: tuple[str, ...]
    """The networks of the proxies whose X-Forwarded-For and X-Forwarded-Proto count; those of others do not."""
    language: Literal["auto", LanguageCode]
    token: SecretStr
    token_file: str
    sql_seconds: float = Field(gt=0)
    sql_rows: int = Field(ge=1)
    sign_in: SignIn

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_network, proxies))

    @field_validator("url")
    @classmethod
    def _has_a_prefix_that_works(cls, url: str) -> str:
        check_prefix(path_prefix(url))
        return url

    @property
    def prefix(self) -> str:
        """The path prefix of the public address, such as ``/rw``; empty: none."""
        return path_prefix(self.url)

    @property
    def address(self) -> str:
        """The dashboard's public address, for links; no slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self.certificate_file else "http"
        return (self.url or f"{scheme}://{host}:{self.port}").rstrip("/")


class Metrics(Section):
    """The metrics that Prometheus scrapes."""

    port: int = Field(ge=0, le=65_535)
    queue_series: int = Field(ge=0)


class HealthPorts(Section):
    """Ports at which processes without a web server answer /healthz and /readyz; 0: none."""

    host: str = Field(min_length=1)
    up: int = Field(ge=0, le=65_535)
    run: int = Field(ge=0, le=65_535)
    poll: int = Field(ge=0, le=65_535)
    spool: int = Field(ge=0, le=65_535)
    alert: int = Field(ge=0, le=65_535)
    maintain: int = Field(ge=0, le=65_535)
