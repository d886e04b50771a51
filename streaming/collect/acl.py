"""Access key and signature of a request, alike in ACL 1.0 and 2.0 (org.apache.rocketmq.acl.common.AclClientRPCHook)."""

import base64
import hashlib
import hmac
from collections.abc import Mapping

from streaming.collect.security import Credentials


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
