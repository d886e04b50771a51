"""A real Kafka that asks for Kerberos tickets of a real KDC, for both clients: ``make prove``.

It needs MIT's KDC (Debian: krb5-kdc, krb5-admin-server) and the Python package gssapi.
"""

import os
from importlib.util import find_spec

import pytest

from streaming.base.errors import UserError
from streaming.base.settings import load_settings
from streaming.lab import servers
from streaming.lab.security import ADMINISTRATION, Authority, KafkaListener, SecuredKafka, allow
from streaming.log.kafka import KafkaPublisher, create_topic
from streaming.log.kafka_properties import connection_of
from streaming.log.rows import publish
from tests.live import kdc
from tests.live.commands import Kafka
from tests.live.java_client import end_offsets
from tests.live.test_secured_kafka import CREATE, PARTITIONS, READ, WRITE
from tests.support.telemetry import telemetry

pytestmark = [
    pytest.mark.live,
    pytest.mark.prove,
    pytest.mark.skipif(not kdc.is_installed() or find_spec("gssapi") is None, reason="no KDC, or no package gssapi"),
]

TOPIC = "kerberos"
USER = "collector"
SERVICE = "kafka/localhost"
"""Java takes the name of an address, Python the address; with names both agree."""


class Kerberized(SecuredKafka):
    """The security of a node with the principal of `SERVICE`."""

    def with_tickets(self, realm):
        self.realm, self.keytab = realm, realm.keytab(SERVICE)
        return self

    def java_options(self):
        return self.realm.java_options

    def _login_module(self, _):
        options = f'useKeyTab="true" storeKey="true" keyTab="{self.keytab}" serviceName="kafka"'
        options += f' principal="{SERVICE}@{kdc.REALM}"'
        return f"com.sun.security.auth.module.Krb5LoginModule required {options}"


@pytest.fixture(scope="module")
def realm(tmp_path_factory):
    with kdc.Kdc(tmp_path_factory.mktemp("realm") / "kdc") as realm, pytest.MonkeyPatch.context() as environment:
        for name, value in realm.environment.items():
            environment.setenv(name, value)
        environment.setenv("JAVA_TOOL_OPTIONS", " ".join(realm.java_options))
        yield realm


@pytest.fixture(scope="module")
def port():
    return servers.free_port()


@pytest.fixture(scope="module")
def user_key(realm):
    return realm.keytab(USER)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory, realm, port):
    home = tmp_path_factory.mktemp("kafka")
    listeners = (
        KafkaListener(ADMINISTRATION, "SSL", servers.free_port()),
        KafkaListener("SASL_PLAINTEXT", "SASL_PLAINTEXT", port),
    )
    secured = Kerberized(Authority(home / "certificates"), listeners, ("GSSAPI",)).with_tickets(realm)
    with Kafka(home, secured).start() as kafka:
        allow(kafka.administrator, f"User:{USER}", TOPIC, *CREATE, *WRITE, *READ)
        yield kafka


@pytest.fixture
def settings(port, monkeypatch):
    def settings(**of_kafka):
        source = {"kind": "kafka", "bootstrap_servers": f"{servers.LOOPBACK}:{port}", "topic": TOPIC}
        shared = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
        shared["python"] = {"sasl_kerberos_domain_name": "localhost"}
        return load_settings(source=source | {"partitions": PARTITIONS}, kafka=shared | of_kafka)

    for name in ("KRB5_CLIENT_KTNAME", "KRB5CCNAME"):  # the program sets them, where it has a keytab
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.delenv("KRB5_CLIENT_KTNAME")
    return settings


@pytest.mark.timeout(300)
def test_clients_get_in_with_a_ticket_or_a_key_else_there_is_a_sentence(kafka, realm, user_key, settings):
    with pytest.raises(UserError, match=r"Kerberos gives no ticket for Kafka at .*: run `kinit`, or correct"):
        create_topic(connection_of(settings()), TOPIC, PARTITIONS, replication=1, retention_ms=3_600_000)

    realm.get_ticket(USER, user_key)
    sent = written(settings())
    assert sum(end_offsets(settings())) == sent

    realm.drop_tickets()
    by_key = settings(username=USER, keytab_file=str(user_key))
    sent += written(by_key)
    assert sum(end_offsets(by_key)) == sent


def written(settings):
    """Create the topic if it is not there, and write to it; return the number of rows."""
    create_topic(connection_of(settings), TOPIC, PARTITIONS, replication=1, retention_ms=3_600_000)
    events = list(telemetry(2, 2))
    with KafkaPublisher(connection_of(settings), TOPIC, PARTITIONS) as publisher:
        publish(publisher, events)
    return sum(PARTITIONS if event.BROADCAST else 1 for event in events)
