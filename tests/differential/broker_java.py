"""The broker classes of RocketMQ 5.4.0, driven by the same scripts as the model (broker_script.py).

Their `BrokerController` is an object without its constructor run, which would open stores and ports; it has only the
parts that they use. Channels are Netty's own `EmbeddedChannel`.
"""

from pathlib import Path
from typing import Any

import jpype

from tests.differential.broker_script import EXISTING_TOPICS, GROUPS, STEP, TOPICS, Json, Slots, by_group
from tests.differential.standing_clock import StandingClock, now

_BROKER = "org.apache.rocketmq.broker."
_HEARTBEAT = "org.apache.rocketmq.remoting.protocol.heartbeat."
_HEADER = "org.apache.rocketmq.remoting.protocol.header."
HEART_BEAT, UNREGISTER_CLIENT = 34, 35
GET_CONSUMER_LIST_BY_GROUP, UPDATE_CONSUMER_OFFSET, QUERY_CONSUMER_OFFSET = 38, 15, 14


def java(name: str, *args: Any) -> Any:
    """Create an object of a class."""
    return jpype.JClass(name)(*args)


def empty(name: str) -> Any:
    """Create an object of a class without running its constructor."""
    field = jpype.JClass("sun.misc.Unsafe").class_.getDeclaredField("theUnsafe")
    field.setAccessible(True)
    return field.get(None).allocateInstance(jpype.JClass(name).class_)


def field_of(owner: Any, name: str) -> Any:
    """Return a private field, to get or to set its value."""
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def get(owner: Any, name: str) -> Any:
    return field_of(owner, name).get(owner)


def put(owner: Any, **values: Any) -> Any:
    for name, value in values.items():
        field_of(owner, name).set(owner, value)
    return owner


class JavaBroker:
    """The real broker's side, driven by a script."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        settings = java("org.apache.rocketmq.common.BrokerConfig")
        for name, value in config.items():
            getattr(settings, "set" + "".join(map(str.capitalize, name.split("_"))))(value)
        store = java("org.apache.rocketmq.store.config.MessageStoreConfig")
        store.setStorePathRootDir(str(folder))
        self._store_answers = {"min": 0, "memory": False}
        controller = put(empty(_BROKER + "BrokerController"), brokerConfig=settings, messageStoreConfig=store)
        existing = (*EXISTING_TOPICS, *(f"%RETRY%{group}" for group in GROUPS))
        topics = _map(**{topic: java("org.apache.rocketmq.common.TopicConfig", topic) for topic in existing})
        self.slots = Slots()
        self._channels: dict[str, Any] = {}
        self._events: list[Json] = []
        self._sent: list[Json] = []
        self.listener = java(_BROKER + "client.DefaultConsumerIdsChangeListener", controller)
        self.manager = java(_BROKER + "client.ConsumerManager", self._recorder(), None, settings)
        self.manager.appendConsumerIdsChangeListener(self.listener)
        self.offsets = java(_BROKER + "offset.ConsumerOffsetManager", controller)
        self.groups = java(_BROKER + "subscription.SubscriptionGroupManager", controller)
        self.locks = java(_BROKER + "client.rebalance.RebalanceLockManager")
        put(
            controller,
            consumerManager=self.manager,
            consumerOffsetManager=self.offsets,
            subscriptionGroupManager=self.groups,
            topicConfigManager=put(empty(_BROKER + "topic.TopicConfigManager"), topicConfigTable=topics),
            topicQueueMappingManager=java(_BROKER + "topic.TopicQueueMappingManager", controller),
            producerManager=java(_BROKER + "client.ProducerManager"),
            broker2Client=java(_BROKER + "client.net.Broker2Client", controller),
            remotingServerMap=_map(TCP_REMOTING_SERVER=self._remoting_server()),
            messageStore=self._message_store(),
        )
        self.clients = java(_BROKER + "processor.ClientManageProcessor", controller)
        self.consumers = java(_BROKER + "processor.ConsumerManageProcessor", controller)
        self.clock = StandingClock(self._make_older)

    def end(self) -> None:
        """Stop the listener's thread."""
        self.listener.shutdown()

    def advance(self, steps: int) -> None:
        """Let time pass."""
        self._make_older(steps * STEP)

    def _make_older(self, past: int) -> None:
        """Decrease every timestamp, since the clock can't be moved."""
        groups = list(self.manager.getConsumerTable().values())
        members = [info for group in groups for info in group.getChannelInfoTable().values()]
        identity = jpype.JClass("java.lang.System").identityHashCode  # groups of one heartbeat share one object
        for stamped in [*groups, *{identity(info): info for info in members}.values()]:
            stamped.setLastUpdateTimestamp(stamped.getLastUpdateTimestamp() - past)
        for group in get(self.manager, "consumerCompensationTable").values():
            for subscription in group.getSubscriptionTable().values():
                subscription.setSubVersion(subscription.getSubVersion() - past)
        for entries in get(self.locks, "mqLockTable").values():
            for entry in entries.values():
                stamp = field_of(entry, "lastUpdateTimestamp")
                stamp.setLong(entry, stamp.getLong(entry) - past)

    def register(self, slot: int, client: Json, groups: list[Json], how: str, notify: bool) -> Json:
        cid, built = client
        info = self._info(slot, cid)
        info.setLastUpdateTimestamp(now() - built * STEP)
        results = []
        for group in groups:
            data = _consumer_data(group)
            common = (
                data.getGroupName(),
                info,
                data.getConsumeType(),
                data.getMessageModel(),
                data.getConsumeFromWhere(),
            )
            if how == "without_sub":
                changed = self.manager.registerConsumerWithoutSub(*common, notify)
            else:
                subscriptions = data.getSubscriptionDataSet()
                changed = self.manager.registerConsumer(*common, subscriptions, notify, how == "full")
            results.append([bool(changed), *self._result()])
        return results

    def unregister(self, slot: int, cid: str, group: str, notify: bool) -> Json:
        self.manager.unregisterConsumer(group, self._info(slot, cid), notify)
        return self._result()

    def close(self, slot: int) -> Json:
        channel = self.slots.now(slot)
        removed = self.manager.doChannelCloseEvent("", self._channel(channel))
        self.slots.closed(channel)
        return [bool(removed), *self._result(by_group)]

    def late_close(self, slot: int) -> Json:
        removed = self.manager.doChannelCloseEvent("", self._channel(self.slots.former(slot)))
        return [bool(removed), *self._result(by_group)]

    def scan(self) -> Json:
        opened = [name for name, channel in self._channels.items() if channel.isActive()]
        self.manager.scanNotActiveChannel()
        closed = sorted(name for name in opened if not self._channels[name].isActive())
        for name in closed:
            self.slots.closed(name)
        return [self._result(sorted), closed]

    def flush(self) -> Json:
        method = self.listener.getClass().getDeclaredMethod("notifyConsumerChange")
        method.setAccessible(True)
        method.invoke(self.listener)
        return self._result()[1]

    def compensate_basic(self, group: str, consume_type: str, model: str) -> None:
        self.manager.compensateBasicConsumerInfo(
            group, _enum("heartbeat.ConsumeType", consume_type), _enum("heartbeat.MessageModel", model)
        )

    def compensate_sub(self, group: str, topic: str, sub_string: str, age: int) -> None:
        self.manager.compensateSubscribeData(group, topic, _subscription(topic, sub_string, now() - age * STEP))

    def configure(self, group: str, notify: bool) -> None:
        config = java("org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig")
        config.setGroupName(group)
        config.setNotifyConsumerIdsChangedEnable(notify)
        self.groups.updateSubscriptionGroupConfig(config)

    def delete_config(self, group: str) -> None:
        self.groups.deleteSubscriptionGroupConfig(group)

    def heart_beat(self, slot: int, cid: str, groups: list[Json], fingerprint: int, without_sub: bool) -> Json:
        heartbeat = java(_HEARTBEAT + "HeartbeatData")
        heartbeat.setClientID(cid)
        heartbeat.setHeartbeatFingerprint(fingerprint)
        heartbeat.setWithoutSub(without_sub)
        for group in groups:
            heartbeat.getConsumerDataSet().add(_consumer_data(group))
        request = _request(HEART_BEAT)
        request.setBody(heartbeat.encode())
        fields = self._ask(self.clients, request, slot).getExtFields()
        return [str(fields.get("IS_SUB_CHANGE")) == "true", self._result(by_group)]

    def goodbye(self, slot: int, cid: str, group: str) -> Json:
        header = java(_HEADER + "UnregisterClientRequestHeader")
        header.setClientID(cid)
        header.setConsumerGroup(group)
        self._ask(self.clients, _request(UNREGISTER_CLIENT, header), slot)
        return self._result()

    def list_consumers(self, group: str) -> Json:
        header = java(_HEADER + "GetConsumerListByGroupRequestHeader")
        header.setConsumerGroup(group)
        response = self._ask(self.consumers, _request(GET_CONSUMER_LIST_BY_GROUP, header))
        ids: list[str] = []
        if response.getBody() is not None:
            body = jpype.JClass(_HEADER + "GetConsumerListByGroupResponseBody")
            decode = jpype.JClass("org.apache.rocketmq.remoting.protocol.RemotingSerializable").decode
            ids = sorted(map(str, decode(response.getBody(), body.class_).getConsumerIdList()))
        return [response.getCode(), _text(response.getRemark()), ids]

    def update_offset(self, group: str, topic: str, queue: int, offset: int) -> Json:
        header = java(_HEADER + "UpdateConsumerOffsetRequestHeader")
        header.setConsumerGroup(group)
        header.setTopic(topic)
        header.setQueueId(jpype.JInt(queue))
        header.setCommitOffset(jpype.JLong(offset))
        response = self._ask(self.consumers, _request(UPDATE_CONSUMER_OFFSET, header))
        return [response.getCode(), _text(response.getRemark()), None]

    def query_consumer_offset(self, place: Json, least: int, memory: bool, zero: bool | None) -> Json:
        group, topic, queue = place
        self._store_answers = {"min": least, "memory": memory}
        header = java(_HEADER + "QueryConsumerOffsetRequestHeader")
        header.setConsumerGroup(group)
        header.setTopic(topic)
        header.setQueueId(jpype.JInt(queue))
        if zero is not None:
            header.setSetZeroIfNotFound(zero)
        response = self._ask(self.consumers, _request(QUERY_CONSUMER_OFFSET, header))
        found = response.readCustomHeader().getOffset()
        return [response.getCode(), _text(response.getRemark()), None if found is None else int(found)]

    def commit(self, group: str, topic: str, queue: int, offset: int) -> None:
        self.offsets.commitOffset("", group, topic, queue, offset)

    def offset_call(self, name: str, *args: Any) -> Json:
        head, *rest = name.split("_")
        method = getattr(self.offsets, head + "".join(map(str.capitalize, rest)))
        if name == "commit_pull_offset":
            args = ("", *args)
        if name in ("assign_reset_offset", "has_offset_reset", "query_then_erase_reset_offset"):
            group, topic, queue, *offset = args
            args = (topic, group, jpype.JInt(queue), *offset)
        returned = method(*args)
        if isinstance(returned, jpype.JClass("java.util.Set")):
            return sorted(map(str, returned))
        if returned is None or isinstance(returned, bool):
            return returned
        return int(returned)

    def lock(self, group: str, mq: Json, cid: str) -> Json:
        return bool(self.locks.tryLock(group, _queue(mq), cid))

    def lock_batch(self, group: str, mqs: list[Json], cid: str) -> Json:
        granted = self.locks.tryLockBatch(group, _set(map(_queue, mqs)), cid)
        return sorted([str(mq.getTopic()), str(mq.getBrokerName()), int(mq.getQueueId())] for mq in granted)

    def unlock_batch(self, group: str, mqs: list[Json], cid: str) -> None:
        self.locks.unlockBatch(group, _set(map(_queue, mqs)), cid)

    def all_expired(self, group: str) -> Json:
        return bool(self.locks.isLockAllExpired(group))

    def state(self) -> Json:
        names = {channel: name for name, channel in self._channels.items()}
        tables = [get(self.offsets, name) for name in ("offsetTable", "pullOffsetTable", "resetOffsetTable")]
        return {
            "groups": {
                str(e.getKey()): _group(e.getValue(), names) for e in self.manager.getConsumerTable().entrySet()
            },
            "compensated": {
                str(e.getKey()): _compensated(e.getValue())
                for e in get(self.manager, "consumerCompensationTable").entrySet()
            },
            "topics": {topic: sorted(map(str, self.manager.queryTopicConsumeByWho(topic))) for topic in TOPICS},
            "configured": sorted(map(str, self.groups.getSubscriptionGroupTable().keySet())),
            "locks": {str(e.getKey()): _locks(e.getValue()) for e in get(self.locks, "mqLockTable").entrySet()},
            "offsets": [
                {
                    str(e.getKey()): {str(q.getKey()): int(q.getValue()) for q in e.getValue().entrySet()}
                    for e in table.entrySet()
                }
                for table in tables
            ],
        }

    def _channel(self, name: str) -> Any:
        if name not in self._channels:
            self._channels[name] = java("io.netty.channel.embedded.EmbeddedChannel")
        return self._channels[name]

    def _info(self, slot: int, cid: str) -> Any:
        language = jpype.JClass("org.apache.rocketmq.remoting.protocol.LanguageCode").JAVA
        channel = self._channel(self.slots.now(slot))
        return java(_BROKER + "client.ClientChannelInfo", channel, cid, language, 1)

    def _ask(self, processor: Any, request: Any, slot: int = 7) -> Any:
        channel = self._channel(self.slots.now(slot))
        context = jpype.JProxy("io.netty.channel.ChannelHandlerContext", dict={"channel": lambda: channel})
        return processor.processRequest(context, request)

    def _result(self, order: Any = list) -> Json:
        events, sent = order(self._events), sorted(self._sent)
        self._events, self._sent = [], []
        return [events, sent]

    def _name(self, channel: Any) -> str:
        return next(name for name, known in self._channels.items() if known == channel)

    def _recorder(self) -> Any:
        def handle(event: Any, group: Any, args: Any) -> None:
            name, values = str(event.name()), list(args)
            record: Json = [name, str(group)]
            if name == "CHANGE":
                record.append(sorted(map(self._name, values[0])))
            if name == "REGISTER":
                subscriptions, client = values
                record.append(
                    sorted([str(s.getTopic()), str(s.getSubString()), int(s.getSubVersion())] for s in subscriptions)
                )
                record += [self._name(client.getChannel()), str(client.getClientId())]
            if name.startswith("CLIENT_"):
                client, topics = values
                record += [self._name(client.getChannel()), str(client.getClientId()), sorted(map(str, topics))]
            self._events.append(record)

        return jpype.JProxy(
            _BROKER + "client.ConsumerIdsChangeListener", dict={"handle": handle, "shutdown": lambda: None}
        )

    def _remoting_server(self) -> Any:
        def invoke_oneway(channel: Any, request: Any, timeout: int) -> None:
            assert (request.getCode(), timeout) == (40, 10)
            self._sent.append([str(request.readCustomHeader().getConsumerGroup()), self._name(channel)])

        return jpype.JProxy("org.apache.rocketmq.remoting.RemotingServer", dict={"invokeOneway": invoke_oneway})

    def _message_store(self) -> Any:
        answers = {
            "getMinOffsetInQueue": lambda topic, queue: self._store_answers["min"],
            "checkInMemByConsumeOffset": lambda topic, queue, offset, size: (
                self._store_answers["memory"] and (offset, size) == (0, 1)
            ),
            "getStateMachineVersion": lambda: 0,
        }
        return jpype.JProxy("org.apache.rocketmq.store.MessageStore", dict=answers)


def _age(stamp: int) -> int:
    return round((now() - int(stamp)) / STEP)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _enum(name: str, value: str) -> Any:
    return getattr(jpype.JClass(f"org.apache.rocketmq.remoting.protocol.{name}"), value)


def _set(values: Any) -> Any:
    java_set = java("java.util.LinkedHashSet")
    for value in values:
        java_set.add(value)
    return java_set


def _map(**entries: Any) -> Any:
    java_map = java("java.util.concurrent.ConcurrentHashMap")
    for key, value in entries.items():
        java_map.put(key, value)
    return java_map


def _queue(mq: Json) -> Any:
    return java("org.apache.rocketmq.common.message.MessageQueue", *mq)


def _subscription(topic: str, sub_string: str, version: int) -> Any:
    subscription = java(_HEARTBEAT + "SubscriptionData", topic, sub_string)
    subscription.setSubVersion(version)
    return subscription


def _consumer_data(group: Json) -> Any:
    name, consume_type, model, where, subscriptions = group
    data = java(_HEARTBEAT + "ConsumerData")
    data.setGroupName(name)
    data.setConsumeType(_enum("heartbeat.ConsumeType", consume_type))
    data.setMessageModel(_enum("heartbeat.MessageModel", model))
    data.setConsumeFromWhere(getattr(jpype.JClass("org.apache.rocketmq.common.consumer.ConsumeFromWhere"), where))
    data.setSubscriptionDataSet(_set(_subscription(*subscription) for subscription in subscriptions))
    return data


def _request(code: int, header: Any = None) -> Any:
    request = jpype.JClass("org.apache.rocketmq.remoting.protocol.RemotingCommand").createRequestCommand(code, header)
    request.makeCustomHeaderToNet()
    return request


def _group(info: Any, names: dict[Any, str]) -> Json:
    channels = info.getChannelInfoTable()
    return {
        "channels": {
            names[e.getKey()]: [str(e.getValue().getClientId()), _age(e.getValue().getLastUpdateTimestamp())]
            for e in channels.entrySet()
        },
        "subscriptions": {
            str(e.getKey()): [str(e.getValue().getSubString()), int(e.getValue().getSubVersion())]
            for e in info.getSubscriptionTable().entrySet()
        },
        "as": [str(info.getConsumeType().name()), str(info.getMessageModel().name()), str(info.getConsumeFromWhere())],
        "age": _age(info.getLastUpdateTimestamp()),
    }


def _compensated(info: Any) -> Json:
    kinds = [None if kind is None else str(kind.name()) for kind in (info.getConsumeType(), info.getMessageModel())]
    subscriptions = {
        str(e.getKey()): [str(e.getValue().getSubString()), _age(e.getValue().getSubVersion())]
        for e in info.getSubscriptionTable().entrySet()
    }
    return [*kinds, subscriptions]


def _locks(entries: Any) -> Json:
    return {
        f"{e.getKey().getTopic()}@{e.getKey().getBrokerName()}:{e.getKey().getQueueId()}": [
            str(e.getValue().getClientId()),
            _age(e.getValue().getLastUpdateTimestamp()),
        ]
        for e in entries.entrySet()
    }
