"""Reports of the hook about popped messages and proxies' clients, and their cost."""

import json
import time

import pytest

from rebalance_model.observe import events
from tests.support import hooked
from tests.support.hook_limits import HOOK
from tests.support.hook_process import await_a_tick, commit, found_after, losses, of_kind, until

pytestmark = pytest.mark.xdist_group("hook jar")  # one JVM for most of them

SYNCER = "DefaultHeartBeatSyncerTopic"


def call(jvm, code, fields, *, answer=0, **more):
    jvm.call(code=code, fields=fields, answer=answer, **more)


def ack(jvm, *offsets, group="g", queue_id=0, **more):
    for offset in offsets:
        call(jvm, hooked.ACK, hooked.ack(group, queue_id, offset, **more))


def change(jvm, offset, *, group="g", to=30_000, **more):
    call(jvm, hooked.CHANGE_INVISIBLE, hooked.ack(group, 0, offset, invisibleTime=to, **more))


def batch(jvm, *receipts, **more):
    body = json.dumps({"brokerName": hooked.NAME, "acks": receipts})
    jvm.call(code=hooked.BATCH_ACK, body=body, answer=0, **more)


def beat(jvm, body, *, topic=SYNCER, answer=None, code=hooked.SEND_V2):
    fields = hooked.send(0, topic=topic)
    text = body if isinstance(body, str) else json.dumps(body)
    jvm.call(code=code, fields=fields if code == hooked.SEND else hooked.short(fields), body=text, answer=answer)


def offsets(hook_events):
    return sorted(pair for event in of_kind(hook_events, events.AckMessage) for pair in event.ranges)


def acked(hook_events):
    return sorted(offset for first, last in offsets(hook_events) for offset in range(first, last + 1))


# What is reported


def test_pops_are_summed_by_channel_queue_and_code(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    for _ in range(3):
        call(jvm, hooked.POP, hooked.pop("g", pollTime=15_000), answer=None)
    call(jvm, hooked.POP, hooked.pop("g", exp="a || b", invisibleTime=9), answer=None)
    call(jvm, hooked.POP, hooked.pop("g", 2, order="true"), answer=None)
    call(jvm, hooked.POP, hooked.pop("none"), answer=26)
    call(jvm, hooked.POP, hooked.pop("g"), answer=None, channel="192.0.2.2:8")
    hook_events = found_after(jvm, tmp_path)
    pops = of_kind(hook_events, events.PopMessage)
    mine = [pop for pop in pops if (pop.group, pop.channel, pop.queue_id) == ("g", "192.0.2.1:7", -1)]
    of_queue = [pop for pop in pops if pop.queue_id == 2]
    refused = [pop for pop in pops if pop.group == "none"]
    others = [pop for pop in pops if pop.channel == "192.0.2.2:8"]
    assert sum(pop.count for pop in mine) == 4
    assert (mine[0].topic, mine[0].code, mine[0].order) == ("Orders", None, False)
    assert (mine[-1].invisible_ms, mine[-1].filtered) == (9, True)
    assert [(pop.count, pop.order, pop.filtered, pop.poll_ms) for pop in of_queue] == [(1, True, False, 0)]
    assert [(pop.code, pop.invisible_ms) for pop in refused] == [(26, 20_000)]
    assert [pop.count for pop in others] == [1]
    assert hooked.is_whole(hook_events)
    assert losses(hook_events) == {}


def test_acks_are_ranges_of_offsets_with_the_times_of_their_pops(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    popped = hooked.POPPED
    for offset in (7, 5, 4, 9, 6, 9):
        ack(jvm, offset, handle=hooked.extra_info(0, offset, popped=popped + offset, invisible=60_000 + offset))
    ack(jvm, 20, handle=hooked.extra_info(0, 20, revive=999))
    call(jvm, hooked.ACK, hooked.ack("g", 0, 30), answer=208)
    hook_events = found_after(jvm, tmp_path)
    sums = {(one.order, one.code): one for one in of_kind(hook_events, events.AckMessage)}
    assert acked([one for one in of_kind(hook_events, events.AckMessage) if one.code == 0 and not one.order]) == [
        4,
        5,
        6,
        7,
        9,
    ]
    assert sums[True, 0].ranges == ((20, 20),)
    assert sums[False, 208].ranges == ((30, 30),)
    mine = [one for one in of_kind(hook_events, events.AckMessage) if one.code == 0 and not one.order]
    assert min(one.pop_time_min for one in mine) == popped + 4
    assert max(one.pop_time_max for one in mine) == popped + 9
    assert mine[-1].invisible_ms == 60_009
    assert hooked.is_whole(hook_events)


def test_acks_that_come_in_any_order_are_the_same_ranges(jvm, tmp_path):
    """Every second one forwards, then the others backwards: ranges are added, extended and joined."""
    jvm.start(spool=str(tmp_path))
    expected = [offset for offset in range(400) if offset % 50 < 47]
    for offset in expected[::2] + expected[1::2][::-1] + expected[:7]:
        ack(jvm, offset)
    hook_events = found_after(jvm, tmp_path)
    assert sorted(set(acked(hook_events))) == expected
    assert all(len(one.ranges) <= events.ACK_RANGES_MAX for one in of_kind(hook_events, events.AckMessage))
    assert losses(hook_events) == {}


def test_more_ranges_than_an_event_has_are_two_events(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    assert HOOK.ACK_RANGES == events.ACK_RANGES_MAX
    expected = list(range(0, 4 * events.ACK_RANGES_MAX, 2))
    halves = (sum(1 << 2 * number for number in range(events.ACK_RANGES_MAX)),) * 2
    batch(jvm, *(hooked.receipt("g", 2 * events.ACK_RANGES_MAX * number, half) for number, half in enumerate(halves)))
    ack(jvm, *range(10_001, 10_001 + 4 * events.ACK_RANGES_MAX, 2))
    found = found_after(jvm, tmp_path)
    assert acked(found) == [*expected, *range(10_001, 10_001 + 4 * events.ACK_RANGES_MAX, 2)]
    assert hooked.is_whole(found)


def test_a_sum_of_acks_ends_before_a_change_of_its_queue(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    ack(jvm, 3)
    change(jvm, 4)
    ack(jvm, 4)
    hook_events = found_after(jvm, tmp_path)
    kinds = [type(one).__name__ for one in hook_events if getattr(one, "group", "") == "g"]
    assert kinds == ["AckMessage", "ChangeMessageInvisibletime", "AckMessage"]
    assert hooked.is_whole(hook_events)


def test_a_change_is_an_event_with_what_its_handle_says(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    handle = hooked.extra_info(0, 8, popped=hooked.POPPED + 5, invisible=60_000, revive=999)
    change(jvm, 8, to=180_000, handle=f"{handle} 4711")
    call(jvm, hooked.CHANGE_INVISIBLE, hooked.ack("g", 0, 9, invisibleTime=1_000), answer=None)
    found = found_after(jvm, tmp_path)
    renewed, nacked = of_kind(found, events.ChangeMessageInvisibletime)
    assert (renewed.topic, renewed.queue_id, renewed.offset, renewed.code) == ("Orders", 0, 8, 0)
    assert (renewed.pop_time, renewed.invisible_ms, renewed.changed_ms) == (hooked.POPPED + 5, 60_000, 180_000)
    assert (renewed.order, nacked.order, nacked.code) == (True, False, None)


def test_a_batch_of_acks_is_of_each_receipts_group_and_topic(jvm, tmp_path):
    """Its topic is the one that was popped; of a message that was delivered again the retry topic is to be derived."""
    jvm.start(spool=str(tmp_path))
    batch(
        jvm,
        hooked.receipt("g", 100, 0b1011, q=3),
        hooked.receipt("g", 4, 1, r="1"),
        hooked.receipt("g", 5, 1, r="2", rq=999),
        hooked.receipt("other", 2**40, 0b11),
    )
    hook_events = found_after(jvm, tmp_path)
    seen = {
        (one.group, one.topic): (one.queue_id, one.ranges, one.order) for one in of_kind(hook_events, events.AckMessage)
    }
    assert seen == {
        ("g", "Orders"): (3, ((100, 101), (103, 103)), False),
        ("g", "%RETRY%g_Orders"): (0, ((4, 4),), False),
        ("g", "%RETRY%g+Orders"): (0, ((5, 5),), True),
        ("other", "Orders"): (0, ((2**40, 2**40 + 1),), False),
    }
    assert losses(hook_events) == {}


def test_a_proxys_copy_of_a_heartbeat_is_an_event_and_no_other_send_is(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    whole = hooked.proxy_heartbeat("c@1", "g")
    beat(jvm, whole)
    beat(jvm, {"heartbeatType": "UNREGISTER", "clientId": "c@1", "group": "g", "consumeType": None}, answer=0)
    beat(jvm, whole, topic="Orders")
    beat(jvm, whole, code=hooked.SEND)
    beat(jvm, hooked.proxy_heartbeat("c@1", "refused"), answer=16)
    hook_events = found_after(jvm, tmp_path)
    first, second = of_kind(hook_events, events.ProxyHeartBeat)
    assert (first.client_id, first.proxy, first.registers) == ("c@1", "192.0.2.9%8080%8081", True)
    assert (first.language, first.version, first.consume_type) == ("JAVA", 493, "CONSUME_PASSIVELY")
    assert first.subscriptions == (events.Subscription(topic="Orders", sub_string="*", sub_version=7),)
    assert (second.registers, second.consume_type, second.subscriptions) == (False, "", ())
    assert losses(hook_events) == {}


def test_the_topic_of_proxies_heartbeats_is_a_property(jvm, tmp_path):
    jvm.start(spool=str(tmp_path), heartbeatSyncerTopic="Elsewhere")
    beat(jvm, hooked.proxy_heartbeat("c@1", "g"))
    beat(jvm, hooked.proxy_heartbeat("c@2", "g"), topic="Elsewhere")
    assert [one.client_id for one in of_kind(found_after(jvm, tmp_path), events.ProxyHeartBeat)] == ["c@2"]


# What such calls may not cost

NEVER_POPPED = (
    None,
    "",
    "0",
    "0 1700000000000 20000 0 0",
    "a b c d e f g h",
    "0 0 20000 0 0 b 0 3",
    "0 -1 20000 0 0 b 0 3",
    "0 1700000000000 -1 0 0 b 0 3",
    "0 9223372036854775807 20000 0 0 b 0 3",
    "0 1700000000000 9223372036854775807 0 0 b 0 3",
    "0 1700000000000 20000 x 0 b 0 3",
    " " * 5_000,
)


def test_a_handle_that_no_broker_made_makes_no_event(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    ahead = time.time_ns() // 1_000_000 + 3_600_000
    for handle in (*NEVER_POPPED, f"0 {ahead} 20000 0 0 b 0 3"):
        fields = hooked.ack("g", 0, 3) | {"extraInfo": handle, "invisibleTime": 1_000}
        for code in (hooked.ACK, hooked.CHANGE_INVISIBLE):
            call(jvm, code, {name: value for name, value in fields.items() if value is not None})
    ack(jvm, 4)
    hook_events = found_after(jvm, tmp_path)
    assert acked(hook_events) == [4]
    assert of_kind(hook_events, events.ChangeMessageInvisibletime) == []
    assert losses(hook_events) == {"unreadable request": 2 * (len(NEVER_POPPED) + 1)}
    assert hooked.is_whole(hook_events)


def test_a_number_beyond_its_range_makes_no_event(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    odd = [("offset", -1), ("offset", 2**48), ("offset", 2**64), ("queueId", -1), ("queueId", "x"), ("topic", "")]
    for name, value in odd:
        call(jvm, hooked.ACK, hooked.ack("g", 0, 3) | {name: value})
        call(jvm, hooked.CHANGE_INVISIBLE, hooked.ack("g", 0, 3, invisibleTime=1_000) | {name: value})
    call(jvm, hooked.CHANGE_INVISIBLE, hooked.ack("g", 0, 3, invisibleTime=-1))
    pops = [("queueId", -2), ("queueId", 2**31), ("invisibleTime", -1), ("invisibleTime", 2**60), ("pollTime", "")]
    for name, value in pops:
        call(jvm, hooked.POP, hooked.pop("g") | {name: value})
    found = found_after(jvm, tmp_path)
    assert losses(found) == {"unreadable request": 2 * len(odd) + 1 + len(pops)}
    assert {getattr(one, "group", "bystander") for one in found} == {"bystander"}


def test_a_call_about_a_lite_topic_counts_for_no_queue(jvm, tmp_path):
    """All lite topics of 5.5 are in queue 0 of their parent topic, each with offsets of its own."""
    jvm.start(spool=str(tmp_path))
    ack(jvm, 3, liteTopic="part")
    change(jvm, 3, liteTopic="part")
    ack(jvm, 4, liteTopic="")
    hook_events = found_after(jvm, tmp_path)
    assert acked(hook_events) == [4]
    assert of_kind(hook_events, events.ChangeMessageInvisibletime) == []
    assert losses(hook_events) == {"lite topic": 2}


ODD_RECEIPTS = (
    {"c": ""},
    {"c": "g" * 256},
    {"t": "t" * 999, "r": "1"},
    {"r": "3"},
    {"so": -1},
    {"so": 2**48},
    {"q": -1},
    {"pt": 0},
    {"pt": 2**62},
    {"it": -1},
    {"b": "not base 64!"},
    {"b": ""},
    {"b": "AA=="},
    {"b": [1]},
    {"b": None},
)


def test_a_receipt_that_is_unreadable_costs_no_other_of_its_batch(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    odd = [hooked.receipt("g", 0, 1) | one for one in ODD_RECEIPTS]
    odd += [hooked.receipt("g", 0, bits) for bits in (1 << HOOK.ACK_BITS, (2 << HOOK.ACK_RANGES) - 1)]
    odd += [7, None, {}]
    last = 1 << HOOK.ACK_BITS - 1
    batch(jvm, hooked.receipt("g", 1_000, 1), *odd, hooked.receipt("g", 2_000, last))
    found = found_after(jvm, tmp_path)
    assert acked(found) == [1_000, 2_000 + HOOK.ACK_BITS - 1]
    assert losses(found) == {"unreadable field": len(odd)}


def test_a_batch_of_two_to_the_31_bits_or_a_million_receipts_costs_itself(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    batch(jvm, hooked.receipt("g", 0, 1) | {"b": "A" * 3_900_000})  # the body has no room for more
    jvm.call(code=hooked.BATCH_ACK, body='{"acks":[' + "{}," * 1_000_000 + "{}]}", answer=0)
    jvm.call(code=hooked.BATCH_ACK, body=" " * HOOK.BODY_BYTES + "{}", answer=0)
    for body in ("[]", '{"acks":7}', "no JSON"):
        jvm.call(code=hooked.BATCH_ACK, body=body, answer=0)
    batch(jvm)
    hook_events = found_after(jvm, tmp_path)
    assert of_kind(hook_events, events.AckMessage) == []
    assert losses(hook_events) == {"unreadable field": 1, "unreadable request": 5}
    assert hooked.is_whole(hook_events)


def test_a_batch_of_as_many_receipts_as_fit_needs_little_memory(jvm, tmp_path):
    """The JVM has a heap of 128 MB; as ranges the offsets of this body would need 80 MB."""
    jvm.start(spool=str(tmp_path))
    most = sum(1 << 2 * number for number in range(HOOK.ACK_RANGES))
    one = json.dumps(hooked.receipt("g", 0, most), separators=(",", ":"))
    count = (HOOK.BODY_BYTES - 20) // (len(one) + 1)
    jvm.call(code=hooked.BATCH_ACK, body='{"acks":[' + ",".join([one] * count) + "]}", answer=0)
    assert count > 15_000
    commit(jvm, 77)
    until(lambda: hooked.spooled(tmp_path, b'"UPDATE_CONSUMER_OFFSET"'))
    assert hooked.spooled(tmp_path, b'"TELEMETRY_LOST"') == []
    acks = [line for line in hooked.lines(tmp_path) if b'"ACK_MESSAGE"' in line]
    ranges = {line[line.index(b'"ranges"') : line.index(b',"seq"')] for line in acks}  # to decode them takes 5 s
    assert len(ranges) == 1
    expected = tuple((2 * number, 2 * number) for number in range(HOOK.ACK_RANGES))
    assert [event.ranges for event in hooked.spooled(tmp_path, acks[0])] == [expected]
    assert len(acks) == count


@pytest.mark.parametrize(
    "body",
    [
        "no JSON",
        "",
        "[]",
        " " * HOOK.PROXY_HEARTBEAT_BYTES + json.dumps(hooked.proxy_heartbeat("c", "g")),
        json.dumps(hooked.proxy_heartbeat("", "g")),
        json.dumps(hooked.proxy_heartbeat("c", "g" * 256)),
        json.dumps(hooked.proxy_heartbeat("c", None)),
        json.dumps(hooked.proxy_heartbeat("c", "g", heartbeatType="RESET")),
        json.dumps(hooked.proxy_heartbeat("c", "g", heartbeatType=None)),
    ],
    ids=["text", "empty", "list", "large", "no client", "long group", "no group", "neither", "no type"],
)
def test_a_message_that_is_no_heartbeat_makes_no_event(jvm, tmp_path, body):
    jvm.start(spool=str(tmp_path))
    beat(jvm, body)
    hook_events = found_after(jvm, tmp_path)
    assert of_kind(hook_events, events.ProxyHeartBeat) == []
    assert losses(hook_events) == {"unreadable request": 1}
    assert hooked.is_whole(hook_events)


def test_a_body_of_ten_megabytes_is_not_kept(jvm, tmp_path):
    """The queue has room for a fraction of them."""
    jvm.start(spool=str(tmp_path), queueBytes=1 << 20)
    large = "x" * 10_000_000
    for _ in range(20):
        beat(jvm, large)
    assert losses(found_after(jvm, tmp_path)) == {"unreadable request": 20}


def test_forged_heartbeats_push_out_no_group_and_leave_room_for_others(jvm, tmp_path):
    """Anybody may send to the topic of the proxies, or ack for a group that does not exist."""
    jvm.start(spool=str(tmp_path), queueCapacity=200)
    commit(jvm, 1, group="quiet")
    await_a_tick(tmp_path)
    body = json.dumps(hooked.proxy_heartbeat("c", "invented"))
    jvm.call(code=hooked.SEND_V2, fields=hooked.short(hooked.send(0, topic=SYNCER)), body=body, times=100_000)
    commit(jvm, 2, group="quiet")
    hook_events = found_after(jvm, tmp_path)
    beats = of_kind(hook_events, events.ProxyHeartBeat)
    assert len(beats) + losses(hook_events)["queue full"] == 100_000
    assert [one.offset for one in of_kind(hook_events, events.UpdateConsumerOffset) if one.group == "quiet"] == [1, 2]


def test_acks_of_invented_groups_begin_no_lasting_sequence(jvm, tmp_path):
    """The broker accepts an ack without a look at its group; of 50,000 such groups the first are forgotten again."""
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1, group="quiet")
    for first in range(0, HOOK.GROUPS + 10_000, 4_000):
        batch(jvm, *(hooked.receipt(f"invented-{first + one}", 0, 1) for one in range(4_000)))
        await_a_tick(tmp_path)
    commit(jvm, 2, group="quiet")
    hook_events = found_after(jvm, tmp_path)
    assert losses(hook_events) == {}
    assert [event.seq for event in hook_events if getattr(event, "group", "") == "quiet"] == [1, 2]
    assert len(of_kind(hook_events, events.AckMessage)) == len(range(0, HOOK.GROUPS + 10_000, 4_000)) * 4_000
