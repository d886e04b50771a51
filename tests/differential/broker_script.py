"""Scripts of random broker operations, and the model's answers to them.

A script is JSON: a configuration and a list of operations. `ModelBroker` and `JavaBroker` (broker_java.py) have a
method for each operation, and both return plain values: the operation's answer and the whole state. So the two can be
compared after each step, and Java's answers can be recorded.

Time moves in steps of 7 s, no sum of which is within a second of a timeout. Java's clock is the real one, so a
timestamp is compared by its age in steps. The exact boundaries have their own tests.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_group_info import (
    TAG,
    ClientChannelInfo,
    ConsumerData,
    ConsumerGroupInfo,
    SubscriptionData,
)
from rebalance_model.broker.consumer_manager import (
    AnyConsumerGroupEvent,
    ClientRegister,
    ClientUnregister,
    ConsumerManager,
    MemberChange,
    Outcome,
    Register,
)
from rebalance_model.broker.rebalance_lock_manager import RebalanceLockManager
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.broker.client_manage_processor import ClientManageProcessor, HeartbeatData
from simulation.rocketmq.broker.consumer_ids_change_listener import ConsumerIdsChangeListener, NotifyConsumerIdsChanged
from simulation.rocketmq.broker.consumer_manage_processor import ConsumerManageProcessor, Response
from simulation.rocketmq.broker.consumer_offset_manager import ConsumerOffsetManager
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupConfig, SubscriptionGroupManager

VECTORS = Path(__file__).parent / "vectors" / "broker.json"
STEP = 7_000
GROUPS = ("G", "H", "a|b", "CID_RMQ_SYS_x", "not a name")
TOPICS = ("T", "U", "%RETRY%G")
CLIENTS = ("c0", "c1", "c2", "é😀")
QUEUES = tuple((topic, broker, queue) for topic in ("T", "U") for broker in ("b", "c") for queue in (0, 1))
OFFSET_TOPICS = ("T", "U", "T@x", "")
OFFSET_GROUPS = ("G", "H", "G@", "x@y", "")
EXISTING_TOPICS = ("T", "T@x")

Json = Any
Operation = list[Any]


def fingerprint(state: Any) -> str:
    """Return a short hash of a whole state."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:12]


class Slots:
    """Connections by place: after a channel is closed, the client of its place has another one."""

    def __init__(self) -> None:
        self._times = dict.fromkeys(range(8), 0)

    def now(self, slot: int) -> str:
        return f"{slot}#{self._times[slot]}"

    def former(self, slot: int) -> str:
        return f"{slot}#{self._times[slot] - 1}"

    def closed(self, channel: str) -> None:
        slot, times = map(int, channel.split("#"))
        self._times[slot] = max(self._times[slot], times + 1)


class ModelBroker:
    """The model's broker, driven by a script."""

    def __init__(self, config: dict[str, Any]) -> None:
        settings = BrokerConfig(**config)
        self.now = 10**12
        self.slots = Slots()
        self._closed: set[str] = set()
        self.manager = ConsumerManager(settings)
        self.groups = SubscriptionGroupManager(settings)
        self.clients = ClientManageProcessor(self.manager, self.groups)
        self.offsets = ConsumerOffsetManager(use_server_side_reset_offset=settings.use_server_side_reset_offset)
        self.consumers = ConsumerManageProcessor(self.manager, self.groups, self.offsets)
        self.locks = RebalanceLockManager()
        self.listener = ConsumerIdsChangeListener(settings)

    def advance(self, steps: int) -> None:
        self.now += steps * STEP

    def register(self, slot: int, client: Json, groups: list[Json], how: str, notify: bool) -> Json:
        cid, built = client
        info = ClientChannelInfo(self.slots.now(slot), cid, "JAVA", 1, self.now - built * STEP)
        results = []
        for group in groups:
            data = _consumer_data(group)
            if how == "without_sub":
                outcome = self.manager.register_consumer_without_sub(data, info, self.now, notify=notify)
            else:
                outcome = self.manager.register_consumer(
                    data, info, self.now, notify=notify, update_subscription=how == "full"
                )
            results.append(self._result(outcome))
        return results

    def unregister(self, slot: int, cid: str, group: str, notify: bool) -> Json:
        client = ClientChannelInfo(self.slots.now(slot), cid)
        return self._result(self.manager.unregister_consumer(group, client, notify=notify))[1:]

    def close(self, slot: int) -> Json:
        channel = self.slots.now(slot)
        self.slots.closed(channel)
        return self._result(self.manager.do_channel_close_event(channel), by_group)

    def late_close(self, slot: int) -> Json:
        return self._result(self.manager.do_channel_close_event(self.slots.former(slot)), by_group)

    def scan(self) -> Json:
        outcome = self.manager.scan_not_active_channel(self.now)
        closing = sorted(set(outcome.closing) - self._closed)  # to close a channel again changes nothing
        self._closed.update(closing)
        for channel in closing:
            self.slots.closed(channel)
        return [self._result(outcome, sorted)[1:], closing]

    def flush(self) -> Json:
        return _notifications(self.listener.flush())

    def compensate_basic(self, group: str, consume_type: str, model: str) -> None:
        self.manager.compensate_basic_consumer_info(group, consume_type, model)

    def compensate_sub(self, group: str, topic: str, sub_string: str, age: int) -> None:
        subscription = SubscriptionData(topic, sub_string, TAG, self.now - age * STEP)
        self.manager.compensate_subscribe_data(group, subscription)

    def configure(self, group: str, notify: bool) -> None:
        self.groups.update_subscription_group_config(
            SubscriptionGroupConfig(group, notify_consumer_ids_changed_enable=notify)
        )

    def delete_config(self, group: str) -> None:
        self.groups.delete_subscription_group_config(group)

    def heart_beat(self, slot: int, cid: str, groups: list[Json], fingerprint: int, without_sub: bool) -> Json:
        heartbeat = HeartbeatData(cid, tuple(map(_consumer_data, groups)), fingerprint, without_sub)
        reply = self.clients.heart_beat(self.slots.now(slot), heartbeat, self.now, "JAVA", 1)
        outcome = Outcome(changed=False, events=reply.events)
        return [reply.is_sub_change, self._result(outcome, by_group)[1:]]

    def goodbye(self, slot: int, cid: str, group: str) -> Json:
        return self._result(self.clients.unregister_client(self.slots.now(slot), cid, group))[1:]

    def list_consumers(self, group: str) -> Json:
        response = self.consumers.get_consumer_list_by_group(group)
        return [response.code, response.remark, sorted(response.consumer_ids)]

    def update_offset(self, group: str, topic: str, queue: int, offset: int) -> Json:
        mq = MessageQueue(topic, "b", queue)
        return _response(
            self.consumers.update_consumer_offset(group, mq, offset, topic_exists=topic in EXISTING_TOPICS)
        )

    def query_consumer_offset(self, place: Json, least: int, memory: bool, zero: bool | None) -> Json:
        group, topic, queue = place
        response = self.consumers.query_consumer_offset(
            group,
            MessageQueue(topic, "b", queue),
            min_offset=least,
            zero_in_memory=memory,
            set_zero_if_not_found=zero is not False,
        )
        return _response(response)

    def commit(self, group: str, topic: str, queue: int, offset: int) -> None:
        self.offsets.commit_offset(group, topic, queue, offset)

    def offset_call(self, name: str, *args: Any) -> Json:
        found = getattr(self.offsets, name)(*args)
        return sorted(found) if isinstance(found, frozenset) else found

    def lock(self, group: str, mq: Json, cid: str) -> Json:
        return self.locks.try_lock(group, MessageQueue(*mq), cid, self.now)

    def lock_batch(self, group: str, mqs: list[Json], cid: str) -> Json:
        granted = self.locks.try_lock_batch(group, [MessageQueue(*mq) for mq in mqs], cid, self.now)
        return sorted([mq.topic, mq.broker, mq.queue_id] for mq in granted)

    def unlock_batch(self, group: str, mqs: list[Json], cid: str) -> None:
        self.locks.unlock_batch(group, [MessageQueue(*mq) for mq in mqs], cid)

    def all_expired(self, group: str) -> Json:
        return self.locks.is_lock_all_expired(group, self.now)

    def state(self) -> Json:
        return {
            "groups": {group: self._info(info) for group, info in self.manager.consumer_table.items()},
            "compensated": {
                group: [
                    info.consume_type or None,
                    info.message_model or None,
                    {t: [s.sub_string, self._age(s.sub_version)] for t, s in info.subscription_table.items()},
                ]
                for group, info in self.manager.consumer_compensation_table.items()
            },
            "topics": {topic: sorted(self.manager.query_topic_consume_by_who(topic)) for topic in TOPICS},
            "configured": sorted(self.groups.subscription_group_table),
            "locks": {
                group: {str(mq): [entry.client_id, self._age(entry.last_update_timestamp)] for mq, entry in mqs.items()}
                for group, mqs in self.locks.mq_lock_table.items()
            },
            "offsets": [
                {key: {str(queue): offset for queue, offset in queues.items()} for key, queues in table.items()}
                for table in (
                    self.offsets.offset_table,
                    self.offsets.pull_offset_table,
                    self.offsets.reset_offset_table,
                )
            ],
        }

    def _info(self, info: ConsumerGroupInfo) -> Json:
        return {
            "channels": {
                channel: [client.client_id, self._age(client.last_update_timestamp)]
                for channel, client in info.channel_info_table.items()
            },
            "subscriptions": {t: [s.sub_string, s.sub_version] for t, s in info.subscription_table.items()},
            "as": [info.consume_type, info.message_model, info.consume_from_where],
            "age": self._age(info.last_update_timestamp),
        }

    def _age(self, stamp: int) -> int:
        return round((self.now - stamp) / STEP)

    def _result(self, outcome: Outcome, order: Callable[[Iterable[Json]], list[Json]] = list) -> Json:
        events = order(map(_event, outcome.events))
        sent = _notifications(self.listener.handle(outcome.events))
        return [outcome.changed, events, sent]


def by_group(events: Iterable[Json]) -> list[Json]:
    """Sort by group: Java visits groups in the order of their hash, so only the order within a group is significant."""
    return sorted(events, key=lambda event: event[1])


def _consumer_data(group: Json) -> ConsumerData:
    name, consume_type, model, where, subscriptions = group
    return ConsumerData(
        name, consume_type, model, where, tuple(SubscriptionData(t, s, TAG, version) for t, s, version in subscriptions)
    )


def _event(event: AnyConsumerGroupEvent) -> Json:
    if isinstance(event, MemberChange):
        return ["CHANGE", event.group, sorted(event.channels)]
    if isinstance(event, Register):
        assert event.client is not None
        subscriptions = sorted([s.topic, s.sub_string, s.sub_version] for s in event.subscriptions)
        return ["REGISTER", event.group, subscriptions, event.client.channel, event.client.client_id]
    if isinstance(event, ClientRegister | ClientUnregister):
        name = "CLIENT_REGISTER" if isinstance(event, ClientRegister) else "CLIENT_UNREGISTER"
        return [name, event.group, event.client.channel, event.client.client_id, sorted(event.topics)]
    return ["UNREGISTER", event.group]


def _notifications(sent: list[NotifyConsumerIdsChanged]) -> Json:
    return sorted([notification.group, notification.channel] for notification in sent)


def _response(response: Response) -> Json:
    return [response.code, response.remark, response.offset]


class Writer:
    """Writes random scripts with few names, so that operations often concern the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def script(self, kind: str, length: int) -> Json:
        flip = self._random.random
        config = {
            "enable_fast_channel_event_process": flip() < 0.3,
            "notify_consumer_ids_changed_enable": flip() < 0.9,
            "real_time_notify_consumer_change": flip() < 0.6,
            "reject_pull_consumer_enable": flip() < 0.3,
            "auto_create_subscription_group": flip() < 0.7,
            "enable_create_sys_group": flip() < 0.7,
            "use_server_side_reset_offset": flip() < 0.8,
        }
        return {"config": config, "ops": [getattr(self, f"_{kind}")() for _ in range(length)]}

    def _pick(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _members(self) -> Operation:
        slot, group = self._random.randrange(5), self._pick(*GROUPS[:3])
        notify, cid = self._random.random() < 0.8, self._pick(*CLIENTS)
        groups = [self._group(name) for name in self._random.sample(GROUPS[:3], self._random.choice((1, 1, 2, 3)))]
        register = [
            "register",
            slot,
            [cid, self._pick(0, 0, 3)],
            groups,
            self._pick(*["full"] * 4, "without_sub", "no"),
            notify,
        ]
        return self._pick(
            *[register] * 10,
            *[["unregister", slot, cid, group, notify]] * 3,
            *[["close", slot]] * 2,
            ["late_close", slot],
            *[["scan"]] * 2,
            *[["advance", self._random.randrange(1, 8)]] * 3,
            ["flush"],
            ["compensate_basic", group, "CONSUME_ACTIVELY", self._pick("CLUSTERING", "BROADCASTING")],
            ["compensate_sub", group, self._pick(*TOPICS), "*", self._random.randrange(120)],
        )

    def _group(self, name: str) -> Json:
        topics = [self._pick(*TOPICS) for _ in range(self._random.randrange(4))]
        subscriptions = [
            [topic, self._pick("*", "TagA", "TagA || TagB"), self._random.randrange(4)] for topic in topics
        ]
        return [
            name,
            self._pick("CONSUME_PASSIVELY", "CONSUME_PASSIVELY", "CONSUME_ACTIVELY", "CONSUME_POP"),
            self._pick("CLUSTERING", "CLUSTERING", "CLUSTERING", "BROADCASTING"),
            self._pick("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET"),
            [list(s) for s in dict.fromkeys(map(tuple, subscriptions))],
        ]

    def _heartbeats(self) -> Operation:
        slot, group, cid = self._random.randrange(4), self._pick(*GROUPS), self._pick(*CLIENTS)
        groups = [self._group(name) for name in self._random.sample(GROUPS, self._random.randrange(4))]
        for data in groups:  # the real heartbeat carries a set, whose order is that of the hashes
            data[4] = list({topic: [topic, *rest] for topic, *rest in data[4]}.values())
        return self._pick(
            *[["heart_beat", slot, cid, groups, self._pick(0, 7, 7, -8), self._random.random() < 0.4]] * 8,
            *[["goodbye", slot, cid, group]] * 2,
            ["close", slot],
            ["scan"],
            ["advance", self._random.randrange(1, 12)],
            ["configure", group, self._random.random() < 0.5],
            ["delete_config", group],
            *[["list_consumers", group]] * 2,
            ["flush"],
        )

    def _locks(self) -> Operation:
        group, cid = self._pick("G", "H"), self._pick(*CLIENTS)
        mqs = [list(mq) for mq in self._random.sample(QUEUES, self._random.randrange(6))]
        return self._pick(
            *[["lock_batch", group, mqs, cid]] * 4,
            *[["lock", group, list(self._pick(*QUEUES)), cid]] * 3,
            *[["unlock_batch", group, mqs, cid]] * 2,
            ["all_expired", group],
            *[["advance", self._random.randrange(1, 7)]] * 3,
        )

    def _offsets(self) -> Operation:
        group, topic = self._pick(*OFFSET_GROUPS), self._pick(*OFFSET_TOPICS)
        queue, offset = self._pick(0, 1, -1), self._pick(-1, 0, 5, 7, 2**62)
        place = [group, topic, queue]
        return self._pick(
            *[["commit", *place, offset]] * 4,
            *[["update_offset", *place, offset]] * 2,
            [
                "query_consumer_offset",
                place,
                self._pick(-1, 0, 1),
                self._pick(True, False),
                self._pick(True, False, None),
            ],
            ["offset_call", "query_offset", *place],
            *[["offset_call", "commit_pull_offset", *place, offset]] * 2,
            ["offset_call", "query_pull_offset", *place],
            ["offset_call", "clear_pull_offset", group, topic],
            *[["offset_call", "assign_reset_offset", *place, offset]] * 3,
            ["offset_call", "has_offset_reset", *place],
            ["offset_call", "query_then_erase_reset_offset", *place],
            ["offset_call", "which_topic_by_consumer", group],
            ["offset_call", "which_group_by_topic", topic],
            ["offset_call", "clone_offset", group, self._pick(*OFFSET_GROUPS), topic],
            self._pick(
                ["offset_call", "remove_offset", group],
                ["offset_call", "clean_offset", group],
                ["offset_call", "clean_offset_by_topic", topic],
            ),
            ["configure", self._pick(*OFFSET_GROUPS), True],
        )


KINDS = ("members", "heartbeats", "locks", "offsets")
