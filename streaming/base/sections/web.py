"""The settings of the servers that processes run: the dashboard, metrics, and where each says that it is well."""

from ipaddress import ip_network
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from streaming.base.language import LanguageCode
from streaming.base.path_prefix import check_prefix, path_prefix
from streaming.base.sections.section import Section
from streaming.base.sections.sign_in import SignIn
from streaming.base.sections.tls import Certified


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
    """Where the processes without a web server of their own answer /healthz and /readyz; port 0: nowhere."""

    host: str = Field(min_length=1)
    up: int = Field(ge=0, le=65_535)
    run: int = Field(ge=0, le=65_535)
    poll: int = Field(ge=0, le=65_535)
    spool: int = Field(ge=0, le=65_535)
    alert: int = Field(ge=0, le=65_535)
    maintain: int = Field(ge=0, le=65_535)
