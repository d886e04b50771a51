"""The settings of the telemetry log, and of the clients of Kafka that write and read it."""

from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from streaming.base.addresses import address_of
from streaming.base.sections.section import Section
from streaming.base.sections.tls import TlsClient


class SourceSettings(Section):
    """The telemetry log: the collector writes it, the job reads it."""

    kind: Literal["files", "kafka"]
    path: str
    bootstrap_servers: str
    topic: str = Field(min_length=1)
    partitions: int = Field(ge=1, le=1024)
    rows_per_batch: int = Field(ge=1)
    files_per_batch: int = Field(ge=1)

    @field_validator("bootstrap_servers")
    @classmethod
    def _are_servers(cls, servers: str) -> str:
        for one in servers.split(","):
            address_of(one.strip())
        return servers


class Kafka(TlsClient):
    """How every Kafka client of the program connects: collector, `topic create`, the job's Spark."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    username: str
    password: SecretStr
    password_file: str
    token_url: str
    token_scope: str
    kerberos_service: str
    keytab_file: str
    python: dict[str, Any] = Field(repr=False)
    """Further properties of kafka-python; any of them may be secret, as in `java`."""
    java: dict[str, str | int | float | bool] = Field(repr=False)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client authenticates by SASL."""
        return self.security_protocol.startswith("SASL")
