"""The hook in a real broker: it reports each request of a client once; a failing spool only loses telemetry."""

import threading
import time
import zipfile
from collections import Counter

import pytest

from rebalance_model.observe import events
from streaming.base import jars
from streaming.base.settings import load_settings
from streaming.collect.broker_hook import JAR, build
from streaming.lab import processes
from tests.support import hooked
from tests.support.hook_process import losses, of_kind

pytestmark = pytest.mark.live
CLIENT = "192.0.2.1@7"
MOST_BYTES, FILE_BYTES = 2_000_000, 100_000
LIMITS = {"diskBytes": MOST_BYTES, "fileBytes": FILE_BYTES, "fileSeconds": 2}
CONF = """
asyncSendEnable=false
autoCreateSubscriptionGroup=false
timerWheelEnable=true
mappedFileSizeTimerLog=4194304
timerFlushIntervalMs=10000
"""
"""Sends are answered after they are stored; a POP creates no group; and a broker without the timer refuses each POP,
whose flush copies the whole wheel."""
SENT, POPPED = 6, "Popped"
PULLS = 40
"""More than any machine needs seconds for them."""
LAST = "last"
"""Asks for a kind of call that was one-way before: each kind has a line and threads of its own in the broker, so that
only an answer to the same kind says that it got to the former ones."""


@pytest.fixture(scope="module")
def spool(tmp_path_factory):
    return tmp_path_factory.mktemp("spool")


@pytest.fixture(scope="module")
def broker(tmp_path_factory, spool):
    """A broker whose hook may fill little disk, in small files; each start takes 3 s of processor time."""
    home = tmp_path_factory.mktemp("hooked")
    with hooked.broker(home, spool=spool, conf=CONF, **LIMITS) as running:
        with hooked.Client(running.address) as client:
            client.make("Orders", "g1", "g2", "g3", "g4")
        yield running


def ticks(hook_events):
    return [event.time for event in hook_events if isinstance(event, events.Tick)]


def after_a_tick(spool, eventually):
    """Return the reported events, once they include the calls made so far."""
    now = time.time_ns() // 1_000_000

    def ticked():
        found = hooked.spooled(spool)
        return found if any(time > now for time in ticks(found)) else None

    return eventually(ticked)


def of_group(hook_events, group, *, pulls=False):
    """Return the reported events of a group."""
    mine = [event for event in hook_events if getattr(event, "group", None) == group]
    return [event for event in mine if pulls or not isinstance(event, events.PullMessage)]


KINDS_OF_G1 = {
    "HeartBeat": 1,
    "GetConsumerListByGroup": 1,
    "LockBatchMq": 2,
    "QueryConsumerOffset": 1,
    "UpdateConsumerOffset": 1,
    "InvokeBrokerToResetOffset": 1,
    "UnlockBatchMq": 1,
    "UnregisterClient": 1,
}


def ask_everything(address):
    """Each kind of call, by two clients of group g1: their channels, and when it began."""
    begin = time.time_ns() // 1_000_000
    with hooked.Client(address) as client, hooked.Client(address) as other:
        more = {"heartbeatFingerprint": 5, "withoutSub": False}
        client.ask(hooked.HEART_BEAT, body=hooked.heartbeat(CLIENT, "g1", "g2", producers=["makers"], **more))
        client.ask(hooked.GET_CONSUMER_LIST, {"consumerGroup": "g1"})
        client.ask(hooked.GET_CONSUMER_LIST, {"consumerGroup": "nobody"})
        client.ask(hooked.LOCK, body=hooked.locks(CLIENT, "g1", 0, 1))
        other.ask(hooked.LOCK, body=hooked.locks("192.0.2.2@8", "g1", 1, 2))
        client.ask(hooked.QUERY_OFFSET, {"consumerGroup": "g1", "topic": "Orders", "queueId": 1})
        client.send_oneway(hooked.UPDATE_OFFSET, hooked.commit("g1", 1, 12))
        client.ask(hooked.UPDATE_OFFSET, hooked.commit("nobody", 1, 12))
        reset = {"group": "g1", "topic": "Orders", "queueId": -1, "timestamp": begin, "isForce": True}
        client.ask(hooked.RESET_OFFSET, reset)
        client.send_oneway(hooked.UNLOCK, body=hooked.locks(CLIENT, "g1", 0))
        client.ask(hooked.UNREGISTER_CLIENT, {"clientID": CLIENT, "producerGroup": "makers"})
        client.ask(hooked.UNREGISTER_CLIENT, {"clientID": CLIENT, "consumerGroup": "g1"})
        client.ask(hooked.UNLOCK, body=hooked.locks(CLIENT, LAST, 0))
        return client.channel, other.channel, begin


def kinds(hook_events, group):
    return Counter(type(event).__name__ for event in of_group(hook_events, group))


def test_each_call_is_an_event_with_what_was_asked_and_answered(broker, spool, eventually):
    mine, others, begin = ask_everything(broker.address)
    hook_events = after_a_tick(spool, eventually)

    assert hooked.is_whole(hook_events)
    assert kinds(hook_events, "g1") == KINDS_OF_G1
    by_kind = {type(event): event for event in of_group(hook_events, "g1") if event.channel == mine}
    beat, asked, lock = (
        by_kind[kind] for kind in (events.HeartBeat, events.GetConsumerListByGroup, events.LockBatchMq)
    )
    assert (beat.client_id, beat.language, beat.version) == (CLIENT, "PYTHON", 493)
    assert (beat.consume_type, beat.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert beat.subscriptions == (events.Subscription(topic="Orders", sub_string="*", sub_version=7),)
    assert (beat.heartbeat_fingerprint, beat.without_sub) == (5, False)
    assert beat.cluster == "lab"
    assert (beat.broker, beat.broker_id, beat.source) == (hooked.NAME, 0, "hook")
    assert asked.consumer_ids == (CLIENT,)
    assert begin <= beat.time <= asked.asked <= asked.time
    assert set(lock.requested) == set(lock.granted)
    assert {queue.queue_id for queue in lock.granted} == {0, 1}
    assert by_kind[events.UpdateConsumerOffset].offset == 12
    reset = by_kind[events.InvokeBrokerToResetOffset]
    assert (reset.topic, reset.queue_id, reset.code) == ("Orders", -1, 0)
    assert by_kind[events.QueryConsumerOffset].code == 22  # QUERY_NOT_FOUND: no offset is stored
    (refused,) = [event for event in of_group(hook_events, "g1") if event.channel == others]
    assert [queue.queue_id for queue in refused.granted] == [2]
    assert [(event.code, type(event)) for event in of_group(hook_events, "nobody")] == [
        (1, events.GetConsumerListByGroup),
        (26, events.UpdateConsumerOffset),  # SUBSCRIPTION_GROUP_NOT_EXIST
    ]
    assert [type(event) for event in of_group(hook_events, "g2")] == [events.HeartBeat]
    assert of_group(hook_events, "makers") == []


def test_pulls_are_summed_and_stay_before_what_followed_them(broker, spool, eventually):
    with hooked.Client(broker.address) as client:
        client.ask(hooked.HEART_BEAT, body=hooked.heartbeat(CLIENT, "g3"))
        for offset in range(PULLS):
            client.ask(hooked.PULL, hooked.pull("g3", 2, offset, commits=offset))
        client.ask(hooked.LITE_PULL, hooked.pull("g3", 3, 40))
        client.ask(hooked.UPDATE_OFFSET, hooked.commit("g3", 2, PULLS))  # pulls have threads of their own: no order
        client.ask(hooked.PULL, hooked.pull("g3", 2, PULLS))
        hook_events = of_group(after_a_tick(spool, eventually), "g3", pulls=True)

    pulls = [event for event in hook_events if isinstance(event, events.PullMessage)]
    committed = next(event for event in hook_events if isinstance(event, events.UpdateConsumerOffset))
    before = [sum_ for sum_ in pulls if sum_.queue_id == 2 and sum_.seq < committed.seq]
    (after,) = [sum_ for sum_ in pulls if sum_.queue_id == 2 and sum_.seq > committed.seq]
    (lite,) = [sum_ for sum_ in pulls if sum_.queue_id == 3]
    assert len(before) < PULLS / 2  # seconds may have ended between them, and every sum with it
    assert (sum(sum_.count for sum_ in before), before[0].first_offset) == (PULLS, 0)
    assert (before[-1].last_offset, before[-1].commit_offset) == (PULLS - 1, PULLS - 1)
    assert (after.count, after.first_offset, after.commit_offset) == (1, PULLS, -1)
    assert (lite.count, lite.first_offset, lite.code) == (1, 40, None)


def test_many_clients_at_once_leave_no_hole_and_nothing_twice(broker, spool, eventually):
    rounds, clients = 60, 6

    def work(number):
        with hooked.Client(broker.address) as client:
            for step in range(rounds):
                client.ask(hooked.HEART_BEAT, body=hooked.heartbeat(f"c{number}", "g4"))
                client.send_oneway(hooked.UPDATE_OFFSET, hooked.commit("g4", number % 4, step))
                client.ask(hooked.LOCK, body=hooked.locks(f"c{number}", "g4", number))
                client.ask(hooked.PULL, hooked.pull("g4", number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with hooked.Client(broker.address) as client:
        client.ask(hooked.UPDATE_OFFSET, hooked.commit(LAST, 0, 0))
    hook_events = after_a_tick(spool, eventually)
    mine = of_group(hook_events, "g4", pulls=True)

    assert hooked.is_whole(hook_events)
    by_kind = kinds(hook_events, "g4")
    assert {by_kind[kind] for kind in ("HeartBeat", "LockBatchMq", "UpdateConsumerOffset")} == {rounds * clients}
    assert sum(event.count for event in mine if isinstance(event, events.PullMessage)) == rounds * clients
    assert max(map(len, hooked.numbers(mine).values())) == len(mine)  # one key, one sequence


def dispatched(client, topic=POPPED, queue_id=0, sent=SENT):
    """Check that a queue has all that was sent: a broker answers a send before its queue has the message."""
    answer = client.ask(hooked.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})
    return answer.code == 0 and int(answer.fields["offset"]) == sent


def popped(client, group, **more):
    """Pop what is in queue 0; return the handle of a message by its offset."""
    answer = client.ask(hooked.POP, hooked.pop(group, 0, topic=POPPED, **more))
    assert answer.code == 0, answer
    head = answer.fields

    def handle(offset, start=0):
        parts = (start, head["popTime"], head["invisibleTime"], head["reviveQid"], 0, hooked.NAME, 0, offset)
        return " ".join(map(str, parts))

    return int(head["popTime"]), handle


def ack(group, queue_id, offset, **more):
    return hooked.ack(group, queue_id, offset, topic=POPPED, **more)


def test_what_a_real_broker_pops_and_acknowledges_is_reported(broker, spool, eventually):
    with hooked.Client(broker.address) as client:
        client.make(POPPED, "pops", "in-order", queues=1)
        client.make("DefaultHeartBeatSyncerTopic", queues=1)
        for _ in range(SENT):
            assert client.ask(hooked.SEND, hooked.send(0, topic=POPPED), b"x").code == 0
        eventually(lambda: dispatched(client))
        pop_time, handle = popped(client, "pops")
        for offset in range(SENT - 1):
            assert client.ask(hooked.ACK, ack("pops", 0, offset, handle=handle(offset))).code == 0
        changes = ack("pops", 0, SENT - 1, handle=handle(SENT - 1), invisibleTime=30_000)
        assert client.ask(hooked.CHANGE_INVISIBLE, changes).code == 0
        in_order_time, in_order = popped(client, "in-order", order="true")
        receipt = {"rq": 999, "pt": in_order_time, "it": 20_000}
        body = {
            "brokerName": hooked.NAME,
            "acks": [hooked.receipt("in-order", 0, (1 << SENT) - 1, topic=POPPED, **receipt)],
        }
        assert client.ask(hooked.BATCH_ACK, body=body).code == 0
        assert in_order(0).split()[3] == "999"
        assert client.ask(hooked.ACK, ack("pops", 0, 10**9, handle=handle(10**9))).code == 208
        assert client.ask(hooked.ACK, ack("pops", 7, 1, handle=handle(1))).code != 0  # the topic has one queue
        assert client.ask(hooked.POP, hooked.pop("nobody", 0, topic=POPPED)).code == 26
        beat = hooked.short(hooked.send(0, topic="DefaultHeartBeatSyncerTopic"))
        assert client.ask(hooked.SEND_V2, beat, hooked.proxy_heartbeat("c@1", "pops")).code == 0
        hook_events = after_a_tick(spool, eventually)

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


def send_and_commit(address, eventually):
    """A message to queue 1 and three in a batch to queue 3, then commits of group g1."""
    with hooked.Client(address) as client:
        client.make("Sent", "g1")
        client.ask(hooked.SEND, hooked.send(1, topic="Sent"), b"one")
        client.ask(
            hooked.SEND_BATCH,
            hooked.short(hooked.send(3, topic="Sent") | {"batch": "true"}),
            hooked.batch(b"1", b"2", b"3"),
        )
        for queue_id, sent in {1: 1, 3: 3}.items():
            eventually(lambda queue_id=queue_id, sent=sent: dispatched(client, "Sent", queue_id, sent))
        for queue_id in range(4):
            assert client.ask(hooked.UPDATE_OFFSET, hooked.commit("g1", queue_id, 0, topic="Sent")).code == 0


def newest(hook_events):
    """The newest offset of each queue that the commits came with."""
    commits = [event for event in hook_events if isinstance(event, events.UpdateConsumerOffset)]
    return {event.queue_id: event.broker_offset for event in commits if event.topic == "Sent"}


def test_without_async_send_a_hook_reports_newest_offsets(broker, spool, eventually):
    """With it, the default, it does not: `test_lab`."""
    send_and_commit(broker.address, eventually)
    assert newest(after_a_tick(spool, eventually)) == {0: -1, 1: 1, 2: -1, 3: 3}


def test_a_collectors_question_is_seen_between_its_asking_and_its_answer(broker, spool, eventually):
    stamps = {}

    def ask():
        asked = time.time_ns() // 1_000_000
        question = {"rebalanceWatchCollector": "poll-1@5", "rebalanceWatchAsked": asked}
        with hooked.Client(broker.address) as client:
            answer = client.ask(hooked.RUNTIME_INFO, question)
        stamps[asked] = time.time_ns() // 1_000_000
        return answer.code == 0

    eventually(ask)  # in its first second a broker has no answer
    for _ in range(20):
        ask()
    found = [event for event in after_a_tick(spool, eventually) if isinstance(event, events.ClockSeen)]
    assert len(found) >= 20
    assert all(event.asked <= event.seen <= stamps[event.asked] for event in found)


def test_a_full_disk_costs_telemetry_and_reports_how_much(broker, spool, eventually):
    with hooked.Client(broker.address) as client:
        body = hooked.heartbeat("c" * 1_000, "g1")
        deadline = time.monotonic() + 100
        while b"disk full" not in broker.log.read_bytes():
            assert time.monotonic() < deadline
            assert client.ask(hooked.HEART_BEAT, body=body).code == 0
        for _ in range(20):
            assert client.ask(hooked.HEART_BEAT, body=body).code == 0  # the broker does its work
        files = sorted(spool.glob("*/*.jsonl"))
        assert sum(file.stat().st_size for file in files) <= MOST_BYTES
        assert files[-1].stat().st_size == 0  # so that every other one is complete, and may go
        kept = hooked.spooled(spool)
        for file in files[:-1]:
            file.unlink()
        eventually(lambda: ticks(hooked.spooled(spool)))
        client.ask(hooked.HEART_BEAT, body=body)  # the next number of this group shows how many there were
        hook_events = after_a_tick(spool, eventually)

    (lost,) = [event for event in hook_events if isinstance(event, events.TelemetryLost)]
    assert lost.reason == "disk full"
    assert lost.count >= 20
    assert hooked.missing(kept + hook_events) == lost.count
    assert max(event.time for event in kept) <= lost.from_time <= lost.to_time <= lost.time
    assert isinstance(hook_events[0], events.BrokerStatus)  # reported again after every error


def test_a_broker_that_ends_marks_the_end_of_its_spool(broker, spool):
    processes.end(broker.process, grace_seconds=100)
    ends = [event.end for event in hooked.spooled(spool) if isinstance(event, events.Tick)]
    assert ends[-1]
    assert not any(ends[:-1])


@pytest.mark.prove  # in short without a broker: `collect/test_broker_hook.py`
def test_a_wrong_path_and_a_full_queue_cost_telemetry_alone(tmp_path, eventually):
    spool = tmp_path / "spool"
    spool.write_text("a file, no folder")
    with hooked.broker(tmp_path, spool=spool, queueCapacity=100) as broker, hooked.Client(broker.address) as client:
        client.make("Orders", "g1")
        assert client.ask(hooked.HEART_BEAT, body=hooked.heartbeat(CLIENT, "g1")).code == 0
        eventually(lambda: b"telemetry is lost: spool can't be written" in broker.log.read_bytes())
        spool.unlink()
        hook_events = after_a_tick(spool, eventually)
        (lost,) = [event for event in hook_events if isinstance(event, events.TelemetryLost)]
        assert lost.reason == "spool can't be written"
        assert any(isinstance(event, events.BrokerStatus) for event in hook_events)

        sent = 3_000
        frames = b"".join(client.frame(hooked.UPDATE_OFFSET, hooked.commit("g1", 0, n), flag=2) for n in range(sent))
        client.send(frames)
        assert client.ask(hooked.GET_CONSUMER_LIST, {"consumerGroup": "g1"}).code == 0

        def all_accounted():
            found = hooked.spooled(spool)
            commits = [event for event in found if isinstance(event, events.UpdateConsumerOffset)]
            lost = [event for event in found if isinstance(event, events.TelemetryLost)]
            full = sum(event.count for event in lost if event.reason == "queue full")
            return full > 0 and len(commits) + full in (sent, sent + 1)  # the question may be among what was lost

        eventually(all_accounted)
        hook_events = after_a_tick(spool, eventually)
    assert hooked.missing(of_group(hook_events, "g1")) > 0


@pytest.mark.prove
def test_a_broker_4_9_tells_the_same_by_the_same_jar(tmp_path, eventually):
    jars_4_9 = jars.ensure("rocketmq4", load_settings().runtime.jars)
    spool = tmp_path / "spool"
    of_4_9, of_5 = (zipfile.ZipFile(jar) for jar in (build(jars_4_9, tmp_path / JAR), hooked.hook_jar(tmp_path / "5")))
    with of_4_9, of_5:
        crcs = [{one.filename: one.CRC for one in jar.infolist() if ".class" in one.filename} for jar in (of_4_9, of_5)]
    assert crcs[0] == crcs[1]
    with hooked.broker(tmp_path, spool=spool, broker_jars=jars_4_9) as broker:
        with hooked.Client(broker.address) as client:
            client.make("Orders", "g1", "g2", "g3")
        mine, _, begin = ask_everything(broker.address)
        with hooked.Client(broker.address) as client:
            client.ask(hooked.HEART_BEAT, body=hooked.heartbeat(CLIENT, "g3"))
            for offset in range(3):
                client.ask(hooked.PULL, hooked.pull("g3", 2, offset, commits=offset))
        hook_events = after_a_tick(spool, eventually)
        send_and_commit(broker.address, eventually)
        assert newest(after_a_tick(spool, eventually)) == {0: -1, 1: 1, 2: -1, 3: 3}
        processes.end(broker.process, grace_seconds=100)
        last = hooked.spooled(spool)[-1]

    assert hooked.is_whole(hook_events)
    assert kinds(hook_events, "g1") == KINDS_OF_G1
    by_kind = {type(event): event for event in of_group(hook_events, "g1") if event.channel == mine}
    asked = by_kind[events.GetConsumerListByGroup]
    assert begin <= by_kind[events.HeartBeat].time <= asked.asked <= asked.time
    assert asked.consumer_ids == (CLIENT,)
    assert set(by_kind[events.LockBatchMq].granted) == set(by_kind[events.LockBatchMq].requested)
    assert (
        sum(event.count for event in of_group(hook_events, "g3", pulls=True) if isinstance(event, events.PullMessage))
        == 3
    )
    assert isinstance(last, events.Tick)  # a broker that is asked to end sends everything first
    assert last.end
