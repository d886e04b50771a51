"""The requests that the collector may send: an allow-list of codes that change nothing in a broker or client.

A server with access control refuses some: ACL 2.0 (RocketMQ 5.3 and later) answers NO_PERMISSION; ACL 1.0 answers
SYSTEM_ERROR with the name of its exception. Neither signs a time, so a wrong clock is no reason for a refusal.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from streaming.collect.remoting import RemotingCommand
from streaming.collect.security import Credentials


class ReadCode(IntEnum):
    """The request codes that the collector sends (org.apache.rocketmq.remoting.protocol.RequestCode).

    Each is read-only. Some others only seem to be read-only: probing a lock (41) takes it, and a heartbeat (34) makes
    its sender a member.
    """

    GET_BROKER_RUNTIME_INFO = 28
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_CONSUME_STATS = 208
    QUERY_CONSUME_TIME_SPAN = 303
    GET_CONSUMER_RUNNING_INFO = 307


@dataclass(frozen=True, slots=True)
class Request:
    """A request: a code of the allow-list and its header fields; it has no body.

    The client sends nothing else, so no other code can be sent.

    Raises:
        ValueError: the code is not on the allow-list.
    """

    code: ReadCode
    fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ReadCode(self.code)


_NO_PERMISSION = 16  # ResponseCode
_ACL_1 = "AclException"
_UNKNOWN_KEY = re.compile(r"User:.* is not found|No acl config for|No PlainAccessResource for")
_WRONG_SIGNATURE = re.compile(r"check signature failed", re.IGNORECASE)
_UNSIGNED = re.compile(r"username cannot be null|No accessKey is configured")
_DISABLED = re.compile(r"User:.* is disabled")
_NO_RIGHT = re.compile(r"has no permission to access (\S+) from")


def refusal(address: str, request: Request, answer: RemotingCommand, credentials: Credentials | None) -> str | None:
    """Return why access control refused a request, and what to do; None if it is another error."""
    remark = answer.remark or ""
    if answer.code != _NO_PERMISSION and _ACL_1 not in remark:
        return None
    key = credentials.access_key if credentials else ""
    return f"RocketMQ at {address} {_reason(remark, key, request)}"


def _reason(remark: str, key: str, request: Request) -> str:
    asked = f"the request {request.code.name} ({request.code})"
    if _UNSIGNED.search(remark):
        return "accepts only signed requests: set rocketmq.access_key and its secret key."
    if _UNKNOWN_KEY.search(remark):
        return f"does not know the access key or user {key}: correct rocketmq.access_key, or create it there."
    if _WRONG_SIGNATURE.search(remark):
        return (
            f"refuses the signature of {key}: correct its secret key (REBALANCE_WATCH_ROCKETMQ__SECRET_KEY or "
            "rocketmq.secret_key_file)."
        )
    if _DISABLED.search(remark):
        return f"has disabled the user {key}: enable it with `mqadmin updateUser -u {key} -s enable`."
    if denied := _NO_RIGHT.search(remark):
        return (
            f"does not allow the user {key} {asked} on {denied[1]}: grant it with "
            f"`mqadmin createAcl -s User:{key} -r {denied[1]} -a Get -d Allow`."
        )
    return f"refuses {asked} ({remark}): give {key or 'this client'} the right to send it."
