"""Compare single rules of the broker's side with the real classes: timeouts, defaults, expressions, majorities."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import jpype
import msgspec
import pytest

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_group_info import (
    ClientChannelInfo,
    ConsumerData,
    SubscriptionError,
    build_subscription_data,
    java_hash_code,
)
from rebalance_model.broker.consumer_manager import ConsumerManager
from rebalance_model.broker.rebalance_lock_manager import RebalanceLockManager
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.broker.client_manage_processor import HeartbeatData
from simulation.rocketmq.broker.lock_in_strict_mode import ANSWER_TIMEOUT, granted_by, quorum
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupConfig
from tests.differential.broker_java import empty, field_of, get, java, put

QUEUE = ("T", "b", 0)


def _in_one_millisecond(act: Callable[[int], Any]) -> Any:
    """Return the result of `act` when it runs within one millisecond of Java's clock, so that its "now" is known."""
    clock = jpype.JClass("java.lang.System").currentTimeMillis
    for _ in range(10_000):
        now = clock()
        found = act(now)
        if clock() == now:
            return found
    pytest.fail("the clock never stood still")


@pytest.mark.parametrize("age", [59_999, 60_000, 60_001])
def test_a_lock_expires_at_the_same_millisecond(jvm, age):
    def real(now: int) -> list[bool]:
        locks = java("org.apache.rocketmq.broker.client.rebalance.RebalanceLockManager")
        mq = java("org.apache.rocketmq.common.message.MessageQueue", *QUEUE)
        locks.tryLock("G", mq, "c0")
        entry = get(locks, "mqLockTable").get("G").get(mq)
        field_of(entry, "lastUpdateTimestamp").setLong(entry, now - age)
        return [bool(locks.isLockAllExpired("G")), bool(locks.tryLock("G", mq, "c1"))]

    model = RebalanceLockManager()
    mq = MessageQueue(*QUEUE)
    model.try_lock("G", mq, "c0", 1_000_000 - age)
    expected = [model.is_lock_all_expired("G", 1_000_000), model.try_lock("G", mq, "c1", 1_000_000)]
    assert expected == _in_one_millisecond(real) == [age > 60_000] * 2


@pytest.mark.parametrize("age", [119_999, 120_000, 120_001])
def test_a_member_expires_at_the_same_millisecond(jvm, age):
    manager_of, info_of = _real_managers()

    def real(now: int) -> bool:
        manager = manager_of()
        info = info_of()
        _register(manager, info)
        info.setLastUpdateTimestamp(now - age)
        manager.scanNotActiveChannel()
        return bool(manager.getConsumerTable().isEmpty())

    model = ConsumerManager()
    data = ConsumerData("G", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", ())
    model.register_consumer(data, ClientChannelInfo("k0", "c0"), 1_000_000 - age, notify=True)
    model.scan_not_active_channel(1_000_000)
    assert (not model.consumer_table) is _in_one_millisecond(real) is (age > 120_000)


def _real_managers() -> tuple[Callable[[], Any], Callable[[], Any]]:
    config = java("org.apache.rocketmq.common.BrokerConfig")
    handler = {"handle": lambda *_: None, "shutdown": lambda: None}
    listener = jpype.JProxy("org.apache.rocketmq.broker.client.ConsumerIdsChangeListener", dict=handler)
    language = jpype.JClass("org.apache.rocketmq.remoting.protocol.LanguageCode").JAVA
    channel = java("io.netty.channel.embedded.EmbeddedChannel")
    manager = "org.apache.rocketmq.broker.client.ConsumerManager"
    info = "org.apache.rocketmq.broker.client.ClientChannelInfo"
    return lambda: java(manager, listener, None, config), lambda: java(info, channel, "c0", language, 1)


def _register(manager: Any, info: Any) -> None:
    heartbeat = "org.apache.rocketmq.remoting.protocol.heartbeat."
    manager.registerConsumerWithoutSub(
        "G",
        info,
        jpype.JClass(heartbeat + "ConsumeType").CONSUME_PASSIVELY,
        jpype.JClass(heartbeat + "MessageModel").CLUSTERING,
        jpype.JClass("org.apache.rocketmq.common.consumer.ConsumeFromWhere").CONSUME_FROM_LAST_OFFSET,
        True,
    )


def test_every_default_equals_javas(jvm):
    settings = java("org.apache.rocketmq.common.BrokerConfig")
    store = java("org.apache.rocketmq.store.config.MessageStoreConfig")
    for name, value in msgspec.structs.asdict(BrokerConfig()).items():
        assert value == _read(store if name == "total_replicas" else settings, name), name
    group = java("org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig")
    group.setGroupName("G")
    for name, value in msgspec.structs.asdict(SubscriptionGroupConfig("G")).items():
        assert value == _read(group, name), name
    heartbeat = java("org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData")
    for name in ("heartbeat_fingerprint", "without_sub"):
        assert getattr(HeartbeatData("c0", ()), name) == _read(heartbeat, name), name


def _read(bean: Any, name: str) -> Any:
    camel = "".join(map(str.capitalize, name.split("_")))
    return getattr(bean, f"get{camel}" if hasattr(bean, f"get{camel}") else f"is{camel}")()


def _expressions() -> Iterator[str | None]:
    yield from (None, "", "*", " ", "||", "|||", "||||", " || ", "TagA||TagA", "a || b||", "||a", "\u00a0a||\u001fb")
    draw = random.Random(0)
    parts = ("|", "||", "a", "b", "*", " ", "\t", "\0", "\u3000", "é", "😀", "TagA")
    for _ in range(2_000):
        yield "".join(draw.choices(parts, k=draw.randrange(8)))


@pytest.mark.parametrize("kind", ["TAG", None, "SQL92", ""])
def test_an_expression_becomes_the_same_subscription(jvm, kind):
    api = jpype.JClass("org.apache.rocketmq.remoting.protocol.filter.FilterAPI")
    for text in _expressions():
        assert _built_by_model(text, kind) == _built_by_java(api, text, kind), repr(text)


def _built_by_java(api: Any, text: str | None, kind: str | None) -> Any:
    try:
        built = api.build("T", text, kind)
    except jpype.JException as error:
        return str(error.getMessage())
    tags, codes = sorted(map(str, built.getTagsSet())), sorted(map(int, built.getCodeSet()))
    return [str(built.getTopic()), str(built.getSubString()), str(built.getExpressionType()), tags, codes]


def _built_by_model(text: str | None, kind: str | None) -> Any:
    try:
        made = build_subscription_data("T", text, 7, kind)
    except SubscriptionError as error:
        return str(error)
    return [made.topic, made.sub_string, made.expression_type, sorted(made.tags_set), sorted(made.code_set)]


def test_every_text_has_javas_hash_code(jvm):
    for text in filter(None, _expressions()):
        assert java_hash_code(text) == java("java.lang.String", text).hashCode(), repr(text)


class Replicas:
    """The brokers of one name, each with the real lock table; clients call the first."""

    def __init__(self, replicas: int, total: int, *, strict: bool) -> None:
        locks = "org.apache.rocketmq.broker.client.rebalance.RebalanceLockManager"
        self.tables = [java(locks) for _ in range(replicas)]
        self.down: set[int] = set()
        config = java("org.apache.rocketmq.common.BrokerConfig")
        config.setLockInStrictMode(strict)
        store = java("org.apache.rocketmq.store.config.MessageStoreConfig")
        store.setTotalReplicas(total)
        group = java("org.apache.rocketmq.remoting.protocol.body.BrokerMemberGroup", "cluster", "b")
        for broker_id in range(replicas):
            group.getBrokerAddrs().put(jpype.JLong(broker_id), str(broker_id))
        client = jpype.JProxy("org.apache.rocketmq.remoting.RemotingClient", dict={"invokeAsync": self._ask})
        controller = put(
            empty("org.apache.rocketmq.broker.BrokerController"),
            brokerConfig=config,
            messageStoreConfig=store,
            brokerMemberGroup=group,
            rebalanceLockManager=self.tables[0],
            brokerOuterAPI=put(empty("org.apache.rocketmq.broker.out.BrokerOuterAPI"), remotingClient=client),
        )
        processor = empty("org.apache.rocketmq.broker.processor.AdminBrokerProcessor")
        self._processor = put(processor, brokerController=controller)

    def lock(self, mqs: list[tuple[str, str, int]], cid: str, *, only_this_broker: bool) -> list[int]:
        body = java("org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody")
        body.setConsumerGroup("G")
        body.setClientId(cid)
        body.setOnlyThisBroker(only_this_broker)
        for mq in mqs:
            body.getMqSet().add(java("org.apache.rocketmq.common.message.MessageQueue", *mq))
        request = jpype.JClass("org.apache.rocketmq.remoting.protocol.RemotingCommand").createRequestCommand(41, None)
        request.setBody(body.encode())
        answer = self._processor.processRequest(None, request)
        reply = jpype.JClass("org.apache.rocketmq.remoting.protocol.body.LockBatchResponseBody")
        decode = jpype.JClass("org.apache.rocketmq.remoting.protocol.RemotingSerializable").decode
        return sorted(int(mq.getQueueId()) for mq in decode(answer.getBody(), reply.class_).getLockOKMQSet())

    def _ask(self, address: str, request: Any, timeout: int, callback: Any) -> None:
        assert timeout == ANSWER_TIMEOUT
        if int(address) in self.down:
            callback.operationFail(java("java.lang.RuntimeException", "down"))
            return
        decode = jpype.JClass("org.apache.rocketmq.remoting.protocol.RemotingSerializable").decode
        body = decode(
            request.getBody(), jpype.JClass("org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody").class_
        )
        assert body.isOnlyThisBroker()
        granted = self.tables[int(address)].tryLockBatch(body.getConsumerGroup(), body.getMqSet(), body.getClientId())
        reply = java("org.apache.rocketmq.remoting.protocol.body.LockBatchResponseBody")
        reply.setLockOKMQSet(granted)
        answer = jpype.JClass("org.apache.rocketmq.remoting.protocol.RemotingCommand").createResponseCommand(0, "")
        answer.setBody(reply.encode())
        callback.operationSucceed(answer)


@pytest.mark.parametrize("seed", range(60))
def test_a_majority_grants_the_same_queues(jvm, seed):
    draw = random.Random(seed)
    replicas, total, strict = draw.randrange(1, 5), draw.randrange(0, 6), draw.random() < 0.8
    real = Replicas(replicas, total, strict=strict)
    model = [RebalanceLockManager() for _ in range(replicas)]
    config = BrokerConfig(lock_in_strict_mode=strict, total_replicas=total)
    for _ in range(12):
        mqs = [("T", "b", queue) for queue in draw.sample(range(5), draw.randrange(5))]
        cid, only_this_broker = draw.choice(("c0", "c1")), draw.random() < 0.3
        real.down = {broker for broker in range(1, replicas) if draw.random() < 0.3}
        own = model[0].try_lock_batch("G", [MessageQueue(*mq) for mq in mqs], cid, 0)
        needed = quorum(config, only_this_broker=only_this_broker)
        others = [b for b in range(1, replicas) if b not in real.down] if needed > 1 else []
        granted = granted_by(needed, own, [model[b].try_lock_batch("G", own, cid, 0) for b in others])
        expected = real.lock(mqs, cid, only_this_broker=only_this_broker)
        assert sorted(mq.queue_id for mq in granted) == expected
        for broker, table in enumerate(real.tables):
            entries = get(table, "mqLockTable").get("G") or {}
            by_queue = (
                {int(e.getKey().getQueueId()): str(get(e.getValue(), "clientId")) for e in entries.entrySet()}
                if entries
                else {}
            )
            locks = model[broker].mq_lock_table.get("G", {})
            assert by_queue == {mq.queue_id: entry.client_id for mq, entry in locks.items()}
