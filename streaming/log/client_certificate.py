"""The client's certificate and key of `[kafka]`, as the Java client takes them.

Kafka's Java client takes keys in PKCS #8 alone, and its Java 17 can't decrypt what openssl encrypts (PBES2): so the key
is handed to it decrypted, as a secret.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from streaming.base.errors import UserError
from streaming.base.settings import Kafka
from streaming.log.secrets import secret_of, text_of


@dataclass(frozen=True)
class ClientCertificate:
    """A certificate with its chain, and its key; both PEM."""

    chain: str
    key: str = field(repr=False)
    """Decrypted, PKCS #8."""
    key_password: str = field(repr=False)
    """Of the key's file; empty if that is not encrypted."""


def client_certificate(kafka: Kafka) -> ClientCertificate | None:
    """Return the client's certificate; None if the settings have none.

    Raises:
        UserError: a file can't be read or used, or the certificate has expired.
    """
    if bool(kafka.certificate_file) != bool(kafka.key_file):
        raise UserError("kafka.certificate_file and kafka.key_file belong together: set both, or neither.")
    if not kafka.certificate_file:
        return None
    chain = text_of("kafka.certificate_file", kafka.certificate_file)
    _check_validity(kafka.certificate_file, chain)
    key_password = secret_of("kafka.key_password", kafka.key_password, kafka.key_password_file)
    key = _decrypted(kafka.key_file, text_of("kafka.key_file", kafka.key_file), key_password)
    return ClientCertificate(chain, key, key_password)


def _check_validity(file: str, chain: str) -> None:
    try:
        ends = x509.load_pem_x509_certificate(chain.encode()).not_valid_after_utc
    except ValueError:
        raise UserError(f"The file {file} has no PEM certificate: correct kafka.certificate_file.") from None
    if ends < datetime.now(UTC):
        raise UserError(f"The client certificate {file} expired on {ends:%Y-%m-%d}: renew it.")


def _decrypted(file: str, pem: str, password: str) -> str:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password.encode() if "ENCRYPTED" in pem else None)
    except (TypeError, ValueError):
        raise UserError(
            f"The key {file} can't be used, or its password is wrong: correct kafka.key_file, or set "
            "REBALANCE_WATCH_KAFKA__KEY_PASSWORD or kafka.key_password_file."
        ) from None
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
