"""Settings of the collector and of the telemetry log: clusters to poll, connections, Kafka."""

from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from rebalance_model.entities import NAME_CHARACTERS_MAX
from streaming.base.addresses import address_of, addresses_of
from streaming.base.limits import PROXIES
from streaming.base.sections.section import Section, TlsClient


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
    """The connection of every Kafka client of the program: collector, `topic create`, the job's Spark."""

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
        """Return whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Return whether the client authenticates by SASL."""
        return self.security_protocol.startswith("SASL")


_SECRET_FILES = ("key_password_file", "secret_key_file", "security_token_file")


class RocketMqOf(Section):
    """The differences from [rocketmq] for one entry of collector.clusters; secrets only in files."""

    tls: bool | None = None
    ca_file: str | None = None
    check_hostname: bool | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password_file: str | None = None
    access_key: str | None = None
    secret_key_file: str | None = None
    security_token_file: str | None = None


class RocketMq(TlsClient):
    """The connection of the collector and `doctor` to name servers and brokers."""

    tls: bool
    access_key: str
    secret_key: SecretStr
    secret_key_file: str
    security_token: SecretStr
    security_token_file: str

    def of(self, changes: RocketMqOf) -> "RocketMq":
        """Return these settings with the changes for one entry of collector.clusters."""
        changed: dict[str, Any] = changes.model_dump(exclude_none=True)
        secrets = {name.removesuffix("_file"): SecretStr("") for name in changed if name in _SECRET_FILES}
        return self.model_copy(update=changed | secrets)


def _servers(given: object) -> object:
    """Return each address of a list, or of RocketMQ's form, ``a:9876;b:9876``; in the environment also of JSON."""
    if isinstance(given, str):
        try:
            return _servers(msgspec.json.decode(given)) if given.lstrip()[:1] in {"[", '"'} else addresses_of(given)
        except msgspec.DecodeError:
            return addresses_of(given)  # an IPv6 address begins with a bracket, too
    if not isinstance(given, list | tuple):
        return given  # refused as no list
    return [one for text in given for one in (addresses_of(text) if isinstance(text, str) else (text,))]


def _server(text: str) -> str:
    address_of(text)
    return text


Servers = Annotated[
    tuple[Annotated[str, AfterValidator(_server)], ...], BeforeValidator(_servers), Field(min_length=1), NoDecode
]
"""Addresses of servers, host:port."""
Proxies = Annotated[
    tuple[Annotated[str, AfterValidator(_server)], ...], BeforeValidator(_servers), Field(max_length=PROXIES), NoDecode
]
"""Addresses of the remoting servers of RocketMQ 5 proxies, host:port."""


def _no_name_servers(proxies: tuple[str, ...], given: ValidationInfo) -> tuple[str, ...]:
    """Return the proxies; refuse one that is a name server, too."""
    if both := [one for one in proxies if one in given.data.get("name_servers", ())]:
        raise ValueError(f"{both[0]} is a name server; a proxy's remoting port is remotingListenPort, 8080 by default")
    return proxies


class NameServers(Section):
    """One entry of collector.clusters: name servers, and the clusters that are registered there."""

    name_servers: Servers
    proxies: Proxies = ()
    names: dict[str, Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS_MAX)]] = Field(default_factory=dict)
    """Names for clusters in place of their own (brokerClusterName)."""
    rocketmq: RocketMqOf = RocketMqOf()

    _are_proxies = field_validator("proxies")(_no_name_servers)


class Collector(Section):
    """The poll collector."""

    name_servers: Servers
    proxies: Proxies = ()
    """The proxies of these name servers' clusters that are asked for the groups' clients (203)."""
    broker_networks: tuple[Annotated[str, Field(min_length=1)], ...]
    """Networks, addresses, and patterns of host names of the brokers that may be polled; empty: any."""
    clusters: tuple[NameServers, ...]
    share: bool
    instance: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    interval_ms: int = Field(ge=1_000, le=1_200_000)
    deadline_ms: int = Field(ge=100)
    client_deadline_ms: int = Field(ge=100)
    parallelism: int = Field(ge=1, le=256)
    consume_time_span: bool
    oldest_offsets: bool
    stacks_after_ms: int = Field(ge=0)
    dead_letters_interval_ms: int = Field(ge=0, le=300_000)
    groups: tuple[str, ...]

    _are_proxies = field_validator("proxies")(_no_name_servers)

    @field_validator("clusters")
    @classmethod
    def _have_the_proxies(cls, clusters: tuple[NameServers, ...], given: ValidationInfo) -> tuple[NameServers, ...]:
        if clusters and given.data.get("proxies"):
            raise ValueError("each entry has proxies of its own: move collector.proxies to the entry of its cluster")
        return clusters

    @property
    def polled(self) -> tuple[NameServers, ...]:
        """The name servers of every cluster to poll: `clusters`, or `name_servers` alone."""
        return self.clusters or (NameServers(name_servers=self.name_servers, proxies=self.proxies),)
