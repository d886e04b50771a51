"""The hook in a real broker that pops: what the broker answers, with the handles that it makes."""

import pytest

from rebalance_model.observe import events
from tests.support import hooked
from tests.support.hook_process import after_a_tick, losses, of_kind

pytestmark = pytest.mark.live
CONF = "timerWheelEnable=true\nautoCreateSubscriptionGroup=false"
"""Without the timer each POP is refused; with the default anybody's POP creates its group."""
SENT = 6


def popped(client, group, **more):
    """Pop what is in queue 0; return the handle of a message by its offset."""
    answer = client.ask(hooked.POP, hooked.pop(group, 0, **more))
    assert answer.code == 0, answer
    head = answer.fields

    def handle(offset, start=0):
        parts = (start, head["popTime"], head["invisibleTime"], head["reviveQid"], 0, hooked.NAME, 0, offset)
        return " ".join(map(str, parts))

    return int(head["popTime"]), handle


def test_what_a_real_broker_pops_and_acknowledges_is_reported(tmp_path):
    spool = tmp_path / "spool"
    with (
        hooked.broker(tmp_path, spool=spool, conf=CONF) as broker,
        hooked.Client(broker.address) as client,
    ):
        client.make("Orders", "pops", "in-order", queues=1)
        client.make("DefaultHeartBeatSyncerTopic", queues=1)
        for _ in range(SENT):
            assert client.ask(hooked.SEND, hooked.send(0), b"x").code == 0
        pop_time, handle = popped(client, "pops")
        for offset in range(SENT - 1):
            assert client.ask(hooked.ACK, hooked.ack("pops", 0, offset, handle=handle(offset))).code == 0
        changes = hooked.ack("pops", 0, SENT - 1, handle=handle(SENT - 1), invisibleTime=30_000)
        assert client.ask(hooked.CHANGE_INVISIBLE, changes).code == 0
        in_order_time, in_order = popped(client, "in-order", order="true")
        receipt = {"rq": 999, "pt": in_order_time, "it": 20_000}
        body = {"brokerName": hooked.NAME, "acks": [hooked.receipt("in-order", 0, (1 << SENT) - 1, **receipt)]}
        assert client.ask(hooked.BATCH_ACK, body=body).code == 0
        assert in_order(0).split()[3] == "999"
        assert client.ask(hooked.ACK, hooked.ack("pops", 0, 10**9, handle=handle(10**9))).code == 208
        assert client.ask(hooked.ACK, hooked.ack("pops", 7, 1, handle=handle(1))).code != 0  # the topic has one queue
        assert client.ask(hooked.POP, hooked.pop("nobody", 0)).code == 26
        beat = hooked.short(hooked.send(0, topic="DefaultHeartBeatSyncerTopic"))
        assert client.ask(hooked.SEND_V2, beat, hooked.proxy_heartbeat("c@1", "pops")).code == 0
        hook_events = after_a_tick(spool)

    assert hooked.is_whole(hook_events)
    assert losses(hook_events) == {}
    acks = [one for one in of_kind(hook_events, events.AckMessage) if one.code == 0]
    mine = [one for one in acks if one.group == "pops"]
    acked = {offset for one in mine for first, last in one.ranges for offset in range(first, last + 1)}
    assert acked == set(range(SENT - 1))
    assert {(one.pop_time_min, one.pop_time_max, one.invisible_ms, one.order) for one in mine} == {
        (pop_time, pop_time, 20_000, False)
    }
    assert [(one.ranges, one.order, one.pop_time_max) for one in acks if one.group == "in-order"] == [
        (((0, SENT - 1),), True, in_order_time)
    ]
    (change,) = of_kind(hook_events, events.ChangeMessageInvisibletime)
    assert (change.offset, change.pop_time, change.invisible_ms, change.changed_ms) == (
        SENT - 1, pop_time, 20_000, 30_000,
    )  # fmt: skip
    pops = {(pop.group, pop.order): pop.code for pop in of_kind(hook_events, events.PopMessage)}
    assert pops.keys() == {("pops", False), ("in-order", True), ("nobody", False)}
    assert pops["nobody", False] == 26
    assert [one.client_id for one in of_kind(hook_events, events.ProxyHeartBeat)] == ["c@1"]
    assert {one.code for one in of_kind(hook_events, events.AckMessage) if one.queue_id == 7} == {13}
