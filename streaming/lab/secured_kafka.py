"""A Kafka node of a lab that asks who is there: TLS, SASL or client certificates, and rights by topic.

Its own certificate is also that of its administrator: the controller and the broker's own connections are secured by
client certificates, so the node needs no password. Users and their rights are set once it runs
(`streaming.lab.kafka_users`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from streaming.lab.certificates import Authority, CertificateFiles
from streaming.log.kafka_properties import KafkaConnection

Protocol = Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"]

ADMINISTRATION = "ADMINISTRATION"
"""The listener of the node itself and of its administrator."""
_NODE = "kafka"
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES = "org.apache.kafka.common.security"

_OAUTH = f"{_MODULES}.oauthbearer"

_SECURITY_CONF = """\
inter.broker.listener.name=ADMINISTRATION
sasl.enabled.mechanisms={mechanisms}
ssl.keystore.type=PEM
ssl.truststore.type=PEM
ssl.keystore.location={certificate}
ssl.truststore.location={authority}
listener.name.controller.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:CN={node}
"""


@dataclass(frozen=True)
class KafkaListener:
    """One address of the node; over SSL a client needs a certificate."""

    name: str
    protocol: Protocol
    port: int
    certificate: CertificateFiles | None = None
    """Instead of the node's own."""


@dataclass
class SecuredKafka:
    """The security of one node."""

    authority: Authority
    listeners: tuple[KafkaListener, ...]
    """One of them is `ADMINISTRATION`, over SSL."""
    mechanisms: tuple[str, ...] = _SCRAM
    token_keys: Path | None = None
    """The public keys of the server that signs the tokens of OAUTHBEARER: a JSON Web Key Set (RFC 7517)."""
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the users of PLAIN, which are part of the node's configuration."""

    def __post_init__(self) -> None:
        self._own = self.authority.certificate(_NODE)

    def properties(self, host: str, controller_port: int) -> str:
        """Return the lines of the node's configuration that are about security."""
        protocols = {one.name: one.protocol for one in self.listeners} | {"CONTROLLER": "SSL"}
        addresses = {one.name: one.port for one in self.listeners} | {"CONTROLLER": controller_port}
        lines = [
            "listeners=" + ",".join(f"{name}://{host}:{port}" for name, port in addresses.items()),
            "listener.security.protocol.map=" + ",".join(f"{name}:{of}" for name, of in protocols.items()),
            *(line for listener in self.listeners for line in self._listener(listener)),
        ]
        text = _SECURITY_CONF.format(
            certificate=self._own.both(),
            authority=self.authority.ca_file,
            mechanisms=",".join(self.mechanisms),
            node=_NODE,
        )
        return text + "\n".join(lines) + "\n"

    def java_options(self) -> list[str]:
        """Return the system properties that the node needs."""
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
        return [f"{allowed}={self.token_keys.as_uri()}"] if self.token_keys else []

    def administrator(self, host: str) -> KafkaConnection:
        """Return the connection that may do everything."""
        (port,) = (one.port for one in self.listeners if one.name == ADMINISTRATION)
        return KafkaConnection(
            f"{host}:{port}",
            {
                "security_protocol": "SSL",
                "ssl_cafile": str(self.authority.ca_file),
                "ssl_certfile": str(self._own.certificate_file),
                "ssl_keyfile": str(self._own.key_file),
            },
        )

    def _listener(self, listener: KafkaListener) -> Iterator[str]:
        prefix = f"listener.name.{listener.name.lower()}"
        if listener.certificate:
            yield f"{prefix}.ssl.keystore.location={listener.certificate.both()}"
        if listener.protocol == "SSL":
            yield f"{prefix}.ssl.client.auth=required"
            return
        if self.token_keys:
            handler = f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
            yield f"{prefix}.oauthbearer.sasl.server.callback.handler.class={handler}"
            yield f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={self.token_keys.as_uri()}"
        for mechanism in self.mechanisms:
            yield f"{prefix}.{mechanism.lower()}.sasl.jaas.config={self._login_module(mechanism)};"

    def _login_module(self, mechanism: str) -> str:
        if mechanism == "PLAIN":
            users = " ".join(f'user_{name}="{password}"' for name, password in self.passwords.items())
            return f"{_MODULES}.plain.PlainLoginModule required {users}"
        if mechanism == "OAUTHBEARER":
            return f'{_OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{_NODE}"'
        return f"{_MODULES}.scram.ScramLoginModule required"
