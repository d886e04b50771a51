"""The `[rocketmq]` settings as the client needs them: a TLS context, and the credentials that sign requests.

Requests are signed alike in ACL 1.0 and 2.0 (org.apache.rocketmq.acl.common.AclClientRPCHook).
"""

import base64
import hashlib
import hmac
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.base.certificate import load_certificate
from streaming.base.errors import SettingsError
from streaming.base.secrets import secret_of, text_of
from streaming.base.sections.collector import RocketMq


@dataclass(frozen=True)
class Credentials:
    """An access key with its secret key (ACL 1.0), or a user name with its password (ACL 2.0)."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class Security:
    """The security of a client's connection; by default none."""

    tls: ssl.SSLContext | None = None
    certificate_file: str = ""
    """The client's certificate, which the TLS context has."""
    credentials: Credentials | None = None


def security_of(rocketmq: RocketMq) -> Security:
    """Return how the client connects to name servers and brokers.

    Raises:
        SettingsError: the settings do not fit together, or a file can't be read.
    """
    tls = _tls_context(rocketmq) if rocketmq.tls else None
    return Security(tls, rocketmq.certificate_file, _credentials(rocketmq))


def _tls_context(rocketmq: RocketMq) -> ssl.SSLContext:
    authorities = text_of("rocketmq.ca_file", rocketmq.ca_file) if rocketmq.ca_file else None
    try:
        context = ssl.create_default_context(cadata=authorities)
    except ssl.SSLError:
        raise SettingsError(f"The file {rocketmq.ca_file} has no PEM certificate: correct rocketmq.ca_file.") from None
    context.check_hostname = rocketmq.check_hostname
    load_certificate(context, "rocketmq", rocketmq)
    return context


def _credentials(rocketmq: RocketMq) -> Credentials | None:
    secret_key = secret_of("rocketmq.secret_key", rocketmq.secret_key, rocketmq.secret_key_file)
    if not rocketmq.access_key:
        if secret_key:
            raise SettingsError("The secret key belongs to an access key or a user: set rocketmq.access_key.")
        return None
    if not secret_key:
        raise SettingsError(
            f"The access key {rocketmq.access_key} needs its secret key: set REBALANCE_WATCH_ROCKETMQ__SECRET_KEY or "
            "rocketmq.secret_key_file."
        )
    token = secret_of("rocketmq.security_token", rocketmq.security_token, rocketmq.security_token_file)
    return Credentials(rocketmq.access_key, secret_key, token)


def signed(fields: Mapping[str, str], credentials: Credentials | None) -> dict[str, str]:
    """Return the header fields with AccessKey, SecurityToken (if configured) and Signature added.

    The signature is HMAC-SHA1 over the values of all other fields in the order of their names (AclUtils
    .combineRequestContent); the body would follow, but the collector's requests have none. Without credentials
    (a cluster without ACL) nothing is added.
    """
    if credentials is None:
        return dict(fields)
    header = {**fields, "AccessKey": credentials.access_key}
    if credentials.security_token:
        header["SecurityToken"] = credentials.security_token
    content = "".join(value for _, value in sorted(header.items()))
    digest = hmac.new(credentials.secret_key.encode(), content.encode(), hashlib.sha1).digest()
    return {**header, "Signature": base64.b64encode(digest).decode()}
