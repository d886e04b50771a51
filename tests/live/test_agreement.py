"""A difference that the live tests explain is explained no longer than its reason lasts."""

from types import SimpleNamespace

from rebalance_model.observe import events
from tests.live.agreement import RACED, Judge
from tests.live.histories import History

BROKER = {"cluster": "lab", "broker": "broker-a"}
OF_GROUP = BROKER | {"group": "audit-group"}
MODES = {
    "consume_type": "CONSUME_PASSIVELY",
    "message_model": "CLUSTERING",
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
}
FIRST, SECOND = 580, 583
"""The versions of the subscriptions of two clients that start at once."""


def test_a_subscription_that_lost_a_race_is_explained_until_a_heartbeat():
    hook = [
        events.BrokerStatus(time=1_000, boot_time=900, source="hook", source_id="hook@1", seq=1, **BROKER),
        *(heartbeat(2_000 + at, 1 + at, f"client-{at}", version) for at, version in ((1, FIRST), (2, SECOND))),
        heartbeat(32_002, 4, "client-2", SECOND),
        *(
            events.Tick(time=time, source="hook", source_id="hook@1", seq=4 + time, **BROKER)
            for time in (33_000, 40_000)
        ),
    ]

    lost, after = answered(hook, 5_000, FIRST), answered(hook, 34_000, FIRST)
    never_sent, newest = answered(hook, 5_000, FIRST - 1), answered(hook, 5_000, SECOND)

    assert [[one.name for one in verdict.differences] for verdict in (lost, after, never_sent, newest)] == [
        [RACED],
        [None],
        [None],
        [],
    ]


def heartbeat(time, seq, client_id, version):
    return events.HeartBeat(
        time=time,
        source="hook",
        source_id="hook@1",
        seq=seq,
        client_id=client_id,
        channel=channel(client_id),
        subscriptions=(subscription(version),),
        **MODES,
        **OF_GROUP,
    )


def channel(client_id):
    return f"127.0.0.1:{40_000 + int(client_id[-1])}"


def subscription(version):
    return events.Subscription(topic="Audit", sub_string="*", sub_version=version)


def answered(hook, time, version):
    """Judge the state rebuilt from a hook's events by one answer."""
    answer = events.ConsumerConnection(
        time=time,
        asked=time - 2,
        source="poll",
        source_id="poll@1",
        seq=1,
        connections=tuple(
            events.Connection(client_id=one, channel=channel(one), language="JAVA", version=493)
            for one in ("client-1", "client-2")
        ),
        subscriptions=(subscription(version),),
        **MODES,
        **OF_GROUP,
    )
    return Judge(SimpleNamespace(hook=hook, poll=[answer], lists=[], faults=[]), History(hook)).verdict
