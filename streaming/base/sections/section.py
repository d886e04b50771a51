"""Base of every section of the settings, and TLS of either side of a connection."""

from pydantic import BaseModel, ConfigDict, SecretStr


class Section(BaseModel):
    """Settings that are checked: unknown ones are refused, and none changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Certified(Section):
    """The certificate that one side of a TLS connection shows to the other; files are PEM."""

    certificate_file: str
    key_file: str
    key_password: SecretStr
    key_password_file: str


class TlsClient(Certified):
    """The files that a client needs for TLS, as PEM."""

    ca_file: str
    check_hostname: bool
