"""Settings of what processes report: lines, alerts, and what is pushed to an OpenTelemetry collector."""

from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from streaming.base.sections.section import Section


class Log(Section):
    """The lines that a long-running process prints."""

    format: Literal["console", "json"]


class Alerts(Section):
    """The alerts; routes and channels are in a separate file, see `streaming.serve.alerting.config`."""

    file: str


Signal: TypeAlias = Literal["metrics", "traces"]


class Otlp(Section):
    """The target of metrics and traces that are pushed, and the interval."""

    endpoint: str = Field(pattern=r"^(https?://[^/\s?#]+(/[^\s?#]*)?)?$")
    signals: tuple[Signal, ...] = Field(min_length=1)
    headers: SecretStr
    headers_file: str
    ca_file: str
    interval_seconds: float = Field(ge=1, le=3_600)
    timeout_seconds: float = Field(gt=0, le=60)

    @field_validator("endpoint")
    @classmethod
    def _has_no_password(cls, endpoint: str) -> str:
        if "@" in urlsplit(endpoint).netloc:
            raise ValueError("should have no user and password: set otlp.headers, such as Authorization=Basic%20…")
        return endpoint

    def url(self, signal: Signal) -> str:
        """Return the address of a signal."""
        return f"{self.endpoint.rstrip('/')}/v1/{signal}"
