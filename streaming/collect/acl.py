"""RocketMQ's ACL 1.0: access key and signature of a request (org.apache.rocketmq.acl.common.AclClientRPCHook)."""

import base64
import hashlib
import hmac
from collections.abc import Mapping

from streaming.base.settings import Acl


def signed(fields: Mapping[str, str], acl: Acl) -> dict[str, str]:
    """Return the header fields with AccessKey, SecurityToken (if configured) and Signature added.

    The signature is HMAC-SHA1 over the values of all other fields in the order of their names (AclUtils
    .combineRequestContent); the body would follow, but the collector's requests have none. Without an access key
    (a cluster without ACL) nothing is added.
    """
    if not acl.access_key:
        return dict(fields)
    known = {**fields, "AccessKey": acl.access_key}
    if acl.security_token:
        known["SecurityToken"] = acl.security_token
    content = "".join(value for _, value in sorted(known.items()))
    digest = hmac.new(acl.secret_key.encode(), content.encode(), hashlib.sha1).digest()
    return {**known, "Signature": base64.b64encode(digest).decode()}
