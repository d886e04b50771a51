"""Hostile calls to a broker cost their own event at most: the hook continues, and every other call is reported."""

import json
import re

import pytest

from rebalance_model.observe import events
from rebalance_model.observe.group_observer import GroupObserver
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import GroupState
from rebalance_model.observe.step import Moment
from streaming.base import limits
from tests.support import hooked
from tests.support.hook_limits import HOOK
from tests.support.hook_process import after_a_tick, await_a_tick, commit, found_after, losses, of_kind

pytestmark = pytest.mark.xdist_group("hook jar")  # one JVM for most of them

WRITER_SECONDS_MAX = 2.0
"""Processor time of the hook's thread for a body of the largest size, compiled or not; it takes some 0.1 s."""


def beat(jvm, body, **more):
    text = body if isinstance(body, str) else json.dumps(body)
    jvm.call(code=hooked.HEART_BEAT, body=text, answer=0, **more)


def consumer(group, *subscriptions, **more):
    fields = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "consumeFromWhere": "X"}
    return {"groupName": group, "subscriptionDataSet": list(subscriptions), **(fields | more)}


def subscription(topic="Orders", **more):
    return {"topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 7, **more}


def client(*consumers, **more):
    return {"clientID": "c", "consumerDataSet": list(consumers), **more}


def test_the_hook_sends_no_more_than_the_decoder_accepts():
    assert (HOOK.EVENT_BYTES, HOOK.NAME_CHARACTERS) == (limits.EVENT_BYTES, limits.NAME_CHARACTERS)


@pytest.mark.parametrize("tag", ["ar-EG", "th-TH-u-nu-thai"])
def test_a_file_is_named_by_the_same_digits_in_every_locale(jvm, tmp_path, tag):
    try:
        jvm.locale(tag=tag)
        jvm.start(spool=str(tmp_path))
        commit(jvm, 1)
        await_a_tick(tmp_path)
    finally:
        jvm.locale(tag="en-US")
    names = [path.name for path in tmp_path.glob("*/*")]
    assert names
    assert all(re.fullmatch(r"[0-9]{20}\.jsonl", name) for name in names), names


def test_a_jvm_that_knows_only_ascii_writes_its_spool(new_jvm, tmp_path):
    jvm = new_jvm(LC_ALL="C")
    jvm.locale(tag="ar-EG")
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1, group="gruppe-ü")
    found = after_a_tick(tmp_path)
    assert [event.group for event in of_kind(found, events.UpdateConsumerOffset)] == ["gruppe-ü"]
    assert losses(found) == {}


DIGITS = "9" * 4_000_000


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(client(consumer("g", subscription()))).replace('"clientID"', f'"fromNowhere": {DIGITS}, "clientID"'),
        json.dumps(client(consumer("g", subscription()), heartbeatFingerprint=0)).replace(" 0}", f" {DIGITS}}}"),
        json.dumps(client(consumer("g", subscription()))).replace(" 7}", f" {DIGITS}}}"),
        json.dumps(client(consumer("g", subscription()))).replace(" 7}", f' "{DIGITS}"}}'),
    ],
    ids=["unknown field", "fingerprint", "version", "text"],
)
def test_a_number_of_four_million_digits_costs_no_time(jvm, tmp_path, body):
    jvm.start(spool=str(tmp_path))
    before = jvm.writer_seconds()
    beat(jvm, body)
    hook_events = found_after(jvm, tmp_path)
    assert jvm.writer_seconds() - before < WRITER_SECONDS_MAX
    (event,) = of_kind(hook_events, events.HeartBeat)
    assert (event.client_id, event.heartbeat_fingerprint) == ("c", 0)
    assert losses(hook_events).keys() <= {"unreadable field"}
    assert hooked.is_whole(hook_events)


def test_a_busy_writer_marks_its_end_and_reports_what_it_lost(new_jvm, tmp_path):
    """Its calls take longer than a JVM that was asked to end can wait."""
    jvm = new_jvm()
    jvm.start(spool=str(tmp_path), queueBytes=1 << 40)
    body = client(consumer("g", subscription()), producerDataSet=[{"groupName": "p" * 90}] * 35_000)
    beat(jvm, body, times=600)
    jvm.leave()
    hook_events = hooked.spooled(tmp_path)
    assert isinstance(hook_events[-1], events.Tick)
    assert hook_events[-1].end
    lost = losses(hook_events)
    assert len(of_kind(hook_events, events.HeartBeat)) + lost["broker ended"] == 600
    assert lost.keys() <= {"broker ended"}


def test_a_reference_is_not_replaced_by_what_it_refers_to(jvm, tmp_path):
    """With 4.9's parser 1 MB became 900 MB of events."""
    jvm.start(spool=str(tmp_path))
    large = consumer("g", subscription(subString="a || " * 150_000))
    beat(jvm, client(large, *[{"$ref": "$.consumerDataSet[0]"}] * 50))
    found = found_after(jvm, tmp_path)
    assert len(of_kind(found, events.HeartBeat)) == 1
    assert losses(found) == {"unreadable request": 50}


def test_a_line_is_not_built_beyond_its_limit(jvm, tmp_path):
    """Each is 16 times as large as the body that makes it, together they are larger than the heap."""
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1)
    one = json.dumps(client(consumer("g", *[subscription()] * 6))).replace("*", "\x01" * 600_000)
    for _ in range(5):
        beat(jvm, one)
    commit(jvm, 2)
    hook_events = found_after(jvm, tmp_path)
    assert losses(hook_events) == {"event too large": 5}
    assert [event.offset for event in of_kind(hook_events, events.UpdateConsumerOffset)] == [1, 2, 77]
    assert hooked.missing(hook_events) == 5


def test_a_body_beyond_the_limit_leaves_no_gap_for_others(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1, group="bystander")
    large = " " * HOOK.BODY_BYTES
    beat(jvm, large + json.dumps(client(consumer("g"))))
    jvm.call(code=hooked.UPDATE_OFFSET, fields=hooked.commit("g" * 5_000_000, 0, 1), answer=0)
    jvm.call(code=hooked.GET_CONSUMER_LIST, fields={"consumerGroup": "g"}, answer=0, answer_body=large + "{}")
    found = found_after(jvm, tmp_path)
    assert losses(found) == {"unreadable request": 3}
    assert hooked.is_whole(found)


def test_a_body_nested_too_deep_is_unreadable(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    for depth in (HOOK.BODY_DEPTH - 1, HOOK.BODY_DEPTH, 1_000_000):
        beat(
            jvm, json.dumps(client(consumer("g"))).replace('"clientID"', f'"x": {"[" * depth}{"]" * depth}, "clientID"')
        )
    found = found_after(jvm, tmp_path)
    assert len(of_kind(found, events.HeartBeat)) == 1
    assert losses(found) == {"unreadable request": 2}


def test_a_body_of_too_many_parts_is_unreadable(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    for parts in (HOOK.BODY_PARTS, HOOK.BODY_PARTS + 1):
        beat(jvm, client(consumer("g", *[{}] * (parts - 1), subscription())))
    found = found_after(jvm, tmp_path)
    assert [len(event.subscriptions) for event in of_kind(found, events.HeartBeat)] == [1]
    assert losses(found) == {"unreadable request": 1, "unreadable field": HOOK.BODY_PARTS - 1}


def fill(jvm, spool):
    """Let clients heartbeat for as many groups as the hook keeps."""
    for first in range(0, HOOK.GROUPS, HOOK.HEARTBEAT_GROUPS):
        beat(jvm, client(*(consumer(f"many-{first + one}") for one in range(HOOK.HEARTBEAT_GROUPS))))
        if first % 10_000 == 0:
            await_a_tick(spool)  # the queue has room


def test_a_new_group_is_reported_however_many_there_were(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1, group="quiet")
    commit(jvm, 2, group="quiet")
    fill(jvm, tmp_path)
    commit(jvm, 1, group="many-0")
    commit(jvm, 1, group="new")
    commit(jvm, 3, group="quiet")
    hook_events = found_after(jvm, tmp_path)
    assert losses(hook_events) == {}
    seen = {name: [event for event in hook_events if getattr(event, "group", "") == name] for name in ("new", "quiet")}
    assert [event.offset for event in seen["new"]] == [1]
    assert [event.offset for event in seen["quiet"]] == [1, 2, 3]
    assert [event.seq for event in hook_events if getattr(event, "group", "") == "many-0"] == [1, 2], "heard last"


def test_a_forgotten_group_comes_back_after_a_gap(jvm, tmp_path):
    """Its numbers begin again above all that were forgotten: its reader takes no event for a copy."""
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1, group="quiet")
    commit(jvm, 1, group="also-quiet")
    commit(jvm, 2, group="also-quiet")
    fill(jvm, tmp_path)
    commit(jvm, 2, group="quiet")
    found = found_after(jvm, tmp_path)
    group, gaps = GroupObserver(GroupState(found[0].cluster, "quiet"), Policy()), []
    for event in found:
        if getattr(event, "group", "") == "quiet":
            group.handle(event, Moment(event.time, event, event.time))
            gaps.append(group.state.views[event.broker].hook.lost_at == event.time)
            (sequence,) = group.state.sequences.values()
            assert sequence.seq == event.seq, "it was taken for a copy"
    assert gaps == [False, True]


def test_invented_groups_push_out_no_group_that_is_there(jvm, tmp_path):
    """Anybody may ask for the members of any group; the broker answers 1 if there are none."""
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1, group="bystander")
    for burst in range(6):
        jvm.ask_lists(groups=10_000, prefix=f"invented-{burst}-", answer=1)
        await_a_tick(tmp_path)
    jvm.ask_lists(groups=1, prefix="new", answer=1)
    commit(jvm, 1, group="also-new")
    hook_events = found_after(jvm, tmp_path)
    assert losses(hook_events) == {}
    named = {event.group for event in hook_events if isinstance(event, events.GroupEvent)}
    assert {"new0", "also-new", "invented-0-0", "invented-5-9999"} <= named
    assert [event.seq for event in hook_events if getattr(event, "group", "") == "bystander"] == [1, 2]


def test_a_queues_newest_offset_is_known_however_many_topics_there_were(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    jvm.send(code=hooked.SEND, fields=hooked.send(0, topic="Delayed", properties="DELAY\x013\x02"), offset=9)
    jvm.send_topics(topics=HOOK.NEWEST_QUEUES + 1, prefix="topic-")
    for topic in ("Orders", "Delayed"):
        jvm.send(code=hooked.SEND, fields=hooked.send(0, topic=topic), offset=9)
        jvm.call(code=hooked.UPDATE_OFFSET, fields=hooked.commit("g", 0, 5, topic=topic), answer=0)
    found = after_a_tick(tmp_path)
    newest = {event.topic: event.broker_offset for event in of_kind(found, events.UpdateConsumerOffset)}
    assert newest == {"Orders": 10, "Delayed": -1}


def test_names_that_have_no_utf8_do_not_become_one(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    for half in ("\ud800", "\udc00", "a\ud801"):
        beat(jvm, client(consumer(half, subscription())))
        jvm.call(code=hooked.UNLOCK, body=json.dumps(hooked.locks(half, "g", 0)), answer=0)
    beat(jvm, client(consumer("\U0001f600", subscription("\udc00"), subscription(subString="\ud800"))))
    hook_events = found_after(jvm, tmp_path)
    assert losses(hook_events) == {"unreadable request": 6, "unreadable field": 1}
    (event,) = of_kind(hook_events, events.HeartBeat)
    assert (event.group, [one.sub_string for one in event.subscriptions]) == ("\U0001f600", ["\ufffd"])
    assert hooked.is_whole(hook_events)


def test_the_number_of_a_removed_file_is_not_used_again(jvm, tmp_path):
    """The shipper keeps its position in it: it would skip as much of the next file of that number."""
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1)
    await_a_tick(tmp_path)
    (first,) = tmp_path.glob("*/*.jsonl")
    first.unlink()
    commit(jvm, 2)
    await_a_tick(tmp_path)
    (second,) = tmp_path.glob("*/*.jsonl")
    assert first.name < second.name


def test_a_consumer_that_is_unreadable_costs_no_other_of_its_heartbeat(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    odd = [consumer({"name": "g"}), 7, consumer("g" * 256), consumer("")]
    beat(jvm, client(consumer("first"), *odd, consumer("then"), consumer("last")))
    beat(jvm, {"consumerDataSet": [consumer("a"), consumer("b"), consumer("c")]})
    hook_events = found_after(jvm, tmp_path)
    assert [event.group for event in of_kind(hook_events, events.HeartBeat)] == ["first", "then", "last"]
    assert losses(hook_events) == {"unreadable request": 4 + 3}
    assert hooked.is_whole(hook_events)


VERSIONS = {
    "1795724349245570957": 1795724349245570957,  # nanoseconds, as Go sends
    '"1795724349245570957"': 1795724349245570957,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "-1": -1,
    "18446744073709551615": -1,  # C++: without a sign
    '"18446744073709551615"': -1,
    "null": 0,
}
ODD_VERSIONS = ("18446744073709551616", "-9223372036854775809", "1e3", '"x"', '""', "{}", "[7]", "true", "")


def test_a_version_is_any_integer_of_64_bits_and_costs_nothing_else(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    for text in (*VERSIONS, *ODD_VERSIONS):
        body = json.dumps(client(consumer("g", subscription("First"), subscription(subVersion="V"))))
        beat(jvm, body.replace('"V"', text))
    hook_events = found_after(jvm, tmp_path)
    seen = [
        [(one.topic, one.sub_version) for one in event.subscriptions]
        for event in of_kind(hook_events, events.HeartBeat)
    ]
    expected = [*VERSIONS.values(), *[0] * len(ODD_VERSIONS)]
    assert seen == [[("First", 7), ("Orders", version)] for version in expected]
    assert losses(hook_events) == {"unreadable field": len(ODD_VERSIONS)}


ODD = (
    "null",
    "7",
    "-1",
    '"x"',
    '""',
    "true",
    "{}",
    '[[{"a": 1}]]',
    "1e400",
    '"\\ud800"',
    DIGITS[:99],
    f'"{"y" * 1_001}"',
)
FIELDS = {
    "clientID": "call", "consumerDataSet": "call", "heartbeatFingerprint": "field", "withoutSub": "field",
    "groupName": "consumer", "consumeType": "field", "messageModel": "field", "consumeFromWhere": "field",
    "subscriptionDataSet": "field", "topic": "subscription", "subString": "field", "expressionType": "field",
    "subVersion": "field", "tagsSet": "field",
}  # fmt: skip
"""The fields of a heartbeat, and what is lost if they can't be read; `field`: they alone."""


def test_a_field_of_a_heartbeat_costs_itself_alone(jvm, tmp_path):
    """Whatever its value is, or if it is missing or twice there."""
    jvm.start(spool=str(tmp_path))
    for name in FIELDS:
        for body in heartbeats_with_odd(name):
            beat(jvm, body)
    hook_events = found_after(jvm, tmp_path)
    beats = of_kind(hook_events, events.HeartBeat)
    for name, lost in FIELDS.items():
        others = [event for event in beats if event.group == f"other-{name}"]
        if lost != "call":
            assert [[one.topic for one in event.subscriptions] for event in others] == [["Other"]] * (len(ODD) + 2)
        if lost == "field":
            assert len([event for event in beats if event.group == f"odd-{name}"]) == len(ODD) + 2
    assert losses(hook_events).keys() <= {"unreadable request", "unreadable field"}
    assert hooked.is_whole(hook_events)


def heartbeats_with_odd(name):
    """Return a heartbeat of two groups for each odd value of a field of the first, without it, and with it twice."""
    part = subscription("Odd", tagsSet=[])
    odd, other = consumer(f"odd-{name}", part), consumer(f"other-{name}", subscription("Other"))
    whole = client(odd, other, heartbeatFingerprint=5, withoutSub=False)
    owner = next(one for one in (whole, odd, part) if name in one)
    value, owner[name] = owner[name], "V"
    text, field = json.dumps(whole), f'"{name}": "V"'
    yield from (text.replace('"V"', odd_value) for odd_value in ODD)
    yield text.replace(field, '"_": 0')
    yield text.replace(field, f'"{name}": {json.dumps(value)}, "{name}": {json.dumps(value)}')


def test_an_expression_that_is_unreadable_is_unknown(jvm, tmp_path):
    """It is empty if none was sent. Subscriptions that are no list are unknown: the former ones stay."""
    jvm.start(spool=str(tmp_path))
    texts = {"A": {}, "B": ["*"], "C": "x" * (limits.EVENT_BYTES + 1), "D": None, "E": 7}
    beat(jvm, client(consumer("g", *(subscription(topic, subString=text) for topic, text in texts.items()))))
    beat(jvm, client(consumer("g", subscriptionDataSet="none")))
    hook_events = found_after(jvm, tmp_path)
    first, second = of_kind(hook_events, events.HeartBeat)
    assert [one.sub_string for one in first.subscriptions] == [None, None, None, "", "7"]
    assert (first.without_sub, second.without_sub, second.subscriptions) == (False, True, ())
    assert losses(hook_events) == {"unreadable field": 4}


def test_a_queue_that_is_unreadable_costs_no_other_of_its_request(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    odd = [{"topic": "Orders"}, hooked.mq(-1), hooked.mq("x"), hooked.mq(2**31), hooked.mq(3, topic={}), None]
    body = json.dumps(hooked.locks("c", "g", 0) | {"mqSet": [hooked.mq(0), *odd, hooked.mq("1")]})
    granted = json.dumps({"lockOKMQSet": [hooked.mq(1), {"topic": "Orders"}]})
    jvm.call(code=hooked.LOCK, body=body, answer=0, answer_body=granted)
    jvm.call(code=hooked.UNLOCK, body=body, answer=0)
    jvm.call(code=hooked.UNLOCK, body=json.dumps(hooked.locks("c", "g") | {"mqSet": odd}), answer=0)
    for answer in ('{"lockOKMQSet": 7}', '{"lockOKMQSet": [7]}', "[]", "7"):  # what was granted is unknown
        locks = json.dumps(hooked.locks("c", "g", 0))
        jvm.call(code=hooked.LOCK, body=locks, answer=0, answer_body=answer)
    hook_events = found_after(jvm, tmp_path)
    (lock,), (unlock,) = of_kind(hook_events, events.LockBatchMq), of_kind(hook_events, events.UnlockBatchMq)
    assert [mq.queue_id for mq in lock.requested] == [0, 1]
    assert [mq.queue_id for mq in lock.granted] == [1]
    assert unlock.queues == lock.requested
    assert losses(hook_events) == {"unreadable field": 12, "unreadable request": 5}


def test_a_client_id_that_is_unreadable_costs_no_other_of_its_list(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    ids = ["a", {"id": 1}, "x" * 1_001, "\ud800", 7, None, "b\u2028"]
    for answer in ({"consumerIdList": ids}, {"consumerIdList": None}, {"consumerIdList": {}}):
        asked = {"consumerGroup": "g"}
        jvm.call(code=hooked.GET_CONSUMER_LIST, fields=asked, answer=0, answer_body=json.dumps(answer))
    hook_events = found_after(jvm, tmp_path)
    assert [event.consumer_ids for event in of_kind(hook_events, events.GetConsumerListByGroup)] == [
        ("a", "7", "b\u2028"),
        (),
    ]
    assert losses(hook_events) == {"unreadable field": 4, "unreadable request": 1}


def test_bodies_are_read_as_other_languages_write_them(jvm, tmp_path):
    """Escaped characters, raw control characters in a text, blanks, numbers as text and the other way round."""
    jvm.start(spool=str(tmp_path))
    text = """
    { "clientID" : "10.0.0.1@\\u0061\\/\\ud83d\\ude00\\b\\f" , "pid":null, "producerDataSet":[{"groupName":"p"},],
      "consumerDataSet" : [ { "groupName":"g\ttab", "consumeType":1, "messageModel":null, "unitMode":false,
        "subscriptionDataSet":[{"classFilterMode":false,"topic":"T\\u00e9","subString":"a || \n b","tagsSet":["a","b"],
          "codeSet":[97,98],"subVersion":"12","expressionType":null}] } ],
      "withoutSub":"true", "heartbeatFingerprint":"-5" } """
    beat(jvm, text)
    hook_events = found_after(jvm, tmp_path)
    (event,) = of_kind(hook_events, events.HeartBeat)
    assert (event.client_id, event.group) == ("10.0.0.1@a/\U0001f600\b\f", "g\ttab")
    assert (event.consume_type, event.message_model, event.without_sub) == ("CONSUME_PASSIVELY", "", True)
    assert event.heartbeat_fingerprint == -5
    assert event.subscriptions == (events.Subscription(topic="Té", sub_string="a || \n b", sub_version=12),)
    assert losses(hook_events) == {}
