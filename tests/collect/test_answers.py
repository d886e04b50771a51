from pathlib import Path

import msgspec
import pytest

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    BrokerStatus,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpan,
    TopicRoute,
    TopicStats,
)
from streaming.collect import client_responses, cluster_responses
from streaming.collect.emitter import Emitter
from streaming.collect.fastjson import FastjsonError

WIRE = Path(__file__).parent / "wire"  # bodies as a real 5.4.0 broker and name server sent them


def _body(name):
    return (WIRE / f"{name}.body").read_bytes()


def _event(kind, payload, **fields):
    return Emitter("p").emit(
        kind, cluster="C", **{"broker": "b", "group": "orders-group", "asked": 1, **fields}, **payload
    )


def test_members_and_subscriptions_of_a_real_answer():
    event = _event(ConsumerConnection, client_responses.connection(_body("consumer_connection_203")))
    assert [(one.client_id, one.channel, one.version) for one in event.connections] == [
        ("192.0.2.2@i1", "127.0.0.1:40452", 493),
        ("192.0.2.2@i2", "127.0.0.1:40440", 493),
        ("192.0.2.2@i3", "127.0.0.1:40464", 493),
    ]
    assert [one.topic for one in event.subscriptions] == ["%RETRY%orders-group", "Orders"]
    assert event.subscriptions[1].sub_version == 1795255678607
    assert (event.consume_type, event.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")


def test_an_ordered_client_in_go_renews_locks_and_has_no_consume_time():
    """Its lastConsumeTimestamp is the last renewal, its lastLockTimestamp may be 35 s old while all is well."""
    hung = client_responses.running_info((WIRE / "clients/go-2.1.2/307-ordered-hung-stacks.body").read_bytes())
    [queue] = [one for one in hung["queues"] if one.mq == MessageQueue("Orders", "broker-a", 0)]
    assert (queue.lock_time, queue.consume_time) == (1795726559853, None)  # sent: 1795726519065 and 1795726559853
    assert (queue.pull_time, queue.cached_count, queue.transaction_count) == (1795726570138, 101, 1)
    assert queue.dropped is False
    concurrent = client_responses.running_info((WIRE / "clients/go-2.1.2/307-concurrent.body").read_bytes())
    assert all(one.consume_time for one in concurrent["queues"])


def test_a_clients_state_of_a_real_answer():
    event = _event(
        ConsumerRunningInfo, client_responses.running_info(_body("consumer_running_info_307")), client_id="c"
    )
    assert event.orderly
    assert event.strategy == "AllocateMessageQueueAveragely"
    assert event.start_time > 1795255000000
    assert event.properties["pullThresholdForQueue"] == "1000"
    assert set(event.properties) <= set(client_responses.PROPERTIES)
    assert [str(queue.mq) for queue in event.queues] == [
        "%RETRY%orders-group@broker-a:0",
        "Orders@broker-a:0",
        "Orders@broker-a:1",
    ]
    queue = event.queues[1]
    assert (queue.commit_offset, queue.locked, queue.dropped) == (38, True, False)
    assert (queue.lock_time, queue.pull_time, queue.consume_time) == (1795255695252, 1795255707623, 1795255707623)


def test_offsets_of_a_real_answer():
    event = _event(ConsumeStats, client_responses.consume_stats(_body("consume_stats_208")))
    assert [str(row.mq) for row in event.queues] == [
        "%RETRY%orders-group@broker-a:0",
        *(f"Orders@broker-a:{number}" for number in range(4)),
    ]
    row = event.queues[1]
    assert (row.broker_offset, row.consumer_offset, row.pull_offset) == (38, 37, 38)


def test_the_dead_letters_of_a_real_answer():
    event = _event(TopicStats, client_responses.topic_stats(_body("topic_stats_202")), topic="%DLQ%audit-group")
    [row] = event.queues
    assert str(row.mq) == "%DLQ%audit-group@broker-a:0"
    assert (row.min_offset, row.max_offset, row.last_time) == (0, 1, 1795569028873)


def test_the_read_queues_of_a_real_answer():
    event = _event(TopicRoute, cluster_responses.route(_body("route_105"), "Orders"), topic="Orders")
    assert [str(queue) for queue in event.queues] == [f"Orders@broker-a:{number}" for number in range(4)]


def test_the_boot_time_of_a_real_answer():
    event = _event(BrokerStatus, cluster_responses.broker_status(_body("broker_runtime_28")), group=None)
    assert (event.boot_time, event.now) == (1795255650380, 1795255650380 + 57_000)


def test_the_boot_time_from_an_age_in_days_or_unknown():
    body = b'{"table":{"bootTimestamp":"5","runtime":"[ 2 days, 3 hours, 4 minutes, 5 seconds ]"}}'
    assert cluster_responses.broker_status(body)["now"] == 5 + 183_845_000
    for body in (b'{"table":{"bootTimestamp":"5","runtime":"2d"}}', b'{"table":{"bootTimestamp":"5"}}'):
        no_delays = {"delay_levels": [], "timer_behind": 0}
        assert cluster_responses.broker_status(body) == {"boot_time": 5, "now": 0, **no_delays}


def test_delay_levels_in_which_messages_wait():
    """As in apache/rocketmq#4226; of a level whose messages were all delivered nothing is reported."""
    levels = {
        "scheduleMessageOffset_3": "169171,198299",
        "scheduleMessageOffset_2": "7,7",
        "scheduleMessageOffset_x": "1,2",
    }
    timer = {"timerReadBehind": "90", "timerCongestNum": "4"}
    body = msgspec.json.encode({"table": {"bootTimestamp": "5", **levels, **timer}})
    event = _event(BrokerStatus, cluster_responses.broker_status(body), group=None)
    assert [(one.level, one.offset, one.newest) for one in event.delay_levels] == [(3, 169_171, 198_299)]
    assert event.timer_behind == 90_000


def test_a_timer_without_messages_is_not_behind():
    body = b'{"table":{"bootTimestamp":"5","timerReadBehind":"90","timerCongestNum":"0"}}'
    assert cluster_responses.broker_status(body)["timer_behind"] == 0


def test_a_waiting_time_without_a_stored_message_is_omitted():
    spans = [(0, 1_700_000_000_000, 0), (1, 1_700_000_000_000, 4_000), (2, 1_700_000_000_000, 1_700_000_009_001)]
    spans += [(3, -1, 1_700_000_009_001), (4, -1, 0), (5, 1_700_000_000_000, -3)]
    rows = [
        {"messageQueue": {"topic": "T", "brokerName": "b", "queueId": number}, "maxTimeStamp": most, "delayTime": delay}
        for number, most, delay in reversed(spans)
    ]
    body = msgspec.json.encode({"consumeTimeSpanSet": rows})
    event = _event(ConsumeTimeSpan, client_responses.consume_time_span(body), topic="T")
    assert [(row.mq.queue_id, row.delay_time) for row in event.queues] == [(0, 0), (1, 4_000), (4, 0), (5, -3)]


def test_only_brokers_with_read_permission_have_read_queues():
    queue_datas = [
        {"brokerName": "b", "perm": 6, "readQueueNums": 2, "writeQueueNums": 8},
        {"brokerName": "a", "perm": 4, "readQueueNums": 1, "writeQueueNums": 1},
        {"brokerName": "c", "perm": 2, "readQueueNums": 4, "writeQueueNums": 4},
    ]
    queues = cluster_responses.route(msgspec.json.encode({"queueDatas": queue_datas}), "T")["queues"]
    assert [str(mq) for mq in queues] == ["T@a:0", "T@b:0", "T@b:1"]


@pytest.mark.parametrize(
    ("addresses", "broker"),
    [
        ('{0:"h:1",1:"h:2"}', ("h:1", 0, True)),
        ('{"0":"h:1","1":"h:2"}', ("h:1", 0, True)),
        ('{3:"h:3",2:"h:2"}', ("h:2", 2, False)),  # only slaves: they serve reads
        ('{3:"h:3",2:"h:2"},"enableActingMaster":true', ("h:2", 2, True)),
        ('{"1":"h:1"},"enableActingMaster":false', ("h:1", 1, False)),
    ],
)
def test_a_broker_is_asked_at_its_master_or_lowest_slave(addresses, broker):
    data = '"b":{"brokerName":"b","cluster":"C","brokerAddrs":' + addresses + "}"
    gone = '"e":{"brokerName":"e","cluster":"C","brokerAddrs":{}}'
    body = ('{"brokerAddrTable":{' + data + "," + gone + '},"clusterAddrTable":{"C":["b","e"]}}').encode()
    assert cluster_responses.brokers(body) == ([cluster_responses.ListedBroker("C", "b", *broker)], ())


@pytest.mark.parametrize("body", [b"{}", b'{"brokerAddrTable":null}', b'{"clusterAddrTable":{"C":["b"]}}'])
def test_a_list_of_brokers_that_is_missing_is_no_cluster_without_brokers(body):
    with pytest.raises(FastjsonError, match="brokerAddrTable is missing"):
        cluster_responses.brokers(body)


def test_groups_of_a_broker():
    configs = b'{"g":{"groupName":"g"},"h":{},"f":{"consumeMessageOrderly":true}}'
    sent = b'{"subscriptionGroupTable":%s,"dataVersion":{}}' % configs
    assert cluster_responses.groups(sent) == {"g": False, "h": False, "f": True}


def test_queue_keys_may_be_strings_and_numbers_may_be_quoted():
    key = rb'"{\"brokerName\":\"b\",\"queueId\":\"3\",\"topic\":\"T\"}"'
    body = b'{"offsetTable":{' + key + b':{"brokerOffset":"7","consumerOffset":5,"lastTimestamp":0}}}'
    (row,) = _event(ConsumeStats, client_responses.consume_stats(body)).queues
    assert (str(row.mq), row.broker_offset, row.consumer_offset, row.pull_offset) == ("T@b:3", 7, 5, -1)


def test_fields_that_an_old_client_does_not_send_are_unknown():
    queue = (
        '{"commitOffset":-2,"locked":false,"lastLockTimestamp":0,"droped":true,"lastPullTimestamp":1,'
        '"lastConsumeTimestamp":2}'
    )
    key = '{"brokerName":"b","queueId":0,"topic":"T"}'
    body = ('{"properties":{},"subscriptionSet":[],"mqTable":{' + key + ":" + queue + "}}").encode()
    event = _event(ConsumerRunningInfo, client_responses.running_info(body), client_id="c")
    assert (event.orderly, event.strategy, event.pop_queues) == (False, "", ())
    assert event.queues[0].commit_offset == -1  # -2 says that reading the offset failed
    assert event.queues[0].dropped


def test_pop_queues_are_kept():
    key = '{"brokerName":"b","queueId":-1,"topic":"T"}'
    row = '{"droped":false,"lastPopTimestamp":9,"waitAckCount":2}'
    body = (
        '{"properties":{"PROP_CONSUMEORDERLY":"false"},"mqTable":{},"mqPopTable":{' + key + ":" + row + "}}"
    ).encode()
    (pop,) = _event(ConsumerRunningInfo, client_responses.running_info(body), client_id="c").pop_queues
    assert (pop.topic, pop.broker, pop.queue_id, pop.wait_ack_count, pop.pop_time) == ("T", "b", -1, 2, 9)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby@1a2b", "AllocateMachineRoomNearby"),
        ("com.example.Own$1@7", "Own$1"),
        ("Plain", "Plain"),
    ],
)
def test_a_strategy_is_its_simple_class_name(text, name):
    body = msgspec.json.encode({"properties": {"allocateMessageQueueStrategy": text}, "mqTable": {}})
    assert client_responses.running_info(body)["strategy"] == name
