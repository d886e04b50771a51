"""A certificate authority for servers and clients of a lab: PEM files, as Kafka's Java and Python's ssl read them."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streaming.base.files import write_private

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
