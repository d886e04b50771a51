"""The security of a secured lab: an authority, users, and their passwords in files that only their owner can read."""

import secrets
from pathlib import Path

from kafka.admin import ACLOperation, ResourceType

from streaming.base.files import write_private
from streaming.lab.certificates import Authority
from streaming.lab.control import ClientSecurity, NewUser
from streaming.lab.kafka_users import allow, set_passwords
from streaming.lab.secured_kafka import ADMINISTRATION, KafkaListener, SecuredKafka
from streaming.lab.secured_rocketmq import ADMINISTRATOR, SecuredRocketMq
from streaming.lab.state import KafkaPorts

WATCHER = "rebalance-watch"
"""The user of rebalance-watch itself, in RocketMQ and in Kafka: it has the rights of conf/SECURED.md."""
_CONSUMER = "consumer"
_KAFKA_OPERATIONS = (ACLOperation.CREATE, ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE_CONFIGS)
_ALL = "*"


class LabSecurity:
    """Opens what the folder has; creates what it has not."""

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
