"""The `[kafka]` settings in the words of the two clients (kafka-python, the Java client inside Spark), and OAuth.

A client of kafka-python from here leaves nothing open: neither closed, nor when it could not start.
"""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import msgspec
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.base.certificate import certificate_of
from streaming.base.errors import UserError
from streaming.base.http import HttpAnswer, Poster
from streaming.base.limits import REPLY_BYTES
from streaming.base.secrets import bytes_of, secret_of, text_of
from streaming.base.sections.collector import Kafka
from streaming.base.settings import Settings

_ANSWER_SECONDS_MAX = 10.0
_REFRESH_FRACTION = 0.8
"""A token is used for this part of its lifetime, as in the Java client (sasl.login.refresh.window.factor)."""


class _Token(msgspec.Struct, frozen=True):
    """The answer of a token server (RFC 6749, 5.1)."""

    access_token: str = ""
    expires_in: float = 0.0


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Exchanges a client id and secret for a token, and keeps it until shortly before it expires."""

    def __init__(self, url: str, client_id: str, secret: str, scope: str) -> None:
        self._url = url
        self._credentials = httpx.BasicAuth(client_id, secret)
        self._form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._token = ""
        self._good_until = 0.0

    def token(self) -> str:
        """Return a token that is still good.

        Raises:
            UserError: the server can't be reached or refuses.
        """
        if time.monotonic() >= self._good_until:
            answer = self._ask()
            self._token = answer.access_token
            self._good_until = time.monotonic() + answer.expires_in * _REFRESH_FRACTION
        return self._token

    def _post(self) -> HttpAnswer:
        with Poster(_ANSWER_SECONDS_MAX, REPLY_BYTES) as poster:
            return poster.post(self._url, data=self._form, auth=self._credentials)

    def _ask(self) -> "_Token":
        try:
            with ThreadPoolExecutor(1) as thread:  # this one may run an event loop
                answer = thread.submit(self._post).result()
            token = msgspec.json.decode(answer.body, type=_Token) if answer.is_success else _Token()
        except (TimeoutError, OSError, httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            raise UserError(
                f"The token server {self._url} can't be asked ({type(error).__name__}): start it, or correct "
                "kafka.token_url."
            ) from KafkaConnectionError(type(error).__name__)
        if not token.access_token:
            raise UserError(
                f"The token server {self._url} gave no token (HTTP {answer.status}): correct kafka.username, its "
                "password or kafka.token_scope."
            )
        return token


_SECURITY = "org.apache.kafka.common.security"
_PASSWORD_MECHANISMS = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
}
_OWN = frozenset(
    {
        *("bootstrap_servers", "acks", "enable_idempotence", "linger_ms", "delivery_timeout_ms", "max_request_size"),
        *("allow_auto_create_topics", "bootstrap_timeout_ms", "key_serializer", "value_serializer", "transactional_id"),
        "kafka_client",
    }
)
"""Properties of kafka-python on which the publisher and the checks rely."""


@dataclass(frozen=True)
class KafkaConnection:
    """The address of Kafka, and the properties by which kafka-python reaches it."""

    servers: str
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class JavaProperties:
    """Properties of the Java client; those of the second kind are never shown."""

    plain: dict[str, str]
    secret: dict[str, str] = field(repr=False)


def connection_of(settings: Settings) -> KafkaConnection:
    """Return how kafka-python connects to the Kafka of the settings.

    Raises:
        UserError: the settings of `[kafka]` do not fit together, or a file can't be read.
    """
    return KafkaConnection(settings.source.bootstrap_servers, python_properties(settings.kafka))


def python_properties(kafka: Kafka) -> dict[str, Any]:
    """Return the properties of kafka-python.

    Raises:
        UserError: the settings do not fit together, or a file can't be read.
    """
    properties: dict[str, Any] = {"security_protocol": kafka.security_protocol}
    if kafka.uses_tls:
        certificate = certificate_of("kafka", kafka)
        properties |= {
            "ssl_check_hostname": kafka.check_hostname,
            "ssl_cafile": _path("ca_file", kafka.ca_file),
            "ssl_certfile": _path("certificate_file", kafka.certificate_file),
            "ssl_keyfile": _path("key_file", kafka.key_file),
            "ssl_password": certificate.key_password if certificate else None,
        }
    if kafka.uses_sasl:
        properties |= {"sasl_mechanism": kafka.sasl_mechanism} | _python_sasl(kafka)
    _check_names(kafka.python)
    return properties | kafka.python


def java_properties(kafka: Kafka) -> JavaProperties:
    """Return the properties of the Java client; what `[kafka.java]` adds is taken for secret.

    Raises:
        UserError: the settings do not fit together, or a file can't be read.
    """
    plain: dict[str, str] = {"security.protocol": kafka.security_protocol}
    secret: dict[str, str] = {}
    if kafka.uses_tls:
        plain["ssl.endpoint.identification.algorithm"] = "https" if kafka.check_hostname else ""
        if authorities := _path("ca_file", kafka.ca_file):
            plain |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}
        if certificate := certificate_of("kafka", kafka):
            plain["ssl.keystore.type"] = "PEM"
            secret["ssl.keystore.certificate.chain"] = certificate.chain
            secret["ssl.keystore.key"] = certificate.key
    if kafka.uses_sasl:
        plain |= {"sasl.mechanism": str(kafka.sasl_mechanism)} | _java_sasl(kafka)
        secret["sasl.jaas.config"] = _jaas(kafka)
    return JavaProperties(plain, secret | {name: java_value(value) for name, value in kafka.java.items()})


def _check_names(properties: Mapping[str, Any]) -> None:
    known = KafkaAdminClient.DEFAULT_CONFIG.keys() | KafkaProducer.DEFAULT_CONFIG.keys()
    for name in properties:
        if name not in known:
            raise UserError(f"kafka-python has no property {name}: correct the table kafka.python.")
        if name in _OWN:
            raise UserError(f"The property {name} is rebalance-watch's own: leave it out of kafka.python.")


def _python_sasl(kafka: Kafka) -> dict[str, Any]:
    match kafka.sasl_mechanism:
        case "GSSAPI":
            if find_spec("gssapi") is None:
                raise UserError("The SASL mechanism GSSAPI needs a package: install it with `pip install gssapi`.")
            if keytab := _keytab(kafka):
                # The Kerberos library takes a key only from there; a ticket that `kinit` left would come first.
                os.environ |= {"KRB5_CLIENT_KTNAME": keytab, "KRB5CCNAME": "MEMORY:rebalance-watch"}
            return {"sasl_kerberos_service_name": kafka.kerberos_service}
        case "OAUTHBEARER":
            name, secret = _credentials(kafka)
            token_url = _needed(kafka, "token_url")
            return {"sasl_oauth_token_provider": ClientCredentials(token_url, name, secret, kafka.token_scope)}
        case _:
            name, password = _credentials(kafka)
            return {"sasl_plain_username": name, "sasl_plain_password": password}


def _java_sasl(kafka: Kafka) -> dict[str, str]:
    match kafka.sasl_mechanism:
        case "GSSAPI":
            return {"sasl.kerberos.service.name": kafka.kerberos_service}
        case "OAUTHBEARER":
            return {
                "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": _needed(kafka, "token_url"),
            }
        case _:
            return {}


def _jaas(kafka: Kafka) -> str:
    """Return the login module of the mechanism with its options, in the syntax of a JAAS configuration."""
    match kafka.sasl_mechanism:
        case "GSSAPI":
            module, options = "com.sun.security.auth.module.Krb5LoginModule", _java_kerberos(kafka)
        case "OAUTHBEARER":
            name, secret = _credentials(kafka)
            module = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
            options = {"clientId": name, "clientSecret": secret}
            options |= {"scope": kafka.token_scope} if kafka.token_scope else {}
        case mechanism:
            name, password = _credentials(kafka)
            module, options = _PASSWORD_MECHANISMS[mechanism], {"username": name, "password": password}
    return f"{module} required {' '.join(f'{option}={_quoted(value)}' for option, value in options.items())};"


def _java_kerberos(kafka: Kafka) -> dict[str, str]:
    keytab = _keytab(kafka)
    if keytab is None:
        return {"useTicketCache": "true"}
    return {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, "principal": _needed(kafka, "username")}


def _keytab(kafka: Kafka) -> str | None:
    if not kafka.keytab_file:
        return None
    bytes_of("kafka.keytab_file", kafka.keytab_file)
    return str(Path(kafka.keytab_file).expanduser().resolve())


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def java_value(value: object) -> str:
    """Return the value of a setting as Java's properties have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _credentials(kafka: Kafka) -> tuple[str, str]:
    password = secret_of("kafka.password", kafka.password, kafka.password_file)
    if not password:
        raise UserError(
            f"The SASL mechanism {kafka.sasl_mechanism} needs a password: set REBALANCE_WATCH_KAFKA__PASSWORD or "
            "kafka.password_file."
        )
    return _needed(kafka, "username"), password


def _needed(kafka: Kafka, name: str) -> str:
    value: str = getattr(kafka, name)
    if not value:
        raise UserError(
            f"The SASL mechanism {kafka.sasl_mechanism} needs kafka.{name}: set it, or correct kafka.sasl_mechanism."
        )
    return value


def _path(name: str, file: str) -> str | None:
    """Return the path of a file that can be read; None if the setting is empty."""
    if not file:
        return None
    text_of(f"kafka.{name}", file)
    return str(Path(file).expanduser().resolve())


class KafkaNetwork(KafkaNetClient):  # type: ignore[misc]  # kafka-python has no types
    """The connections of one client.

    kafka-python 3.0.12 leaves a connection that is still under way to the garbage collector.
    """

    def close(self, node_id: object = None) -> None:
        """Close the connection to one broker; without one: every connection, and the client's thread."""
        if node_id is not None:
            super().close(node_id)
            return
        self._manager.close()
        self._net.stop()
        under_way = [key.fileobj for key in self._net._selector.get_map().values()]  # noqa: SLF001  nothing public lists them
        self._net.close()
        for socket in under_way:
            socket.close()


def client_of(kind: type[Any], connection: KafkaConnection, **own: object) -> Any:
    """Return a client of kafka-python; it gets those of the connection's properties that it knows.

    A client that can't reach Kafka, which kafka-python would leave with its thread and three open files, is closed.

    Raises:
        KafkaError: Kafka does not respond, or refuses the client.
    """
    shared = {name: value for name, value in connection.properties.items() if name in kind.DEFAULT_CONFIG}
    networks: list[KafkaNetwork] = []

    def network(**properties: object) -> KafkaNetwork:
        networks.append(KafkaNetwork(**properties))
        return networks[-1]

    try:
        return kind(bootstrap_servers=connection.servers.split(","), kafka_client=network, **(shared | own))
    except BaseException:
        for one in networks:
            one.close()
        raise
