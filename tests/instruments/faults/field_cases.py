"""Faults of public reports (`field`), each in a group of its own, at the same time."""

from rebalance_model.observe.group.deleted_group import GROUP_DELETED
from tests.instruments.faults.case import BY_HOOK, EVERY, HOOK, POLL, Case, Group, due

NO_MATTER_WHO = {"of_client": False}


def _refused(fault: str, by_hook: str, by_polls: str) -> Group:
    """A concurrent group whose pulls a broker refuses; the sub-causes of both incidents."""
    reported = (
        due("PULL_REFUSED", by_hook, by=BY_HOOK, within=90),
        due("QUEUE_STALLED", by_polls, by=(POLL,), within=140),
    )
    return Group(False, 2, 1, (Case(fault, lasts=150, heal=60, due=reported),))


FIELD = {
    "switched": _refused("consume-disabled", "NO_PERMISSION", "NOTHING_RECEIVED"),
    "unread": _refused("write-only", "TOPIC_NOT_READABLE", "TOPIC_NOT_READABLE"),
    "absent": Group(
        False,
        2,
        0,
        (
            Case(
                "group-not-created",
                lasts=150,
                heal=100,
                due=(
                    due("STALE_HEARTBEAT", "GROUP_NOT_CREATED", by=BY_HOOK, within=60),
                    due("STALE_HEARTBEAT", "GROUP_NOT_CREATED", by=(POLL,), within=100),
                ),
            ),
        ),
    ),
    "cast": Group(
        False,
        2,
        2,
        (Case("broadcast", lasts=150, heal=100, due=(due("MIXED_MEMBERS", "MESSAGE_MODEL", by=EVERY, within=60),)),),
    ),
    "first": Group(
        True,
        2,
        0,
        (
            Case(
                "first-message",
                lasts=120,
                heal=60,
                due=(due("ORDERED_QUEUE_STUCK", "LISTENER_HUNG", "LISTENER_BLOCKED", by=EVERY, within=110),),
            ),
        ),
    ),
    "again": Group(
        False,
        2,
        1,
        (
            Case(
                "topic-recreated",
                lasts=0,
                heal=150,
                stays=frozenset({"OFFSET_REGRESSION"}),  # NEWEST_FELL is shown for ten minutes
                due=(
                    due("PULL_REFUSED", "TOPIC_NOT_EXIST", by=BY_HOOK, within=90),
                    due("OFFSET_REGRESSION", "NEWEST_FELL", by=EVERY, within=180),
                ),
            ),
        ),
    ),
    "deleted": Group(
        True,
        2,
        1,
        (
            Case(
                "group-deleted",
                lasts=120,  # a minute after the brokers have answered that they do not have the group
                heal=60,
                due=(
                    due("NO_ACTIVE_CLIENTS_WITH_LAG", within=100, resolution=GROUP_DELETED, **NO_MATTER_WHO),
                    due("ORDERED_QUEUE_STUCK", "UNASSIGNED", within=100, resolution=GROUP_DELETED, **NO_MATTER_WHO),
                    due("ORDERED_QUEUE_STUCK", "UNASSIGNED", by=(HOOK,), within=100, **NO_MATTER_WHO),
                ),
            ),
        ),
    ),
    "left": Group(
        False,
        2,
        1,
        (
            Case(
                "topic-unsubscribed",
                lasts=150,
                heal=100,
                # a hook sees no message that nobody has pulled
                due=(due("MESSAGES_STRANDED", "NOT_SUBSCRIBED", within=140, **NO_MATTER_WHO),),
            ),
        ),
    ),
}
"""Faults of public reports (`field`), each in a group of its own, at the same time."""
