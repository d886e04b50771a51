"""The faults of consumers that pop; the groups are all in one lab."""

from tests.instruments.faults.case import BY_HOOK, EVERY, Case, Group, due

GIVEN_BACK = frozenset({"POP_RETURNED"})
"""Allowed where a client that pops goes without a word: what it had popped comes back, once."""
ANY = {"of_client": False}
JOIN = Case("join", lasts=40, heal=40)


def _gone(fault):
    """A gRPC client that goes without a word; its proxy lists it, and renews its messages, until 120 s later."""
    gone = (due("PROXY_CLIENT_GONE", by=BY_HOOK, within=60),)
    # by polls the queue that it held stands alone
    return Case(fault, lasts=75, heal=140, due=gone, may=GIVEN_BACK | {"ORDERED_QUEUE_STUCK POP_BLOCKED"})


def _all_gone(*more):
    """Every client leaves; in a group in order its queues are stuck, too."""
    return Case("all-gone", lasts=110, heal=60, due=(due("NO_ACTIVE_CLIENTS_WITH_LAG", within=100, **ANY), *more))


def _returned(fault, sub_cause, lasts=75):
    """Messages that come back; by polls it is not seen why, and only after two minutes."""
    returned = due("POP_RETURNED", sub_cause, by=BY_HOOK, within=70, **ANY)
    return Case(fault, lasts=lasts, heal=100, due=(returned,), may=GIVEN_BACK)


def _blocked(fault, lasts=100):
    stuck = due("ORDERED_QUEUE_STUCK", "POP_BLOCKED", by=EVERY, within=95, **ANY)
    return Case(fault, lasts=lasts, heal=60, due=(stuck,))


POP = {
    "pop": Group(
        False,
        4,
        2,
        (
            JOIN,
            _returned("poison", "REJECTED", lasts=100),
            _returned("slow", "EXPIRED"),
            Case(
                "hang",
                lasts=130,
                heal=120,
                due=(due("POP_NOT_ACKING", by=BY_HOOK, within=90), due("POP_STOPPED", "FULL", within=125)),
                # what it has popped comes back before a minute has shown that it acknowledges nothing
                may=GIVEN_BACK | {"POP_STOPPED"},
            ),
            _all_gone(),
        ),
        "remoting",
    ),
    "pops": Group(
        False,
        4,
        2,
        (
            # no call shows a hook that a connection was closed: by the hook alone it is as a frozen one
            Case("kill", lasts=60, heal=60, may=GIVEN_BACK | {"POP_STOPPED", "STALE_HEARTBEAT"}),
            Case(
                "freeze",
                lasts=85,
                heal=80,
                due=(
                    due("CLIENT_UNRESPONSIVE", within=50),
                    due("POP_STOPPED", by=BY_HOOK, within=50),
                    due("STALE_HEARTBEAT", by=BY_HOOK, within=80),
                ),
                may=GIVEN_BACK,  # a POP that was parked for it took messages along
            ),
            Case("pull-among-pops", lasts=80, heal=110, due=(due("MIXED_REQUEST_MODE", by=BY_HOOK, within=75, **ANY),)),
        ),
        "remoting",
    ),
    "fifo": Group(
        True,
        4,
        2,
        (
            JOIN,
            _blocked("poison"),
            _blocked("hang"),
            _gone("kill"),
            _all_gone(due("ORDERED_QUEUE_STUCK", "POP_BLOCKED", within=100, **ANY)),
        ),
        "grpc-push",
    ),
    "simple": Group(
        False,
        4,
        2,
        (
            Case("leave", lasts=40, heal=40),
            _returned("no-ack", "EXPIRED"),
            _returned("slow", "EXPIRED"),
            _gone("freeze"),
            _all_gone(),
        ),
        "grpc-simple",
    ),
    "push": Group(
        False,
        4,
        2,
        (
            _returned("poison", "REJECTED", lasts=100),
            Case(
                "hang",
                lasts=110,
                heal=100,
                due=(due("POP_HELD_LONG", by=BY_HOOK, within=95, **ANY),),
                may=GIVEN_BACK,
            ),
            _gone("kill"),
        ),
        "grpc-push",
    ),
}
"""The faults of consumers that pop; the groups are all in one lab."""


def pop_healthy(times):
    """Return groups that pop with joins, leaves and short freezes only, rarely enough to be no storm."""
    # a POP that was parked at the broker for a client that leaves may take a message along: an info, once
    calm = (
        Case("join", lasts=50, heal=80, may=GIVEN_BACK),
        Case("leave", lasts=40, heal=90, may=GIVEN_BACK),
        Case("freeze", lasts=4, heal=90),
        Case("join", lasts=30, heal=80, may=GIVEN_BACK),
        Case("leave", lasts=15, heal=100, may=GIVEN_BACK),
    ) * times
    return {
        key: Group(group.ordered, group.queues, group.consumers, calm[turn:] + calm[:turn], group.client)
        for turn, (key, group) in enumerate(POP.items())
        if key != "pops"
    }
