"""The users of a secured Kafka and what they may do, set by its administrator."""

import time
from collections.abc import Callable, Mapping

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    UserScramCredentialUpsertion,
)

from streaming.base.errors import UserError
from streaming.log.kafka_properties import KafkaConnection, client_of

_SETTLED_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.05


def set_passwords(
    administrator: KafkaConnection, passwords: Mapping[str, str], mechanism: str = "SCRAM-SHA-512"
) -> None:
    """Give users their passwords for a SCRAM mechanism; return when the node knows them."""
    upsertions = [UserScramCredentialUpsertion(name, mechanism, password) for name, password in passwords.items()]
    with client_of(KafkaAdminClient, administrator) as admin:
        admin.alter_user_scram_credentials(upsertions)
        _wait(lambda: passwords.keys() <= admin.describe_user_scram_credentials().keys())


def allow(
    administrator: KafkaConnection,
    principal: str,
    name: str,
    *operations: ACLOperation,
    kind: ResourceType = ResourceType.TOPIC,
) -> None:
    """Allow a principal, such as ``User:name``, operations on a topic or a group; return when the node knows it.

    Args:
        administrator: who may grant it.
        principal: who is allowed.
        name: of the topic or group; ``*``: all of them.
        operations: what is allowed.
        kind: whether it is a topic or a group.
    """
    pattern = ResourcePattern(kind, name)
    rights = [ACL(principal, "*", operation, ACLPermissionType.ALLOW, pattern) for operation in operations]
    of_principal = ACLFilter(principal, "*", ACLOperation.ANY, ACLPermissionType.ALLOW, pattern)
    with client_of(KafkaAdminClient, administrator) as admin:
        admin.create_acls(rights)
        _wait(lambda: all(right in admin.describe_acls(of_principal)[0] for right in rights))


def _wait(is_settled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SETTLED_SECONDS_MAX
    while not is_settled():
        if time.monotonic() > deadline:
            raise UserError(f"Kafka did not take over its users within {_SETTLED_SECONDS_MAX:.0f} s: see its log.")
        time.sleep(_LOOK_SECONDS)
