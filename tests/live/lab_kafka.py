"""The Kafka of the lab that the live tests share: a secured lab's, with more ways to authenticate and to be refused.

One node for all tests of a real Kafka, because each start takes 4 s of processor time.
"""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from streaming.base.java import java_home
from streaming.lab import cluster, servers
from streaming.lab.processes import end, spawn, wait_until
from streaming.lab.security import KafkaListener, LabSecurity, SecuredKafka
from streaming.lab.state import LabFolder
from streaming.log.kafka_properties import connection_of

START_SECONDS_MAX = 200
PLAIN_PASSWORD = "plain-password-7f3a"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
EXPIRED, SASL_PLAINTEXT = "EXPIRED", "SASL_PLAINTEXT"
"""Further listeners: one whose certificate has expired, and one without TLS."""


def security_with(token_server):
    """Return the security of a lab whose Kafka takes tokens of this server, PLAIN and both kinds of SCRAM, too."""
    ports = {name: servers.free_port() for name in (EXPIRED, SASL_PLAINTEXT)}

    class EveryWay(LabSecurity):
        def kafka(self, kafka_ports):
            keys = self._folder / "token-keys.json"
            if not keys.exists():
                keys.write_text(token_server.keys())
                self.authority.issue("expired", valid=timedelta(days=-1))
            listeners = (
                *super().kafka(kafka_ports).listeners,
                KafkaListener(EXPIRED, "SASL_SSL", ports[EXPIRED], self.authority.certificate("expired")),
                KafkaListener(SASL_PLAINTEXT, SASL_PLAINTEXT, ports[SASL_PLAINTEXT]),
            )
            return SecuredKafka(self.authority, listeners, MECHANISMS, keys, {"simple": PLAIN_PASSWORD})

    return EveryWay


def with_every_way(stack, token_server):
    """Let the labs that are started until the end of the stack have such a Kafka."""
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(cluster, "LabSecurity", security_with(token_server))


class LabKafka:
    """The addresses and certificates of a secured lab's Kafka."""

    def __init__(self, lab, lab_settings, settings, token_server):
        """Open it.

        Args:
            lab: the lab.
            lab_settings: with which it was started.
            settings: of a client of the lab.
            token_server: gives its clients tokens.
        """
        home = LabFolder(lab_settings.runtime.lab)
        state = home.load()
        secured = cluster.LabSecurity(home.security).kafka(state.kafka)
        self.authority = secured.authority
        self.token_server = token_server
        self.ports = {one.name: one.port for one in secured.listeners}
        self._home, self.process = home, state.members["kafka"].process
        command = Path(f"/proc/{self.process.pid}/cmdline").read_bytes()
        self._command = command.decode().rstrip("\0").split("\0")
        self.administrator = secured.administrator(servers.LOOPBACK)
        """The connection that may do everything."""
        self.connection = connection_of(settings)
        """The connection of the lab's user, who may create, read and write every topic."""
        self.settings = {
            name: value for name, value in values_of(lab).items() if name.startswith(("KAFKA__", "SOURCE__"))
        }
        """The settings of a command with this connection: SECTION__NAME and a value each."""

    @property
    def bootstrap(self):
        """The address of the listener for the lab's user."""
        return self.connection.servers

    def kill(self):
        """Kill it."""
        end(self.process)

    def start(self):
        """Start it again as the lab did."""
        log = self._home.log("kafka")
        self.process = spawn(self._command, log, {"JAVA_HOME": str(java_home())})
        state = self._home.load()
        state.members["kafka"] = msgspec.structs.replace(state.members["kafka"], process=self.process)
        self._home.save(state)  # so that the lab ends it
        wait_until(lambda: servers.kafka_answers(self.administrator), self.process, log, START_SECONDS_MAX)


def values_of(lab):
    """Return the settings of `lab env`: SECTION__NAME and a value each."""
    return {name.removeprefix("REBALANCE_WATCH_"): value for name, value in lab.environment().items()}
