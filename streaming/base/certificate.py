"""Certificate and key of a section with TLS, and why client and server refuse each other in a handshake."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from streaming.base.errors import SettingsError, first_line
from streaming.base.secrets import secret_of, text_of
from streaming.base.sections.section import Certified

_NOT_YET_VALID, _EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64
"""OpenSSL's X509_V_ERR_…"""


def untrusted(server: str, section: str, addresses: str, error: ssl.SSLCertVerificationError) -> str:
    """Return why a server's certificate is not accepted, and what to do.

    ``section`` is the one with its `TlsClient`, ``addresses`` the setting that has its address.
    """
    certificate = f"The certificate of {server}"
    if error.verify_code == _EXPIRED:
        return f"{certificate} has expired: renew it there."
    if error.verify_code == _NOT_YET_VALID:
        return f"{certificate} is not valid yet: correct this machine's clock."
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"{certificate} is for another host: use its name in {addresses}, or set {section}.check_hostname to false."
        )
    return (
        f"{certificate} is not trusted ({error.verify_message}): set {section}.ca_file to the certificate of the "
        "authority that signed it."
    )


def is_alert(reason: str | None) -> bool:
    """Return whether OpenSSL's reason is an alert that the server sent."""
    return "ALERT" in (reason or "")


def refused_certificate(server: str, section: str, certificate_file: str | None, reason: str) -> str:
    """Return what to do about a TLS alert of a server, which nearly always is about the client's certificate.

    ``section`` is the one with its `TlsClient`, ``reason`` OpenSSL's.
    """
    alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
    if certificate_file:
        return (
            f"{server} refuses the client certificate {certificate_file} ({alert}): renew it if it has expired, or let "
            "the broker trust the authority that signed it."
        )
    return (
        f"{server} refuses the TLS connection ({alert}): set {section}.certificate_file and {section}.key_file if it "
        "asks for a client certificate."
    )


@dataclass(frozen=True)
class Certificate:
    """A certificate with its chain, and its key; both PEM."""

    chain: str
    key: str = field(repr=False)
    """Decrypted, PKCS #8: Kafka's Java client takes no other form, and Java 17 can't decrypt openssl's (PBES2)."""
    key_password: str = field(repr=False)
    """Password of the key's file; empty if that is not encrypted."""


def certificate_of(section: str, tls: Certified) -> Certificate | None:
    """Return the certificate of the section of this name; None if it has none.

    Raises:
        SettingsError: a file can't be read or used, or the certificate has expired.
    """
    if bool(tls.certificate_file) != bool(tls.key_file):
        raise SettingsError(f"{section}.certificate_file and {section}.key_file belong together: set both, or neither.")
    if not tls.certificate_file:
        return None
    chain = text_of(f"{section}.certificate_file", tls.certificate_file)
    _check_validity(section, tls.certificate_file, chain)
    key_password = secret_of(f"{section}.key_password", tls.key_password, tls.key_password_file)
    key = _decrypted(section, tls.key_file, text_of(f"{section}.key_file", tls.key_file), key_password)
    return Certificate(chain, key, key_password)


def load_certificate(context: ssl.SSLContext, section: str, tls: Certified) -> None:
    """Let a context show the certificate of the section of this name, if it has one.

    Raises:
        SettingsError: as from `certificate_of`; or the key is another certificate's.
    """
    certificate = certificate_of(section, tls)
    if certificate is None:
        return
    chain, key = (Path(name).expanduser() for name in (tls.certificate_file, tls.key_file))
    try:
        context.load_cert_chain(chain, key, certificate.key_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or first_line(error))
        if "MISMATCH" in reason:
            said = f"The key {tls.key_file} is not that of the certificate {tls.certificate_file}"
        else:
            refused = reason.replace("_", " ").lower()
            said = f"OpenSSL does not accept {tls.certificate_file} with {tls.key_file} ({refused})"
        raise SettingsError(f"{said}: correct {section}.certificate_file and {section}.key_file.") from None


def _check_validity(section: str, file: str, chain: str) -> None:
    try:
        ends = x509.load_pem_x509_certificate(chain.encode()).not_valid_after_utc
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(f"The file {file} has no PEM certificate: correct {section}.certificate_file.") from None
    if ends < datetime.now(UTC):
        raise SettingsError(f"The certificate {file} expired on {ends:%Y-%m-%d}: renew it.")


def _decrypted(section: str, file: str, pem: str, password: str) -> str:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password.encode() if "ENCRYPTED" in pem else None)
    except UnsupportedAlgorithm:
        raise SettingsError(
            f"The key {file} is of a kind or curve that is not supported: issue certificate and key again, with RSA, "
            f"P-256 or P-384, or correct {section}.key_file."
        ) from None
    except (TypeError, ValueError):
        raise SettingsError(
            f"The key {file} can't be used, or its password is wrong: correct {section}.key_file, or set "
            f"REBALANCE_WATCH_{section.upper()}__KEY_PASSWORD or {section}.key_password_file."
        ) from None
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
