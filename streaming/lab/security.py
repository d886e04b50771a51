"""Security of a lab: its certificate authority, users with rights, and passwords in files that only their owner reads.

A Kafka node asks who is there: TLS, SASL or client certificates, and rights by topic. Its own certificate is also that
of its administrator: the controller and the broker's own connections are secured by client certificates, so the node
needs no password. RocketMQ's servers accept only TLS, and brokers only users with rights (ACL 2.0). Users and their
rights are set once the servers run.
"""

import ipaddress
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    UserScramCredentialUpsertion,
)

from streaming.base.errors import UserError
from streaming.base.files import write_private
from streaming.lab.control import ClientSecurity, NewUser
from streaming.lab.state import KafkaPorts
from streaming.log.kafka_properties import KafkaConnection, client_of

_VALID_DAYS = 30


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate and its key, as files."""

    certificate_file: Path
    key_file: Path

    def both(self) -> Path:
        """Return one file with key and certificate, as a Kafka broker takes them."""
        file = self.certificate_file.with_suffix(".both.pem")
        return write_private(file, self.key_file.read_text() + self.certificate_file.read_text())


class Authority:
    """Signs certificates; its own is `ca_file`."""

    def __init__(self, folder: Path) -> None:
        """Open the authority of the folder, or create one; the folder is created, too."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = _name("lab authority")
        self.ca_file = folder / "ca.pem"
        key_file = folder / "ca.key"
        if key_file.exists():
            self._key = _private_key(key_file)
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        write_private(key_file, _private_pem(self._key))
        builder = _builder(self._name, self._name, self._key.public_key(), timedelta(days=_VALID_DAYS))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca_file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def certificate(self, name: str) -> CertificateFiles:
        """Return the certificate of this name, which is issued at its first use."""
        known = CertificateFiles(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        return known if known.key_file.exists() else self.issue(name)

    def issue(
        self,
        name: str,
        *,
        valid: timedelta = timedelta(days=_VALID_DAYS),
        password: str = "",
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
    ) -> CertificateFiles:
        """Issue a certificate with the name as its common name.

        Args:
            name: the common name; the files are named after it.
            valid: how long from now on; negative: it has expired.
            password: encrypts the key; empty: the key is not encrypted.
            hosts: the names of its host; by default those of the loopback.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(list(map(_general_name, hosts)))
        builder = _builder(_name(name), self._name, key.public_key(), valid).add_extension(names, critical=False)
        certificate = self._folder / f"{name}.pem"
        certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        return CertificateFiles(certificate, write_private(self._folder / f"{name}.key", _private_pem(key, password)))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    first = now - timedelta(days=2) if valid < timedelta() else now - timedelta(minutes=5)  # clocks differ
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(now + valid)
    )


def _private_key(file: Path) -> ec.EllipticCurvePrivateKey:
    return cast("ec.EllipticCurvePrivateKey", serialization.load_pem_private_key(file.read_bytes(), None))


def _private_pem(key: ec.EllipticCurvePrivateKey, password: str = "") -> str:
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


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
    """The certificate to use instead of the node's own."""


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
    """Passwords of the users of PLAIN, which are part of the node's configuration."""

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


ADMINISTRATOR = "admin"
"""The user of the brokers themselves, who may do everything."""
_AUTH = "org.apache.rocketmq.auth"

_TLS_CONF = """\
tls.test.mode.enable=false
tls.server.certPath={certificate}
tls.server.keyPath={key}
tls.client.authServer=true
tls.client.trustCertPath={authority}
"""

_CLIENT_CERTIFICATES = """\
tls.server.need.client.auth=require
tls.server.authClient=true
tls.server.trustCertPath={authority}
"""

_BROKER_CONF = """\
authenticationEnabled=true
authenticationProvider={auth}.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider={auth}.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={user}
innerClientAuthenticationCredentials={credentials}
authorizationEnabled=true
authorizationProvider={auth}.authorization.provider.DefaultAuthorizationProvider
authorizationMetadataProvider={auth}.authorization.provider.LocalAuthorizationMetadataProvider
"""


@dataclass(frozen=True)
class SecuredRocketMq:
    """The security of name servers and brokers, which share a certificate."""

    authority: Authority
    tls_config: Path
    """The file for `tls.config.file`, of servers and of Java clients."""
    password: str = field(repr=False)
    """The administrator's."""
    certificate: str = "rocketmq"
    """The name of the servers' certificate; it is issued at its first use."""
    client_certificates: bool = False
    """True if clients need a certificate."""

    def java_options(self) -> list[str]:
        """Return the system properties of a server; write the file to which they refer."""
        certificate = self.authority.certificate(self.certificate)
        text = _TLS_CONF + (_CLIENT_CERTIFICATES if self.client_certificates else "")
        files = {"certificate": certificate.certificate_file, "key": certificate.key_file}
        self.tls_config.write_text(text.format(authority=self.authority.ca_file, **files))
        return [f"-Dtls.config.file={self.tls_config}", "-Dtls.server.mode=enforcing"]

    def write_broker_conf(self, file: Path, text: str) -> Path:
        """Write a broker's configuration with what is about security added; only its owner can read it."""
        user = json.dumps({"username": ADMINISTRATOR, "password": self.password})
        credentials = json.dumps({"accessKey": ADMINISTRATOR, "secretKey": self.password})
        return write_private(file, text + _BROKER_CONF.format(auth=_AUTH, user=user, credentials=credentials))


_SETTLED_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.05


def set_passwords(
    administrator: KafkaConnection, passwords: Mapping[str, str], mechanism: str = "SCRAM-SHA-512"
) -> None:
    """Give users their passwords for a SCRAM mechanism; return when the node knows them."""
    upsertions = [UserScramCredentialUpsertion(name, mechanism, password) for name, password in passwords.items()]
    with client_of(KafkaAdminClient, administrator) as admin:
        admin.alter_user_scram_credentials(upsertions)
        _wait(lambda: passwords.keys() <= admin.describe_user_scram_credentials().keys())


def allow(
    administrator: KafkaConnection,
    principal: str,
    name: str,
    *operations: ACLOperation,
    kind: ResourceType = ResourceType.TOPIC,
) -> None:
    """Allow a principal, such as ``User:name``, operations on a topic or a group; return when the node knows it.

    Args:
        administrator: who may grant it.
        principal: who is allowed.
        name: of the topic or group; ``*``: all of them.
        operations: what is allowed.
        kind: whether it is a topic or a group.
    """
    pattern = ResourcePattern(kind, name)
    rights = [ACL(principal, "*", operation, ACLPermissionType.ALLOW, pattern) for operation in operations]
    of_principal = ACLFilter(principal, "*", ACLOperation.ANY, ACLPermissionType.ALLOW, pattern)
    with client_of(KafkaAdminClient, administrator) as admin:
        admin.create_acls(rights)
        _wait(lambda: all(right in admin.describe_acls(of_principal)[0] for right in rights))


def _wait(is_settled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SETTLED_SECONDS_MAX
    while not is_settled():
        if time.monotonic() > deadline:
            raise UserError(f"Kafka did not take over its users within {_SETTLED_SECONDS_MAX:.0f} s: see its log.")
        time.sleep(_LOOK_SECONDS)


WATCHER = "rebalance-watch"
"""The user of rebalance-watch itself, in RocketMQ and in Kafka: it has the rights of conf/SECURED.md."""
_CONSUMER = "consumer"
_KAFKA_OPERATIONS = (ACLOperation.CREATE, ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE_CONFIGS)
_ALL = "*"


class LabSecurity:
    """Opens the files of the folder, and creates those that are missing."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self._folder = folder
        self._tls_config = folder / "tls.properties"

    def rocketmq(self) -> SecuredRocketMq:
        """Return the security of name server and brokers."""
        return SecuredRocketMq(self.authority, self._tls_config, self._password_file(ADMINISTRATOR).read_text())

    def kafka(self, ports: KafkaPorts) -> SecuredKafka:
        """Return the security of the Kafka node; its clients use SASL_SSL with SCRAM."""
        listeners = (
            KafkaListener(ADMINISTRATION, "SSL", ports.administration),
            KafkaListener("SASL_SSL", "SASL_SSL", ports.broker),
        )
        return SecuredKafka(self.authority, listeners, ("SCRAM-SHA-512",))

    def create_kafka_user(self, kafka: SecuredKafka, host: str) -> None:
        """Create Kafka's user with its rights; the node runs."""
        administrator = kafka.administrator(host)
        set_passwords(administrator, {WATCHER: self._password_file(WATCHER).read_text()})
        allow(administrator, f"User:{WATCHER}", _ALL, *_KAFKA_OPERATIONS)
        allow(administrator, f"User:{WATCHER}", _ALL, ACLOperation.READ, kind=ResourceType.GROUP)  # `collector.share`

    def administrator(self) -> ClientSecurity:
        """Return the security of a client that may do everything."""
        return self._client(ADMINISTRATOR)

    def consumer(self) -> ClientSecurity:
        """Return the security of a consumer."""
        return self._client(_CONSUMER)

    def users(self) -> list[NewUser]:
        """Return the users that the brokers need beside their administrator, with their least rights."""
        return [
            NewUser(_CONSUMER, str(self._password_file(_CONSUMER)), ["Group:*", "Topic:*"], ["Sub"]),
            NewUser(WATCHER, str(self._password_file(WATCHER)), ["Group:*", "Topic:*"], ["Get"]),
        ]

    def settings(self) -> dict[str, str]:
        """Return the settings with which rebalance-watch connects to the lab, by their full names; none is a secret."""
        shared = {"ca_file": str(self.authority.ca_file)}
        password_file = str(self._password_file(WATCHER))
        rocketmq = shared | {"tls": "true", "access_key": WATCHER, "secret_key_file": password_file}
        kafka = shared | {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "username": WATCHER,
            "password_file": password_file,
        }
        return {f"rocketmq.{name}": value for name, value in rocketmq.items()} | {
            f"kafka.{name}": value for name, value in kafka.items()
        }

    def _client(self, user: str) -> ClientSecurity:
        return ClientSecurity(str(self._tls_config), user, str(self._password_file(user)))

    def _password_file(self, user: str) -> Path:
        file = self._folder / f"{user}.password"
        return file if file.exists() else write_private(file, secrets.token_hex(16))
