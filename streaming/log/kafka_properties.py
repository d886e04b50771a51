"""The `[kafka]` settings in the words of the two clients: kafka-python, and the Java client inside Spark."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer

from streaming.base.certificate import certificate_of
from streaming.base.errors import UserError
from streaming.base.secrets import bytes_of, secret_of, text_of
from streaming.base.sections.collector import Kafka
from streaming.base.settings import Settings
from streaming.log.oauth import ClientCredentials

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
    """Where Kafka is, and the properties by which kafka-python reaches it."""

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
    return JavaProperties(plain, secret | {name: _java_value(value) for name, value in kafka.java.items()})


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


def _java_value(value: object) -> str:
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
