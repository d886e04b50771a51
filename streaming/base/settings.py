"""Settings: `conf/default.toml`, overridden by a user's file, overridden by the environment."""

import os
import re
from importlib import resources
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as UnreadableError

from rebalance_model.entities import NAME_CHARACTERS_MAX
from rebalance_model.observe.policy import Policy
from streaming.base.addresses import address_of, addresses_of
from streaming.base.errors import SettingsError
from streaming.base.invalid import ended, of_msgspec, sentence
from streaming.base.language import LanguageCode
from streaming.base.limits import PROXIES
from streaming.base.otlp import Otlp
from streaming.base.path_prefix import check_prefix, path_prefix
from streaming.base.sign_in import SignIn
from streaming.base.toml import read_toml

CONFIG_VARIABLE = "REBALANCE_WATCH_CONFIG"
_SECRET_FILES = ("key_password_file", "secret_key_file", "security_token_file")
_MASTER = re.compile(r"local|spark://[^\s,:]+:\d+(,[^\s,:]+:\d+)*|yarn|k8s://\S+")
_SET_OTHERWISE = {
    "spark.master": "job.master",
    "spark.cores.max": "job.cores",
    "spark.driver.memory": "job.driver_memory",
    "spark.sql.shuffle.partitions": "job.state_partitions",
    "spark.submit.deployMode": "the job: the driver is its own process",
    "spark.jars": "the job: use spark.driver.extraClassPath and spark.executor.extraClassPath",
}
"""Properties of Spark that the section [spark] can't set, and what sets them."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Runtime(_Section):
    """The folders of all files that are created at run time."""

    root: Path
    jars: Path
    """The folder of the jars."""

    @field_validator("root")
    @classmethod
    def _absolute(cls, root: Path) -> Path:
        return root.expanduser().resolve()

    @field_validator("jars", mode="before")
    @classmethod
    def _under_root(cls, jars: object, info: ValidationInfo) -> object:
        if not isinstance(jars, str | Path):
            return jars  # refused as no path
        return Path(jars).expanduser().resolve() if str(jars) else info.data.get("root", Path()) / "jars"

    @property
    def tables(self) -> Path:
        """The Delta tables."""
        return self.root / "tables"

    @property
    def checkpoints(self) -> Path:
        """The streaming checkpoints."""
        return self.root / "checkpoints"

    @property
    def lab(self) -> Path:
        """The lab's servers, logs and pids."""
        return self.root / "lab"


class Storage(_Section):
    """Where tables and Spark's checkpoints are, if not below the root."""

    tables: str = Field(pattern=r"^(s3://[^/\s]+(/\S*)?)?$")
    checkpoints: str = Field(pattern=r"^((s3a|hdfs)://[^/\s]+(/\S*)?)?$")
    endpoint: str = Field(pattern=r"^(https?://[^/\s]+)?$")
    region: str
    path_style: bool
    access_key: str
    secret_key: SecretStr
    secret_key_file: str
    session_token: SecretStr
    session_token_file: str
    cache_gb: float = Field(gt=0)
    options: dict[str, str] = Field(repr=False)
    """Further options of delta-rs's client; any of them may be secret."""


class SourceSettings(_Section):
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


class Certified(_Section):
    """What one side of a TLS connection shows to the other; files are PEM."""

    certificate_file: str
    key_file: str
    key_password: SecretStr
    key_password_file: str


class TlsClient(Certified):
    """What a client needs for TLS; files are PEM."""

    ca_file: str
    check_hostname: bool


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


class Job(_Section):
    """The streaming job."""

    trigger_seconds: float = Field(ge=0)
    archive_trigger_seconds: float = Field(ge=0)
    state_partitions: int = Field(ge=1, le=256)
    master: str
    cores: int = Field(ge=1)
    driver_memory: str
    environment: str

    @field_validator("master")
    @classmethod
    def _is_known(cls, master: str) -> str:
        if not _MASTER.fullmatch(master):
            raise ValueError("should be local, spark://HOST:PORT, yarn or k8s://https://HOST:PORT")
        return master

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in this process's JVM alone, without executors elsewhere."""
        return self.master == "local"


class RocketMqOf(_Section):
    """What differs from [rocketmq] for one entry of collector.clusters; secrets only in files."""

    tls: bool | None = None
    ca_file: str | None = None
    check_hostname: bool | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password_file: str | None = None
    access_key: str | None = None
    secret_key_file: str | None = None
    security_token_file: str | None = None


def _servers(given: object) -> object:
    """Return each address of a list; RocketMQ's own form of a list, ``a:9876;b:9876``, may stand in it, or alone.

    In the environment a list is JSON, or that form.
    """
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


class NameServers(_Section):
    """One entry of collector.clusters: name servers, and the clusters that are registered there."""

    name_servers: Servers
    proxies: Proxies = ()
    names: dict[str, Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS_MAX)]] = {}
    """Names for clusters in place of their own (brokerClusterName)."""
    rocketmq: RocketMqOf = RocketMqOf()

    _are_proxies = field_validator("proxies")(_no_name_servers)


class Collector(_Section):
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


class RocketMq(TlsClient):
    """How the collector and `doctor` connect to name servers and brokers."""

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


class LabGroup(_Section):
    """A consumer group of the lab and its topic; `queues` is the number of queues on each broker."""

    group: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    ordered: bool
    queues: int = Field(ge=1, le=64)
    consumers: int = Field(ge=0, le=16)


PopClient = Literal["remoting", "grpc-push", "grpc-simple"]
"""How a consumer pops: as a push consumer from the brokers, or as one of gRPC's consumers through the proxy."""


class PopGroup(LabGroup):
    """A consumer group that pops; `ordered`: the brokers keep the order of each queue (consumeMessageOrderly)."""

    client: PopClient

    @field_validator("client")
    @classmethod
    def _fits(cls, client: PopClient, info: ValidationInfo) -> PopClient:
        if client == "remoting" and info.data.get("ordered"):
            raise ValueError("should be a client of gRPC: a remoting client pops in no order")
        return client


Replication = Literal["none", "slave", "acting", "controller"]
"""The kinds of replication of a lab's brokers (`streaming.lab.replication`)."""


GroupKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")]


class LabSettings(_Section):
    """The lab; the key of a group is the prefix of its consumers' names."""

    brokers: int = Field(ge=1, le=8)
    replication: Replication
    broker: dict[str, str | int | float | bool]
    """Further properties of broker.conf."""
    hook: bool
    kafka: bool
    secure: bool
    pop: bool
    messages_per_second: float = Field(gt=0, le=100)
    groups: dict[GroupKey, LabGroup] = Field(min_length=1)
    pop_groups: dict[GroupKey, PopGroup] = Field(min_length=1)
    """The groups that pop, which only a lab with `pop` has."""

    @field_validator("pop_groups")
    @classmethod
    def _are_others(cls, pop_groups: dict[str, PopGroup], info: ValidationInfo) -> dict[str, PopGroup]:
        if twice := pop_groups.keys() & info.data.get("groups", {}).keys():
            raise ValueError(f"should have other keys than lab.groups: {', '.join(sorted(twice))}")
        return pop_groups


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


class Tables(_Section):
    """How many days of the progress series `maintain` keeps, and how long former versions of all tables."""

    versions_days: int = Field(ge=1)
    progress_days: int = Field(ge=1)
    progress_minute_days: int = Field(ge=1)
    progress_5min_days: int = Field(ge=1)

    def kept_days(self, table: str) -> int | None:
        """Return how many days of a progress table are kept; None for other tables."""
        days: int | None = getattr(self, f"{table.removeprefix('queue_')}_days", None)
        return days


class Quality(_Section):
    """The quality gate of the tables."""

    check_seconds: float = Field(ge=0)
    suites: str
    """A folder; empty: only the suites of the program."""


class Metrics(_Section):
    """The metrics that Prometheus scrapes."""

    port: int = Field(ge=0, le=65_535)
    queue_series: int = Field(ge=0)


class Log(_Section):
    """The lines that a long-running process prints."""

    format: Literal["console", "json"]


class HealthPorts(_Section):
    """Where the processes without a web server of their own answer /healthz and /readyz; port 0: nowhere."""

    host: str = Field(min_length=1)
    up: int = Field(ge=0, le=65_535)
    run: int = Field(ge=0, le=65_535)
    poll: int = Field(ge=0, le=65_535)
    spool: int = Field(ge=0, le=65_535)
    alert: int = Field(ge=0, le=65_535)
    maintain: int = Field(ge=0, le=65_535)


class Alerts(_Section):
    """The alerts; routes and channels are in a separate file, see `streaming.serve.alerting.config`."""

    file: str


class Settings(BaseSettings):
    """Every setting, checked."""

    model_config = SettingsConfigDict(
        env_prefix="REBALANCE_WATCH_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    runtime: Runtime
    storage: Storage
    source: SourceSettings
    kafka: Kafka
    job: Job
    spark: dict[str, str | int | float | bool] = Field(repr=False)
    """Properties of Spark by their full names; any of them may be secret."""
    collector: Collector
    rocketmq: RocketMq
    lab: LabSettings
    web: Web
    tables: Tables
    quality: Quality
    metrics: Metrics
    otlp: Otlp
    health: HealthPorts
    log: Log
    alerts: Alerts

    @field_validator("spark", mode="before")
    @classmethod
    def _are_properties(cls, properties: dict[str, Any]) -> dict[str, Any]:
        for name, value in properties.items():
            if isinstance(value, dict) or not name.startswith("spark."):
                raise ValueError('write the full name of a property in quotes: "spark.executor.memory" = "4g"')
            if name in _SET_OTHERWISE:
                raise ValueError(f"{name} is set by {_SET_OTHERWISE[name]}")
        return properties

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Give arguments priority over the environment, the user's file and the defaults, in this order."""
        del dotenv_settings, file_secret_settings
        user_file = os.environ.get(CONFIG_VARIABLE)
        given = read_toml(Path(user_file), "settings file", f"{CONFIG_VARIABLE} or --config") if user_file else {}
        return (
            init_settings,
            env_settings,
            InitSettingsSource(settings_cls, given),
            TomlConfigSettingsSource(settings_cls, Path(str(conf_file("default.toml")))),
        )

    @property
    def log_path(self) -> Path:
        """The file log's folder."""
        return Path(self.source.path).expanduser().resolve() if self.source.path else self.runtime.root / "log"


def conf_file(name: str) -> Path:
    """Return a file of `conf/`."""
    return Path(str(resources.files("conf").joinpath(name)))


def load_settings(**overrides: object) -> Settings:
    """Read and check the settings; ``overrides`` are sections as nested mappings.

    Raises:
        SettingsError: settings are invalid.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        raise SettingsError(*map(_sentence, error.errors())) from None
    except UnreadableError as error:
        section = str(error).split('"')[1]  # pydantic-settings names no more
        raise SettingsError(
            f"Setting {section}: one of its environment variables is not valid JSON. Write lists and tables as "
            f"""'["a", "b"]'."""
        ) from None


def _sentence(error: ErrorDetails) -> str:
    said = sentence(error, Settings)
    if error["type"] in {"extra_forbidden", "missing"}:
        return ended(said[0].upper() + said[1:])
    is_secret = not {"kafka", "otlp", "rocketmq", "spark", "storage", "web"}.isdisjoint(error["loc"])  # and never shown
    value = "" if is_secret or said.endswith("?") else f" (it is {error.get('input')!r})"
    return ended(said + value)


def load_policy(path: Path | None = None) -> Policy:
    """Read and check the thresholds (`conf/policy.toml` without ``path``).

    Raises:
        SettingsError: a threshold is invalid.
    """
    file = path or conf_file("policy.toml")
    try:
        return msgspec.convert(read_toml(file, "policy file", "--policy"), Policy)
    except msgspec.ValidationError as error:
        said = of_msgspec(str(error), Policy.__struct_fields__)
        raise SettingsError(ended(f"The policy file {file} can't be used: {said}")) from None
