"""The hook without a broker: its jar, its settings, its events, and its behaviour in faults."""

import json
import time
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rebalance_model.observe import events
from streaming.base.errors import UserError
from streaming.base.limits import NAME_CHARACTERS
from streaming.cli.main import app
from streaming.collect import broker_hook as building
from streaming.collect.broker_hook import broker_jars, build
from tests.support import hooked
from tests.support.hook_limits import HOOK
from tests.support.hook_process import after_a_tick, await_a_tick, commit, losses, of_kind

pytestmark = pytest.mark.xdist_group("hook jar")  # one JVM for most of them

CLIENTS = Path(__file__).parent / "wire/clients"
JAVA_8 = 52  # the class file version


def test_the_jar_is_for_java_8_and_a_second_build_does_not_change_it(jar):
    made = jar.stat().st_mtime_ns
    assert hooked.hook_jar(jar.parent) == jar
    assert jar.stat().st_mtime_ns == made
    with zipfile.ZipFile(jar) as content:
        service = content.read("META-INF/service/org.apache.rocketmq.remoting.RPCHook").decode()
        assert f"{service.strip().replace('.', '/')}.class" in content.namelist()
        classes = [name for name in content.namelist() if name.endswith(".class")]
        assert {content.read(name)[7] for name in classes} == {JAVA_8}
        assert all(name.startswith("rebalancewatch/") for name in classes)


def test_a_missing_requirement_of_the_build_is_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="contains no rocketmq-remoting jar: specify the broker's home"):
        broker_jars(tmp_path)
    one = Path(building.__file__).with_name("rebalancewatch") / "Call.java"
    (tmp_path / one.name).symlink_to(one)
    monkeypatch.setattr(building, "_SOURCES", tmp_path)  # all of them take javac longer
    with pytest.raises(UserError, match="does not compile against these jars"):
        build([tmp_path / "no.jar"], tmp_path / "hook.jar")
    monkeypatch.setattr(building, "find_java_home", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="No javac was found: install a JDK 17"):
        hooked.hook_jar(tmp_path)
    assert not (tmp_path / "hook.jar").exists()


def test_hook_build_prints_the_jar_and_how_to_install_it(jar, tmp_path):
    (tmp_path / "lib").mkdir()
    for one in hooked.rocketmq_jars():
        (tmp_path / "lib" / one.name).symlink_to(one)
    target = tmp_path / "out" / "hook.jar"
    ran = CliRunner().invoke(app, ["hook", "build", "--broker-home", str(tmp_path), "--to", str(target)])
    assert ran.exit_code == 0, ran.output
    assert target.read_bytes() == jar.read_bytes()  # the same source makes the same bytes
    lines = ran.output.splitlines()
    assert lines[0] == str(target)
    assert lines[1].startswith(f"cp {target} ")
    assert "-Drebalance.watch.spool=" in lines[2]


def test_without_a_spool_the_hook_is_off_and_logs_why(jvm):
    jvm.start()
    commit(jvm, 1)
    assert jvm.said()[-1].endswith("off: set -Drebalance.watch.spool=DIRECTORY to switch it on")


def test_the_brokers_names_come_from_its_configuration(jvm, tmp_path):
    conf = tmp_path / "my broker.conf"
    conf.write_text("brokerClusterName=east\nbrokerName=br\\u00fc/1\nbrokerId=3\nbrokerRole=SLAVE\n")
    spool = tmp_path / "spool"
    jvm.start(command=f"org.apache.rocketmq.broker.BrokerStartup -c {conf} -n 127.0.0.1:9876", spool=str(spool))
    found = after_a_tick(spool)
    (status,) = of_kind(found, events.BrokerStatus)
    assert (status.cluster, status.broker, status.broker_id) == ("east", "brü/1", 3)
    assert status.source_id == f"hook-brü/1-3@{status.boot_time}"
    assert [folder.name for folder in spool.iterdir()] == [f"hook-br%C3%BC%2F1-3@{status.boot_time}"]


def test_properties_override_the_configuration_and_errors_are_logged(jvm, tmp_path):
    spool = tmp_path / "spool"
    jvm.start(spool=str(spool), cluster="west", broker="b", queueCapacity="plenty", fileSeconds=0)
    (status,) = of_kind(after_a_tick(spool), events.BrokerStatus)
    assert (status.cluster, status.broker, status.broker_id) == ("west", "b", 0)
    said = jvm.said()[-3:-1]
    assert "rebalance.watch.queueCapacity must be a whole number" in said[0]
    assert "it is plenty: 50000 is used" in said[0]
    assert "rebalance.watch.fileSeconds must be a whole number from 1" in said[1]


def test_names_with_special_characters_are_unchanged(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    odd = 'q"uote\\ back\nline\ttab\u2028 \U0001f600 \x01'
    body = hooked.heartbeat(odd, f"{odd}-group", topic=odd)
    jvm.call(code=hooked.HEART_BEAT, body=json.dumps(body), answer=0)
    jvm.call(code=hooked.UPDATE_OFFSET, fields=hooked.commit(odd, 0, 1, topic=odd), answer=0, channel=odd)
    found = after_a_tick(tmp_path)
    (beat,) = of_kind(found, events.HeartBeat)
    (committed,) = of_kind(found, events.UpdateConsumerOffset)
    assert (beat.client_id, beat.group, beat.subscriptions[0].topic) == (odd, f"{odd}-group", odd)
    assert (committed.group, committed.topic, committed.channel) == (odd, odd, odd)


@pytest.mark.parametrize(
    ("client", "where", "digits"),
    [
        ("java-4.9.7", "LAST", 13),
        ("java-5.4.0", "LAST", 13),
        ("go-2.1.2", "FIRST", 19),
        ("cpp-2.2.0", "FIRST", 13),  # sends the numbers of the constants, and the version as text
    ],
)
def test_the_heartbeat_of_each_client_is_read_as_the_broker_reads_it(jvm, tmp_path, client, where, digits):
    jvm.start(spool=str(tmp_path))
    body = (CLIENTS / client / "34-ordered.body").read_text()
    jvm.call(code=hooked.HEART_BEAT, body=body, answer=0)
    hook_events = after_a_tick(tmp_path)
    [beat] = of_kind(hook_events, events.HeartBeat)
    assert (beat.consume_type, beat.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert beat.consume_from_where == f"CONSUME_FROM_{where}_OFFSET"
    [orders] = [one for one in beat.subscriptions if one.topic == "Orders"]
    assert (orders.sub_string, orders.expression_type, len(str(orders.sub_version))) == ("*", "TAG", digits)
    assert len(beat.subscriptions) == 2
    assert not losses(hook_events)


def test_unreadable_requests_are_counted_and_leave_no_gap_in_seq(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1)
    jvm.nonsense()
    body = hooked.heartbeat("c", "g", heartbeatFingerprint=2**31)
    jvm.call(code=hooked.HEART_BEAT, body=json.dumps(body), answer=0)
    large = hooked.heartbeat("c", "g")
    large["consumerDataSet"][0]["subscriptionDataSet"][0]["subString"] = "a || " * 200_000
    jvm.call(code=hooked.HEART_BEAT, body=json.dumps(large), answer=0)
    commit(jvm, 2)
    await_a_tick(tmp_path)
    hook_events = after_a_tick(tmp_path)
    assert losses(hook_events) == {"unreadable request": 6, "unreadable field": 1, "event too large": 1}
    assert [event.offset for event in of_kind(hook_events, events.UpdateConsumerOffset)] == [1, 2]
    assert hooked.missing(hook_events) == 1  # the one that was too large; of the others no group is known


def test_a_call_with_a_longer_name_than_an_event_may_have_is_unreadable(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    most, more = "c" * NAME_CHARACTERS, "c" * (NAME_CHARACTERS + 1)
    for name in (most, more):
        jvm.call(code=hooked.HEART_BEAT, body=json.dumps(hooked.heartbeat(name, "g")), answer=0)
        jvm.call(code=hooked.HEART_BEAT, body=json.dumps(hooked.heartbeat("c", "g", topic=name)), answer=0)
        jvm.call(code=hooked.UNREGISTER_CLIENT, fields={"consumerGroup": "g", "clientID": name}, answer=0)
        jvm.call(code=hooked.UNLOCK, body=json.dumps(hooked.locks(name, "g", 0)), answer=0)
        queue = {"topic": "Orders", "brokerName": name, "queueId": 0}
        jvm.call(code=hooked.UNLOCK, body=json.dumps(hooked.locks("c", "g") | {"mqSet": [queue]}), answer=0)
        jvm.call(code=hooked.QUERY_OFFSET, fields={"consumerGroup": "g", "topic": name, "queueId": 0}, answer=0)
        jvm.call(code=hooked.PULL, fields=hooked.pull("g", 0, 5, topic=name))
        jvm.call(code=hooked.RUNTIME_INFO, fields=QUESTION | {"rebalanceWatchCollector": name}, answer=0)
    await_a_tick(tmp_path)
    hook_events = after_a_tick(tmp_path)
    assert losses(hook_events) == {"unreadable request": 7, "unreadable field": 1}
    own = (events.Tick, events.BrokerStatus, events.TelemetryLost)
    assert len([event for event in hook_events if not isinstance(event, own)]) == 9
    assert [len(event.subscriptions) for event in of_kind(hook_events, events.HeartBeat)] == [1, 1, 0]
    assert hooked.is_whole(hook_events)


def test_one_heartbeat_is_reported_for_a_limited_number_of_groups(jvm, tmp_path):
    """Each of its events repeats the client's id, so a small heartbeat could fill the spool."""
    jvm.start(spool=str(tmp_path))
    groups = [f"g-{number}" for number in range(HOOK.HEARTBEAT_GROUPS + 3)]
    jvm.call(code=hooked.HEART_BEAT, body=json.dumps(hooked.heartbeat("c", *groups)), answer=0)
    await_a_tick(tmp_path)
    found = after_a_tick(tmp_path)
    assert [event.group for event in of_kind(found, events.HeartBeat)] == groups[: HOOK.HEARTBEAT_GROUPS]
    assert losses(found) == {"too many groups in a heartbeat": 3}


def test_a_reset_of_offsets_names_the_tool_and_the_queues(jvm, tmp_path):
    """A 4.9 tool names no queue; all of the topic's are meant, as with -1."""
    jvm.start(spool=str(tmp_path))
    asked = {"group": "g", "topic": "Orders", "timestamp": 1_795_255_680_000, "isForce": "true"}
    for queue_id, answer in ((None, 0), (-1, 0), (3, 0), (-1, 16)):
        fields = asked if queue_id is None else asked | {"queueId": queue_id}
        jvm.call(code=hooked.RESET_OFFSET, fields=fields, answer=answer)
    jvm.call(code=hooked.RESET_OFFSET, fields=asked | {"queueId": -2}, answer=0)
    await_a_tick(tmp_path)
    hook_events = after_a_tick(tmp_path)
    resets = of_kind(hook_events, events.InvokeBrokerToResetOffset)
    assert [(one.topic, one.queue_id, one.code) for one in resets] == [
        ("Orders", -1, 0),
        ("Orders", -1, 0),
        ("Orders", 3, 0),
        ("Orders", -1, 16),
    ]
    assert {one.channel for one in resets} == {one.channel for one in resets} - {""}
    assert losses(hook_events) == {"unreadable request": 1}


def test_a_refused_heartbeat_begins_no_sequence(jvm, tmp_path):
    """A client without permission could use up the sequences with invented groups."""
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1, group="known")
    jvm.call(code=hooked.HEART_BEAT, body=json.dumps(hooked.heartbeat("c", "invented", "known")), answer=1)
    jvm.call(code=hooked.HEART_BEAT, body=json.dumps(hooked.heartbeat("c", "accepted")), answer=0)
    await_a_tick(tmp_path)
    hook_events = after_a_tick(tmp_path)
    assert [(event.group, event.code) for event in of_kind(hook_events, events.HeartBeat)] == [
        ("known", 1),
        ("accepted", 0),
    ]
    assert hooked.is_whole(hook_events)
    assert losses(hook_events) == {}


def test_a_call_with_null_arguments_disturbs_no_other(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    jvm.nothing()
    commit(jvm, 1)
    await_a_tick(tmp_path)
    found = after_a_tick(tmp_path)
    assert [event.count for event in of_kind(found, events.TelemetryLost)] == [1]
    assert [event.offset for event in of_kind(found, events.UpdateConsumerOffset)] == [1]


def test_a_sum_of_pulls_ends_after_a_second_or_at_its_queues_next_event(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    jvm.call(code=hooked.PULL, fields=hooked.pull("g", 0, 5))
    jvm.call(code=hooked.PULL, fields=hooked.pull("g", 0, 6), answer=24)
    jvm.call(code=hooked.PULL, fields=hooked.pull("other", 0, 7))
    locks = json.dumps(hooked.locks("c", "g", 0))
    jvm.call(code=hooked.LOCK, body=locks, answer=0, answer_body='{"lockOKMQSet":[]}')
    hook_events = after_a_tick(tmp_path)
    assert hooked.is_whole(hook_events)
    mine = [(type(one).__name__, getattr(one, "code", "")) for one in hook_events if getattr(one, "group", "") == "g"]
    assert mine == [("PullMessage", None), ("PullMessage", 24), ("LockBatchMq", 0)]
    began = time.monotonic()
    for step in range(60):
        jvm.call(code=hooked.PULL, fields=hooked.pull("long", 0, step))
        time.sleep(0.05)
    seconds = time.monotonic() - began
    hook_events = after_a_tick(tmp_path)
    sums = [event for event in of_kind(hook_events, events.PullMessage) if event.group == "long"]
    assert hooked.is_whole(hook_events)  # it looks at the span of each
    assert sum(event.count for event in sums) == 60
    assert 3 <= len(sums) <= 2 * seconds + 2  # a slow machine takes longer for them


def test_an_unlock_that_a_replica_forwards_is_no_event(jvm, tmp_path):
    """With lockInStrictMode a broker forwards each unlock to every replica, itself included."""
    jvm.start(spool=str(tmp_path))
    body = json.dumps(hooked.locks("c", "g", 0))
    forwarded = json.dumps(hooked.locks("c", "g", 0) | {"onlyThisBroker": True})
    for one in (body, forwarded):
        jvm.call(code=hooked.UNLOCK, body=one)
        jvm.call(code=hooked.LOCK, body=one, answer=0, answer_body='{"lockOKMQSet":[]}')
    hook_events = after_a_tick(tmp_path)
    assert [event.only_this_broker for event in of_kind(hook_events, events.LockBatchMq)] == [False, True]
    assert len(of_kind(hook_events, events.UnlockBatchMq)) == 1
    assert hooked.is_whole(hook_events)


def test_a_sum_of_pulls_is_ordered_by_their_start(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    for queue_id in range(8):
        first, then = (hooked.pull("g", queue_id, offset, commits=offset) for offset in (5, 6))
        jvm.overtake(code=hooked.PULL, first=first, then=then)
    found = after_a_tick(tmp_path)
    sums = [
        pulls for pulls in of_kind(found, events.PullMessage) if pulls.count == 2
    ]  # a tick between two ends their sum
    assert sums
    assert {(one.first_offset, one.last_offset, one.commit_offset) for one in sums} == {(5, 6, 6)}


def test_events_dropped_by_a_full_queue_are_a_gap_in_every_group(jvm, tmp_path):
    jvm.start(spool=str(tmp_path), queueBytes=70_000)
    commit(jvm, 1)
    commit(jvm, 1, group="bystander")
    await_a_tick(tmp_path)
    commit(jvm, 0, times=2_000)
    await_a_tick(tmp_path)  # the queue has room again
    commit(jvm, 2)
    commit(jvm, 2, group="bystander")
    commit(jvm, 1, group="newcomer")
    hook_events = after_a_tick(tmp_path)
    lost = of_kind(hook_events, events.TelemetryLost)
    assert {event.reason for event in lost} == {"queue full"}
    kept = [
        event for event in of_kind(hook_events, events.UpdateConsumerOffset) if event.group == "g" and event.offset == 0
    ]
    assert len(kept) + sum(event.count for event in lost) == 2_000
    bystander = [event.seq for event in hook_events if getattr(event, "group", "") == "bystander"]
    assert bystander[0] == 1
    assert bystander[1] > 2
    assert next(event.seq for event in hook_events if getattr(event, "group", "") == "newcomer") > 1


@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_a_killed_writer_is_replaced(jvm, tmp_path, how):
    jvm.start(spool=str(tmp_path))
    commit(jvm, 1)
    await_a_tick(tmp_path)
    jvm.kill(how=how)
    commit(jvm, 2)
    found = after_a_tick(tmp_path)
    assert [event.offset for event in of_kind(found, events.UpdateConsumerOffset)] == [1, 2]
    assert hooked.missing(found) == 0


def test_a_partly_written_line_is_cut_off_and_a_new_file_begins(new_jvm, tmp_path):
    jvm = new_jvm()  # the limit stays
    spool = tmp_path / "spool"
    jvm.start(spool=str(spool), fileSeconds=60)
    jvm.limit(size=10_000)
    for offset in range(200):
        commit(jvm, offset)
        time.sleep(0.02)
    hook_events = after_a_tick(spool)
    files = sorted(spool.glob("*/*.jsonl"))
    assert len(files) > 1
    assert all(file.read_bytes().endswith(b"\n") for file in files if file.stat().st_size)
    lost = of_kind(hook_events, events.TelemetryLost)
    assert {event.reason for event in lost} == {"spool can't be written"}
    assert 0 < hooked.missing(hook_events) <= sum(event.count for event in lost)


def test_the_last_events_are_on_disk_when_the_jvm_ends(new_jvm, tmp_path):
    jvm = new_jvm()
    spool = tmp_path / "spool"
    jvm.start(spool=str(spool))
    commit(jvm, 7)
    jvm.leave()
    hook_events = hooked.spooled(spool)
    assert [event.offset for event in of_kind(hook_events, events.UpdateConsumerOffset)] == [7]
    assert len(of_kind(hook_events, events.BrokerStatus)) == 1
    assert isinstance(hook_events[-1], events.Tick)
    assert [tick.end for tick in of_kind(hook_events, events.Tick)][-2:] in (
        [True],
        [False, True],
    )  # a slow start has ticks, too


def test_the_ticks_of_a_running_hook_do_not_mark_its_end(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    assert {tick.end for tick in of_kind(after_a_tick(tmp_path), events.Tick)} == {False}


QUESTION = {"rebalanceWatchCollector": "poll-1@5", "rebalanceWatchAsked": 1_234}


def test_a_collectors_request_is_an_event_with_the_hooks_time(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    before = time.time_ns() // 1_000_000
    jvm.call(code=hooked.RUNTIME_INFO, fields=QUESTION, answer=0)
    jvm.call(code=hooked.RUNTIME_INFO, answer=0)  # an administrator's
    hook_events = after_a_tick(tmp_path)
    (seen,) = of_kind(hook_events, events.ClockSeen)
    assert (seen.collector, seen.asked) == ("poll-1@5", 1_234)
    assert before <= seen.seen <= seen.time
    assert hooked.is_whole(hook_events)
    assert not of_kind(hook_events, events.TelemetryLost)


def newest(jvm, spool, offset=0, topic="Orders"):
    """Commit, and return the newest offset of queue 0 in that event."""
    jvm.call(code=hooked.UPDATE_OFFSET, fields=hooked.commit("g", 0, offset, topic=topic), answer=0)
    return of_kind(after_a_tick(spool), events.UpdateConsumerOffset)[-1].broker_offset


def test_a_queues_newest_offset_is_that_of_the_last_answered_send(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    jvm.send(code=hooked.SEND, fields=hooked.send(0))
    assert newest(jvm, tmp_path) == -1, "a broker that answers later shows nothing"
    jvm.send(code=hooked.SEND, fields=hooked.send(0), offset=6)
    assert newest(jvm, tmp_path) == 7
    jvm.send(code=hooked.SEND_V2, fields=hooked.short(hooked.send(0)), offset=9)
    jvm.send(code=hooked.SEND_V2, fields=hooked.short(hooked.send(0)), offset=8)  # answered by another thread
    jvm.send(code=hooked.SEND, fields=hooked.send(1), offset=50, queue_id=1)
    jvm.send(code=hooked.SEND, fields=hooked.send(0), offset=60, answer=14)  # SERVICE_NOT_AVAILABLE
    assert newest(jvm, tmp_path, offset=10) == 10
    assert newest(jvm, tmp_path, offset=11) == -1, "another writer stores there, too"
    body = hooked.batch(b"one", b"two", b"three").hex()
    jvm.send(code=hooked.SEND_BATCH, fields=hooked.short(hooked.send(0)), offset=10, body=body)
    jvm.call(code=hooked.PULL, fields=hooked.pull("g", 0, 12))
    (pull,) = of_kind(after_a_tick(tmp_path), events.PullMessage)
    assert (pull.last_offset, pull.broker_offset) == (12, 13)


@pytest.mark.parametrize(
    "properties", ["KEYS\x01k\x02DELAY\x013\x02", "TRAN_MSG\x01true\x02", "TIMER_DELAY_MS\x019\x02"]
)
def test_a_topic_with_delayed_messages_has_no_known_newest_offset(jvm, tmp_path, properties):
    jvm.start(spool=str(tmp_path))
    jvm.send(code=hooked.SEND, fields=hooked.send(0), offset=6)
    jvm.send(code=hooked.SEND, fields=hooked.send(0, properties=properties), offset=900)
    jvm.send(code=hooked.SEND, fields=hooked.send(0), offset=7)
    assert newest(jvm, tmp_path) == -1


def test_a_retry_topic_has_no_known_newest_offset(jvm, tmp_path):
    jvm.start(spool=str(tmp_path))
    jvm.send(code=hooked.SEND, fields=hooked.send(0, topic="%RETRY%g"), offset=6)
    assert newest(jvm, tmp_path, topic="%RETRY%g") == -1
