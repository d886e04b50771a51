"""A certificate authority for servers and clients of a lab: PEM files, as Kafka's Java and Python's ssl read them."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streaming.base.files import write_private

_VALID_DAYS = 30


@dataclass(frozen=True)
class Certificate:
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
        """Create a new authority in the folder, which is created, too."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("lab authority")
        self.ca_file = folder / "ca.pem"
        builder = _builder(self._name, self._name, self._key.public_key(), timedelta(days=_VALID_DAYS))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca_file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, valid: timedelta = timedelta(days=_VALID_DAYS), password: str = "") -> Certificate:
        """Issue a certificate for the loopback's names, with the name as its common name.

        Args:
            name: the common name; the files are named after it.
            valid: how long from now on; negative: it has expired.
            password: encrypts the key; empty: the key is not encrypted.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        builder = _builder(_name(name), self._name, key.public_key(), valid).add_extension(hosts, critical=False)
        certificate = self._folder / f"{name}.pem"
        certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return Certificate(certificate, write_private(self._folder / f"{name}.key", pem.decode()))


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


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
