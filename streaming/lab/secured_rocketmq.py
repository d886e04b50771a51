"""RocketMQ servers of a lab that accept only TLS, and brokers that accept only users with rights (ACL 2.0)."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from streaming.base.files import write_private
from streaming.lab.certificates import Authority

ADMINISTRATOR = "admin"
"""The user of the brokers themselves, who may do everything."""
_AUTH = "org.apache.rocketmq.auth"

_TLS_CONF = """\
tls.test.mode.enable=false
tls.server.certPath={certificate}
tls.server.keyPath={key}
tls.client.authServer=true
tls.client.trustCertPath={authority}
"""

_CLIENT_CERTIFICATES = """\
tls.server.need.client.auth=require
tls.server.authClient=true
tls.server.trustCertPath={authority}
"""

_BROKER_CONF = """\
authenticationEnabled=true
authenticationProvider={auth}.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider={auth}.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={user}
innerClientAuthenticationCredentials={credentials}
authorizationEnabled=true
authorizationProvider={auth}.authorization.provider.DefaultAuthorizationProvider
authorizationMetadataProvider={auth}.authorization.provider.LocalAuthorizationMetadataProvider
"""


@dataclass(frozen=True)
class SecuredRocketMq:
    """The security of name servers and brokers, which share a certificate."""

    authority: Authority
    tls_config: Path
    """The file for `tls.config.file`, of servers and of Java clients."""
    password: str = field(repr=False)
    """The administrator's."""
    certificate: str = "rocketmq"
    """The name of the servers' certificate; it is issued at its first use."""
    client_certificates: bool = False
    """Whether clients need a certificate."""

    def java_options(self) -> list[str]:
        """Return the system properties of a server; write the file to which they refer."""
        certificate = self.authority.certificate(self.certificate)
        text = _TLS_CONF + (_CLIENT_CERTIFICATES if self.client_certificates else "")
        files = {"certificate": certificate.certificate_file, "key": certificate.key_file}
        self.tls_config.write_text(text.format(authority=self.authority.ca_file, **files))
        return [f"-Dtls.config.file={self.tls_config}", "-Dtls.server.mode=enforcing"]

    def write_broker_conf(self, file: Path, text: str) -> Path:
        """Write a broker's configuration with what is about security added; only its owner can read it."""
        user = json.dumps({"username": ADMINISTRATOR, "password": self.password})
        credentials = json.dumps({"accessKey": ADMINISTRATOR, "secretKey": self.password})
        return write_private(file, text + _BROKER_CONF.format(auth=_AUTH, user=user, credentials=credentials))
