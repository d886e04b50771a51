"""Scripts of random operations on a consumer, and the model's answers to them.

The form is that of broker_script.py: a script is JSON, a configuration and a list of operations; the model's and the
Java's client have a method for each operation, and both return plain values: the answer, what the client requested,
sent and scheduled (`client_world.World`), and the whole state.
"""

import json
from collections.abc import Awaitable, Coroutine
from typing import Any

from rebalance_model.broker.consumer_group_info import build_subscription_data
from rebalance_model.dialect import RELEASE_5, Dialect
from rebalance_model.entities import MessageQueue
from simulation.rocketmq.client import process_queue_table, queue_locks, rebalance, removal
from simulation.rocketmq.client.cached_messages import Message
from simulation.rocketmq.client.concurrent_consumption import ConcurrentConsumption, ConcurrentlyStatus
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumeFromWhere, ConsumerConfig, ConsumerKind, MessageModel
from simulation.rocketmq.client.host import BrokerError, MessageQueueAssignment, OffsetNotFoundError, RefusedError
from simulation.rocketmq.client.offset_store import ReadOffsetType, RemoteBrokerOffsetStore
from simulation.rocketmq.client.ordered_consumption import OrderedConsumption, OrderlyStatus
from simulation.rocketmq.client.pull_flow_control import (
    HeldBack,
    PullResult,
    on_pull_error,
    on_pull_result,
    pull_message,
)
from simulation.rocketmq.client.pull_offset import PullOffsetError, compute_pull_from_where
from tests.differential.client_world import DOWN, NOT_FOUND, REFUSED, AnswerError, Queue, World, name

STEP = 7_000
GROUP = "G"
CLIENT = "c1"
TOPICS = ("T", "U", "%RETRY%G")
QUEUES: tuple[Queue, ...] = tuple((topic, broker, i) for topic in TOPICS for broker in ("a", "b") for i in (0, 1))
TIMESTAMP = 1_700_000_000_000

Json = Any


def run(coroutine: Coroutine[Any, Any, Any] | Awaitable[Any]) -> Any:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)  # type: ignore[union-attr]  # the model's tasks are coroutines
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def queue(queue: Queue) -> MessageQueue:
    return MessageQueue(*queue)


def plain(queue: MessageQueue) -> Queue:
    return queue.topic, queue.broker, queue.queue_id


class ModelHost:
    """The brokers and the process of the model's client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.time = 10**12
        self.tasks: list[Any] = []
        self.requests: dict[Queue, Any] = {}

    def now(self) -> int:
        return self.time

    async def released(self, lock: Any, timeout: int | None) -> None:
        """Do nothing: the holder does not release the lock in time."""

    def later(self, delay: int, task: Any) -> None:
        self.world.note("later", "", delay)
        self.tasks.append(task)

    def pull_later(self, request: Any, delay: int) -> None:
        self.requests[plain(request.message_queue)] = request
        self.world.note("pull later", name(plain(request.message_queue)), request.next_offset, delay)

    def pop_later(self, request: Any, delay: int) -> None:
        self.world.note("pop later", name(plain(request.message_queue)), request.init_mode, delay)

    def rebalance_later(self, delay: int) -> None:
        self.world.note("rebalance later", "", delay)

    def message_queue_changed(self, topic: str, mq_all: Any, mq_divided: Any) -> None:
        all_names = None if mq_all is None else sorted(name(plain(each)) for each in mq_all)
        self.world.note("changed", topic, all_names, sorted(name(plain(each)) for each in mq_divided))

    async def find_consumer_id_list(self, topic: str, group: str) -> list[str]:
        assert group == GROUP
        return self._ask(self.world.find_consumer_id_list, topic)

    async def query_assignment(self, topic: str, group: str, strategy_name: str, message_model: str) -> Any:
        assert group == GROUP
        given = self._ask(self.world.query_assignment, topic, strategy_name, str(message_model))
        if given is None:
            return None
        return [MessageQueueAssignment(each and queue(each), mode) for each, mode in given]

    async def lock_batch_mq(self, broker: str, group: str, queues: Any) -> set[MessageQueue]:
        assert group == GROUP
        return {queue(each) for each in self._ask(self.world.lock, broker, list(map(plain, queues)))}

    async def unlock_batch_mq(self, broker: str, group: str, queues: Any) -> None:
        assert group == GROUP
        self._ask(self.world.unlock, broker, list(map(plain, queues)), False)

    def unlock_batch_mq_one_way(self, broker: str, group: str, queues: Any) -> None:
        assert group == GROUP
        self.world.unlock(broker, list(map(plain, queues)), True)

    async def query_consumer_offset(self, group: str, mq: MessageQueue) -> int:
        assert group == GROUP
        return self._ask(self.world.query_offset, plain(mq))

    def update_consumer_offset(self, group: str, mq: MessageQueue, offset: int) -> None:
        assert group == GROUP
        self.world.commit_offset(plain(mq), offset)

    async def max_offset(self, mq: MessageQueue) -> int:
        return self._ask(self.world.max_offset, plain(mq))

    async def search_offset(self, mq: MessageQueue, timestamp: int) -> int:
        return self._ask(self.world.search_offset, plain(mq), timestamp)

    async def send_heartbeat_to_all_brokers(self) -> None:
        self.world.note("heartbeat", "")

    async def send_message_back(self, group: str, mq: MessageQueue, message: Message, delay_level: int) -> None:
        assert group == GROUP
        self._ask(self.world.sent_back, "send back", plain(mq), message.queue_offset, delay_level)

    async def send_to_retry_topic(self, group: str, mq: MessageQueue, message: Message) -> None:
        assert group == GROUP
        self._ask(self.world.sent_back, "retry topic", plain(mq), message.queue_offset, message.reconsume_times)

    def _ask(self, question: Any, *args: Any) -> Any:
        try:
            return question(*args)
        except AnswerError as failure:
            kinds = {REFUSED: RefusedError, NOT_FOUND: OffsetNotFoundError, DOWN: BrokerError}
            raise kinds[failure.how] from failure


class ModelListener:
    """The user's listener; while it runs, its queue may be dropped or reset, or lose its lock."""

    def __init__(self, client: "ModelClient") -> None:
        self._client = client

    async def consume_message(self, messages: Any, context: Any) -> Any:
        key = plain(context.message_queue)
        order = self._client.world.listen(key, [message.queue_offset for message in messages])
        process_queue = self._client.consumer.process_queue_table.get(context.message_queue)
        if process_queue is not None and "drop" in order:
            process_queue.dropped = True
        if process_queue is not None and "clear" in order:
            process_queue.clear()
        if process_queue is not None and "unlock" in order:
            process_queue.locked = False
        if process_queue is not None and "expire" in order:
            process_queue.last_lock_timestamp -= 5 * STEP
        for setting in ("auto_commit", "suspend_current_queue_time_millis", "ack_index"):
            if setting in order and hasattr(context, setting):
                setattr(context, setting, order[setting])
        return _status(order["status"], self._client.consumer.config.orderly)


def _status(status: str | None, orderly: bool) -> Any:
    if status is None:
        return None
    if orderly:
        return OrderlyStatus(status)
    return ConcurrentlyStatus.CONSUME_SUCCESS if status == "SUCCESS" else ConcurrentlyStatus.RECONSUME_LATER


class ModelClient:
    """The model's client, driven by a script."""

    def __init__(self, config: dict[str, Json], dialect: Dialect = RELEASE_5) -> None:
        self.world = World()
        self.host = ModelHost(self.world)
        self.asked: dict[Queue, Any] = {}
        kinds = {"kind": ConsumerKind, "message_model": MessageModel, "consume_from_where": ConsumeFromWhere}
        settings = {key: kinds[key](value) if key in kinds else value for key, value in config.items()}
        store = RemoteBrokerOffsetStore(self.host, GROUP, dialect)
        self.consumer = Consumer(
            ConsumerConfig(GROUP, CLIENT, consume_timestamp=TIMESTAMP, **settings), self.host, self.host, store, dialect
        )
        listener = ModelListener(self)
        kind = OrderedConsumption if self.consumer.config.orderly else ConcurrentConsumption
        self.service = kind(self.consumer, listener)

    # What others do.

    def order(self, table: str, key: Json, value: Json) -> None:
        set_order(self.world, table, key, value)

    def advance(self, steps: int) -> None:
        self.host.time += steps * STEP

    def route(self, topic: str, queues: list[Queue] | None) -> None:
        if queues is None:
            self.consumer.topic_subscribe_info_table.pop(topic, None)
        else:
            self.consumer.update_topic_subscribe_info(topic, map(queue, map(tuple, queues)))

    def subscribe(self, topic: str) -> None:
        self.consumer.subscription_inner[topic] = build_subscription_data(topic, "*", self.host.time)

    def unsubscribe(self, topic: str) -> None:
        self.consumer.subscription_inner.pop(topic, None)

    def pause(self, paused: bool) -> None:
        self.consumer.paused = paused

    def run_state(self, running: bool) -> None:
        self.consumer.running = running

    def busy(self, key: Queue, busy: bool) -> None:
        """Let a slow listener hold the queue's consume lock, or release it."""
        process_queue = self._queue(key)
        if process_queue is not None and bool(process_queue.consume_lock.readers) != busy:
            process_queue.consume_lock.readers = int(busy)

    # What the client does.

    def rebalance(self) -> bool:
        return run(rebalance.try_rebalance(self.consumer))

    def lock_all(self) -> None:
        run(queue_locks.lock_all(self.consumer))

    def unlock_all(self) -> None:
        run(queue_locks.unlock_all(self.consumer))

    def lock(self, key: Queue) -> bool:
        return run(queue_locks.lock(self.consumer, queue(key)))

    def truncate(self) -> None:
        process_queue_table.truncate_message_queue_not_my_topic(self.consumer)

    def remove(self, key: Queue) -> None:
        run(removal.remove_process_queue(self.consumer, queue(key)))

    def compute(self, key: Queue) -> Json:
        try:
            return run(compute_pull_from_where(self.consumer, queue(key)))
        except PullOffsetError:
            return "no offset"

    def progress(self, key: Queue, offset: int, increase_only: bool) -> None:
        self.consumer.offset_store.update_offset(queue(key), offset, increase_only=increase_only)

    def freeze(self, key: Queue, offset: int) -> None:
        self.consumer.offset_store.update_and_freeze_offset(queue(key), offset)

    def read(self, key: Queue, kind: str) -> int:
        return run(self.consumer.offset_store.read_offset(queue(key), ReadOffsetType[kind]))

    def persist_all(self) -> None:
        self.consumer.persist_consumer_offset()

    def persist(self, key: Queue) -> None:
        self.consumer.offset_store.persist(queue(key))

    def put(self, key: Queue, offsets: list[int], size: int) -> None:
        process_queue = self._queue(key)
        if process_queue is not None:
            process_queue.put_message([Message(offset, size) for offset in offsets])

    def pull(self, key: Queue) -> Json:
        request = self.host.requests.get(key)
        if request is None:
            return None
        pulled = run(pull_message(self.consumer, request))
        if pulled is None or isinstance(pulled, HeldBack):
            return None
        self.asked[key] = request
        return [pulled.offset, pulled.commit_offset]

    def answer(self, key: Queue, status: str, next_offset: int, offsets: list[int]) -> None:
        request = self.asked.pop(key, None)
        if request is not None:
            messages = [Message(offset, 10) for offset in offsets]
            on_pull_result(self.consumer, request, PullResult(status, next_offset, messages), self.service)

    def fail(self, key: Queue, flow_control: bool) -> None:
        request = self.asked.pop(key, None)
        if request is not None:
            on_pull_error(self.consumer, request, flow_control=flow_control)

    def run_task(self, place: int) -> None:
        if self.host.tasks:
            run(self.host.tasks.pop(place % len(self.host.tasks))())

    def clean(self) -> None:
        if isinstance(self.service, ConcurrentConsumption):
            run(self.service.clean_expired_messages())

    def state(self) -> Json:
        consumer, now = self.consumer, self.host.time
        return {
            "journal": self.world.take_journal(),
            "queues": {
                name(plain(mq)): [
                    *(pq.dropped, pq.locked, pq.consuming, pq.try_unlock_times, pq.msg_count, pq.msg_size),
                    [[m.queue_offset, m.reconsume_times] for m in pq.msg_tree_map],
                    [m.queue_offset for m in pq.consuming_msg_orderly_tree_map],
                    [(now - s) // STEP for s in (pq.last_lock_timestamp, pq.last_pull_timestamp)],
                ]
                for mq, pq in sorted(consumer.process_queue_table.items(), key=lambda item: plain(item[0]))
            },
            "popped": sorted(name(plain(mq)) for mq in consumer.pop_process_queue_table),
            "offsets": {
                name(plain(mq)): offset
                for mq, offset in sorted(
                    consumer.offset_store.clone_offset_table(None).items(), key=lambda item: plain(item[0])
                )
            },
            "subscriptions": {
                topic: (now - subscription.sub_version) // STEP
                for topic, subscription in sorted(consumer.subscription_inner.items())
            },
            "thresholds": [consumer.config.pull_threshold_for_queue, consumer.config.pull_threshold_size_for_queue],
            "requests": {
                name(key): [request.next_offset, request.previously_locked]
                for key, request in sorted(self.host.requests.items())
            },
            "tasks": len(self.host.tasks),
        }

    def _queue(self, key: Queue) -> Any:
        return self.consumer.process_queue_table.get(queue(key))


def set_order(world: World, table: str, key: Json, value: Json) -> None:
    """Set the world's next answer of a kind."""
    if table == "listener":
        world.listener = list(value)
    elif table == "send_back":
        world.send_back = value
    else:
        getattr(world, table)[tuple(key) if isinstance(key, list) else key] = value


def drive(client: Any, operation: list[Json]) -> Json:
    """Run one operation of a script; convert queues, which are lists in JSON, to tuples."""
    method, *args = operation
    if method != "order":
        args = [
            tuple(arg) if args and isinstance(arg, list) and len(arg) == 3 and arg[0] in TOPICS else arg for arg in args
        ]
    return getattr(client, method)(*args)


def trace(client: Any, operations: list[list[Json]]) -> list[Json]:
    """Return each operation's answer, and its changes of the state."""
    steps: list[Json] = []
    before: dict[str, Json] = {}
    for operation in operations:
        answer = drive(client, operation)
        after = _flat(client.state())
        changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
        steps.append([answer, changed, sorted(before.keys() - after.keys())])
        before = {**after, "journal": []}
    return json.loads(json.dumps(steps))


def _flat(state: dict[str, Json]) -> dict[str, Json]:
    flat: dict[str, Json] = {}
    for key, value in state.items():
        flat.update(
            {f"{key} {inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
        )
    return flat
