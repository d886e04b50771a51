"""The users of a secured broker and what they may do (ACL 2.0), set by its administrator."""

from collections.abc import Sequence
from pathlib import Path

import jpype

from streaming.lab.control import NewUser
from streaming.lab.jvm import JavaObject

_BODY = "org.apache.rocketmq.remoting.protocol.body"
_ANY_ADDRESS = None


def create_users(admin: JavaObject, broker: str, users: Sequence[NewUser]) -> None:
    """Create the users that the broker does not know, and grant each its rights.

    Args:
        admin: a started DefaultMQAdminExt of the administrator.
        broker: the broker's address.
        users: the users; a broker keeps them in its store.
    """
    if not users:
        return
    known = {str(user.getUsername()) for user in admin.listUser(broker, "")}
    for user in users:
        if user.name in known:
            continue
        admin.createUser(broker, user.name, Path(user.password_file).read_text(), "Normal")
        rights = jpype.JClass(f"{_BODY}.AclInfo").of(
            f"User:{user.name}", _strings(user.resources), _strings(user.actions), _ANY_ADDRESS, "Allow"
        )
        admin.createAcl(broker, rights)


def _strings(texts: Sequence[str]) -> JavaObject:
    return jpype.JClass("java.util.Arrays").asList(*texts)
