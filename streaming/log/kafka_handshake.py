"""Greet a Kafka broker as a client does, and say in one sentence why the two do not come together.

kafka-python takes a failed TLS handshake, or a listener of another protocol, for a broker that is still starting: it
tries again until its time is over, and then names no reason. So before a client is made, the first broker that answers
is asked what the client would ask it: TLS, the versions of its API, the SASL mechanism and the credentials (of which
kafka-python 3.0.12 forgets that they were refused, too). Where nothing listens at any address for two seconds, that is
the error; where somebody listens and does not answer, the client is left to try again for a while.
"""

import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kafka.cluster import collect_hosts
from kafka.errors import KafkaConnectionError, KafkaError, UnsupportedSaslMechanismError
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.transport import KafkaSSLTransport
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from streaming.base.certificate import is_alert, refused_certificate, untrusted
from streaming.base.errors import UnavailableError, UserError
from streaming.base.limits import FRAME_BYTES
from streaming.log.kafka_properties import KafkaConnection

_ANSWER_SECONDS_MAX = 5.0
_LISTEN_SECONDS = 2.0
_LOOK_SECONDS = 0.2
_AGAIN_AFTER_SECONDS = 1.0
"""A broker that is being stopped closes connections, too; after this time it refuses them."""


def check_handshake(connection: KafkaConnection) -> None:
    """Check that the first broker that can be reached speaks the protocol of the settings with this client.

    Raises:
        UserError: it does not, or nothing listens. Its cause is a KafkaError where waiting may help.
    """
    properties = connection.properties
    tls = _tls_context(properties)
    if "proxy_url" in properties or "socks5_proxy" in properties:
        return  # only the client knows the way through it
    for host, port in _listening(connection.servers):
        greeting = _Greeting(host, port, tls, properties)
        try:
            if not greeting.is_accepted():
                time.sleep(_AGAIN_AFTER_SECONDS)
                greeting.is_accepted(is_last=True)
        except _NobodyListensError:
            continue
        return


def _listening(servers: str) -> list[tuple[str, int]]:
    """Return the addresses that take a connection within two seconds: a server may be started meanwhile."""
    addresses = [(host, port) for host, port, _ in _addresses(servers)]
    until = time.monotonic() + _LISTEN_SECONDS
    with ThreadPoolExecutor(len(addresses)) as threads:
        while True:
            found = list(threads.map(_takes_a_connection, addresses))
            if any(found):
                return [address for address, listens in zip(addresses, found, strict=True) if listens]
            if time.monotonic() > until:
                raise UnavailableError(
                    f"Nothing listens at {' or '.join(servers.split(','))}: start Kafka, or correct "
                    "source.bootstrap_servers."
                ) from KafkaConnectionError()
            time.sleep(_LOOK_SECONDS)


def _takes_a_connection(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=_LISTEN_SECONDS).close()
    except OSError:  # a name that is not known, too
        return False
    return True


class _NobodyListensError(Exception):
    """The broker can't be reached."""


@dataclass(frozen=True)
class _Greeting:
    host: str
    port: int
    tls: ssl.SSLContext | None
    properties: Mapping[str, Any]

    def is_accepted(self, *, is_last: bool = False) -> bool:
        """Return whether the broker accepts the client; the last attempt raises if it does not.

        Raises:
            UserError: it does not, for a reason that will not pass.
            _NobodyListensError: it can't be reached.
        """
        try:
            with self._connected() as opened, self._encrypted(opened) as channel:
                self._exchange(channel)
        except TimeoutError:
            return True  # a slow one, perhaps: the client may wait
        except ssl.SSLCertVerificationError as error:
            raise UserError(untrusted(self._server, "kafka", "source.bootstrap_servers", error)) from None
        except (OSError, KafkaError) as error:  # ssl.SSLError is an OSError
            reason = getattr(error, "reason", None) or type(error).__name__
            if is_alert(reason):
                certificate = self.properties.get("ssl_certfile")
                raise UserError(refused_certificate(self._server, "kafka", certificate, reason)) from None
            if is_last:
                raise UserError(
                    f"{self._server} does not accept the protocol {self._protocol} ({reason}): correct "
                    "kafka.security_protocol or source.bootstrap_servers."
                ) from KafkaConnectionError(str(error))
            return False
        return True

    @property
    def _where(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def _server(self) -> str:
        return f"Kafka at {self._where}"

    @property
    def _protocol(self) -> str:
        return str(self.properties.get("security_protocol", "PLAINTEXT"))

    def _connected(self) -> socket.socket:
        try:
            return socket.create_connection((self.host, self.port), timeout=_ANSWER_SECONDS_MAX)
        except OSError as error:  # a name that is not known, too
            raise _NobodyListensError from error

    def _encrypted(self, opened: socket.socket) -> socket.socket:
        return self.tls.wrap_socket(opened, server_hostname=self.host) if self.tls else opened

    def _exchange(self, channel: socket.socket) -> None:
        """Ask for the versions of the API; then authenticate, or ask for metadata, which SASL would precede."""
        talk = KafkaProtocol(client_id="rebalance-watch")
        answer = _ask(channel, talk, ApiVersionsRequest(version=0))
        versions = BrokerVersionData(
            api_versions={api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        )
        if not self._protocol.startswith("SASL"):
            _ask(channel, talk, MetadataRequest(topics=[]), versions)
            return
        self._choose_mechanism(channel, talk, versions)
        self._authenticate(channel, talk, versions)

    def _choose_mechanism(self, channel: socket.socket, talk: KafkaProtocol, versions: BrokerVersionData) -> None:
        mechanism = self.properties["sasl_mechanism"]
        answer = _ask(channel, talk, SaslHandshakeRequest(mechanism=mechanism, max_version=1), versions)
        if answer.error_code == UnsupportedSaslMechanismError.errno:
            raise UserError(
                f"{self._server} does not accept {mechanism}: set kafka.sasl_mechanism to one of "
                f"{', '.join(sorted(answer.mechanisms))}."
            )
        if answer.error_code:
            raise UserError(
                f"{self._server} uses no SASL: correct kafka.security_protocol or source.bootstrap_servers."
            )

    def _authenticate(self, channel: socket.socket, talk: KafkaProtocol, versions: BrokerVersionData) -> None:
        mechanism = self._mechanism()
        while not mechanism.is_done():
            answer = _ask(channel, talk, SaslAuthenticateRequest(mechanism.auth_bytes()), versions)
            if answer.error_code:
                raise UserError(refused_credentials(self._where, self.properties))
            mechanism.receive(answer.auth_bytes)

    def _mechanism(self) -> Any:
        try:
            return get_sasl_mechanism(self.properties["sasl_mechanism"])(host=self.host, **self.properties)
        except Exception as error:
            if self.properties["sasl_mechanism"] != "GSSAPI":
                raise
            reason = " ".join(str(error).split())
            raise UserError(
                f"Kerberos gives no ticket for {self._server} ({reason}): run `kinit`, or correct kafka.keytab_file, "
                "kafka.username or kafka.kerberos_service."
            ) from None


def refused_credentials(where: str, properties: Mapping[str, Any]) -> str:
    """Return what to do about a failed authentication."""
    return (
        f"Kafka at {where} refuses the credentials of {client_name(properties)} ({properties.get('sasl_mechanism')}): "
        "correct kafka.username, its password or kafka.sasl_mechanism."
    )


def client_name(properties: Mapping[str, Any]) -> str:
    """Return who the client is for Kafka, for a sentence."""
    user = properties.get("sasl_plain_username")
    return f"the user {user}" if user else "this client"


def _ask(channel: socket.socket, talk: KafkaProtocol, request: Any, versions: BrokerVersionData | None = None) -> Any:
    if versions is not None:
        request.API_VERSION = versions.api_version(request)
    talk.send_request(request)
    channel.sendall(talk.send_bytes())
    deadline, received = time.monotonic() + _ANSWER_SECONDS_MAX, 0
    while data := channel.recv(65_536):
        for _, response in talk.receive_bytes(data):
            return response
        received += len(data)
        if received > FRAME_BYTES or time.monotonic() > deadline:  # the socket's timeout is for each read
            raise TimeoutError
    raise ConnectionResetError


def _addresses(servers: str) -> list[tuple[str, int, int]]:
    try:
        return list(collect_hosts(servers, randomize=False))
    except ValueError:
        raise UserError(f"The servers {servers!r} are not host:port: correct source.bootstrap_servers.") from None


def _tls_context(properties: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the context that the client will make of the same properties; None without TLS."""
    if not str(properties.get("security_protocol", "")).endswith("SSL"):
        return None
    defaults = KafkaSSLTransport.DEFAULT_CONFIG
    files = (properties.get(name) for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"))
    try:
        context: ssl.SSLContext = KafkaSSLTransport._build_ssl_context(  # noqa: SLF001  the client's own
            defaults | {name: value for name, value in properties.items() if name in defaults}
        )
    except (ssl.SSLError, OSError) as error:
        raise UserError(
            f"The certificates or the key in {', '.join(filter(None, files))} can't be used "
            f"({getattr(error, 'reason', None) or error}): correct kafka.ca_file, kafka.certificate_file, "
            "kafka.key_file or the key's password."
        ) from None
    return context
