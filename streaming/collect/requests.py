"""The requests that the collector may send: an allow-list of codes that change nothing in a broker or client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum


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
