"""The consumer of RocketMQ 5.4.0, driven by the same scripts as the model (client_script.py).

Everything is real from `DefaultMQPushConsumerImpl` down to the frames that it would send, except the RemotingClient,
which answers them from the `World`, and the executors, which keep their tasks until the script runs them.
"""

from contextlib import suppress
from functools import cache
from typing import Any

import jpype
from jpype import JClass, JProxy

from tests.differential.client_instance import (
    FLOW_CONTROL,
    IMPL,
    SYSTEM_ERROR,
    Instance,
    array_list,
    executor,
    hash_set,
    java,
    plain,
    put,
    queue,
)
from tests.differential.client_script import GROUP, STEP, TIMESTAMP, Json, set_order
from tests.differential.client_world import Queue, World, name
from tests.differential.process_queue_java import age, get, make_older
from tests.differential.standing_clock import StandingClock

_MEMBERS = {"auto_commit": "setAutoCommit", "ack_index": "setAckIndex"}
_MEMBERS["suspend_current_queue_time_millis"] = "setSuspendCurrentQueueTimeMillis"


class Listener:
    """The user's listener, of either kind."""

    def __init__(self, client: "JavaClient") -> None:
        self._client = client

    def consumeMessage(self, messages: Any, context: Any) -> Any:  # noqa: N802  Java's name
        key = plain(context.getMessageQueue())
        order = self._client.world.listen(key, [int(message.getQueueOffset()) for message in messages])
        process_queue = self._client.table().get(context.getMessageQueue())
        if process_queue is not None and "drop" in order:
            process_queue.setDropped(True)
        if process_queue is not None and "clear" in order:
            process_queue.clear()
        if process_queue is not None and "unlock" in order:
            process_queue.setLocked(False)
        if process_queue is not None and "expire" in order:
            process_queue.setLastLockTimestamp(process_queue.getLastLockTimestamp() - 5 * STEP)
        for setting, setter in _MEMBERS.items():
            if setting in order and hasattr(context, setter):
                getattr(context, setter)(order[setting])
        return self._client.status(order["status"])

    def messageQueueChanged(self, topic: str, mq_all: Any, mq_divided: Any) -> None:  # noqa: N802  Java's name
        all_names = None if mq_all is None else sorted(name(plain(each)) for each in mq_all)
        mine = sorted(name(plain(each)) for each in mq_divided)
        self._client.world.note("changed", str(topic), all_names, mine)


class BusyLock:
    """A consume lock whose read lock a listener holds."""

    def __init__(self) -> None:
        self._read_lock = java("java.util.concurrent.locks.ReentrantReadWriteLock").readLock()

    def readLock(self) -> Any:  # noqa: N802  Java's name
        return self._read_lock

    def writeLock(self) -> Any:  # noqa: N802  Java's name
        return JProxy("java.util.concurrent.locks.Lock", inst=self)

    def tryLock(self, *_: Any) -> bool:  # noqa: N802  Java's name
        return False


class JavaClient:
    """The real client, driven by a script."""

    def __init__(self, config: dict[str, Json], instance: Instance) -> None:
        self.world = World()
        self._instance = instance
        self._orderly = config["orderly"]
        self._tasks: list[Any] = []
        self._requests: dict[Queue, Any] = {}
        self._asked: dict[Queue, Any] = {}
        self.consumer = java("org.apache.rocketmq.client.consumer.DefaultMQPushConsumer", GROUP)
        self._configure(config)
        self.impl = self.consumer.getDefaultMQPushConsumerImpl()
        self._rebalance = self.impl.getRebalanceImpl()
        self._assemble()
        instance.serve(self, orderly=self._orderly)
        self.clock = StandingClock(self._make_older)

    def _configure(self, config: dict[str, Json]) -> None:
        consumer, util = self.consumer, JClass("org.apache.rocketmq.common.UtilAll")
        moment = java("java.util.Date", jpype.JLong(TIMESTAMP))
        consumer.setConsumeTimestamp(util.formatDate(moment, util.YYYYMMDDHHMMSS))
        model = JClass("org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel")
        consumer.setMessageModel(model.valueOf(config["message_model"]))
        where = JClass("org.apache.rocketmq.common.consumer.ConsumeFromWhere")
        consumer.setConsumeFromWhere(where.valueOf(config["consume_from_where"]))
        for setting, value in config.items():
            if setting not in {"message_model", "consume_from_where", "orderly"}:
                getattr(consumer, "set" + "".join(map(str.capitalize, setting.split("_"))))(value)
        consumer.setMessageQueueListener(
            JProxy("org.apache.rocketmq.client.consumer.MessageQueueListener", inst=Listener(self))
        )

    def _assemble(self) -> None:
        """Start as DefaultMQPushConsumerImpl.start does, without threads."""
        factory, impl = self._instance.factory, self.impl
        self._rebalance.setConsumerGroup(GROUP)
        self._rebalance.setMessageModel(self.consumer.getMessageModel())
        self._rebalance.setAllocateMessageQueueStrategy(self.consumer.getAllocateMessageQueueStrategy())
        self._rebalance.setmQClientFactory(factory)
        impl.setmQClientFactory(factory)
        impl.setConsumeOrderly(self._orderly)
        impl.setOffsetStore(java("org.apache.rocketmq.client.consumer.store.RemoteBrokerOffsetStore", factory, GROUP))
        put(impl, "pullAPIWrapper", java(IMPL + "consumer.PullAPIWrapper", factory, GROUP, False))
        state = JClass("org.apache.rocketmq.common.ServiceState")
        impl.setServiceState(state.RUNNING)
        impl.setPullTimeDelayMillsWhenException(1000)
        kind = "Orderly" if self._orderly else "Concurrently"
        listener = JProxy(f"org.apache.rocketmq.client.consumer.listener.MessageListener{kind}", inst=Listener(self))
        self._service = java(IMPL + f"consumer.ConsumeMessage{kind}Service", impl, listener)
        put(self._service, "scheduledExecutorService", executor(self.later))
        self._submitted = java("java.util.concurrent.LinkedBlockingQueue")
        no_threads = JProxy("java.util.concurrent.ThreadFactory", dict={"newThread": lambda _: None})
        unit = JClass("java.util.concurrent.TimeUnit").SECONDS
        pool = java("java.util.concurrent.ThreadPoolExecutor", 0, 1, 1, unit, self._submitted, no_threads)
        put(self._service, "consumeExecutor", pool)
        impl.setConsumeMessageService(self._service)

    def table(self) -> Any:
        return self._rebalance.getProcessQueueTable()

    def status(self, status: str | None) -> Any:
        if status is None:
            return None
        package = "org.apache.rocketmq.client.consumer.listener."
        if self._orderly:
            return JClass(package + "ConsumeOrderlyStatus").valueOf(status)
        kinds = JClass(package + "ConsumeConcurrentlyStatus")
        return kinds.CONSUME_SUCCESS if status == "SUCCESS" else kinds.RECONSUME_LATER

    def later(self, task: Any, delay: int) -> None:
        self.world.note("later", "", int(delay))
        self._tasks.append(task)

    def drain(self, delay: int) -> None:
        """Take over the requests of the pull service and the tasks of the consume threads."""
        requests = get(self._instance.factory.getPullMessageService(), "messageRequestQueue")
        while (request := requests.poll()) is not None:
            key = plain(request.getMessageQueue())
            if str(request.getMessageRequestMode()) == "POP":
                self.world.note("pop later", name(key), ("MIN", "MAX")[request.getInitMode()], delay)
            else:
                self._requests[key] = request
                self.world.note("pull later", name(key), int(request.getNextOffset()), delay)
        while (task := self._submitted.poll()) is not None:
            self.later(task, 0)

    # What others do.

    def order(self, table: str, key: Json, value: Json) -> None:
        set_order(self.world, table, key, value)

    def advance(self, steps: int) -> None:
        self._make_older(steps * STEP)

    def _make_older(self, past: int) -> None:
        for process_queue in self.table().values():
            make_older(process_queue, past)
            for tree in (process_queue.getMsgTreeMap(), get(process_queue, "consumingMsgOrderlyTreeMap")):
                for message in tree.values():
                    _age_message(message, past)
        for subscription in self._rebalance.getSubscriptionInner().values():
            subscription.setSubVersion(subscription.getSubVersion() - past)
        for process_queue in self._rebalance.getPopProcessQueueTable().values():
            process_queue.setLastPopTimestamp(process_queue.getLastPopTimestamp() - past)

    def route(self, topic: str, queues: list[Queue] | None) -> None:
        if queues is None:
            self._rebalance.getTopicSubscribeInfoTable().remove(topic)
        else:
            self.impl.updateTopicSubscribeInfo(topic, hash_set(queue(each) for each in queues))

    def subscribe(self, topic: str) -> None:
        api = JClass("org.apache.rocketmq.remoting.protocol.filter.FilterAPI")
        self._rebalance.getSubscriptionInner().put(topic, api.buildSubscriptionData(topic, "*"))

    def unsubscribe(self, topic: str) -> None:
        self._rebalance.getSubscriptionInner().remove(topic)

    def pause(self, paused: bool) -> None:
        self.impl.setPause(paused)

    def run_state(self, running: bool) -> None:
        state = JClass("org.apache.rocketmq.common.ServiceState")
        self.impl.setServiceState(state.RUNNING if running else state.SHUTDOWN_ALREADY)

    def busy(self, key: Queue, busy: bool) -> None:
        process_queue = self.table().get(queue(key))
        if process_queue is not None:
            lock = (
                JProxy("java.util.concurrent.locks.ReadWriteLock", inst=BusyLock())
                if busy
                else java("java.util.concurrent.locks.ReentrantReadWriteLock")
            )
            put(process_queue, "consumeLock", lock)

    # What the client does.

    def rebalance(self) -> bool:
        return self.impl.tryRebalance()

    def lock_all(self) -> None:
        self._rebalance.lockAll()

    def unlock_all(self) -> None:
        self._rebalance.unlockAll(False)

    def lock(self, key: Queue) -> bool:
        return self._rebalance.lock(queue(key))

    def truncate(self) -> None:
        _call(self._rebalance, "truncateMessageQueueNotMyTopic")

    def remove(self, key: Queue) -> None:
        self._rebalance.removeProcessQueue(queue(key))

    def compute(self, key: Queue) -> Json:
        try:
            return self._rebalance.computePullFromWhereWithException(queue(key))
        except JClass("org.apache.rocketmq.client.exception.MQClientException"):
            return "no offset"

    def progress(self, key: Queue, offset: int, increase_only: bool) -> None:
        self.impl.getOffsetStore().updateOffset(queue(key), offset, increase_only)

    def freeze(self, key: Queue, offset: int) -> None:
        self.impl.getOffsetStore().updateAndFreezeOffset(queue(key), offset)

    def read(self, key: Queue, kind: str) -> int:
        kinds = JClass("org.apache.rocketmq.client.consumer.store.ReadOffsetType")
        return self.impl.getOffsetStore().readOffset(queue(key), kinds.valueOf(kind))

    def persist_all(self) -> None:
        self.impl.persistConsumerOffset()

    def persist(self, key: Queue) -> None:
        self.impl.getOffsetStore().persist(queue(key))

    def put(self, key: Queue, offsets: list[int], size: int) -> None:
        process_queue = self.table().get(queue(key))
        if process_queue is not None:
            process_queue.putMessage(array_list(_message(key, offset, size) for offset in offsets))

    def pull(self, key: Queue) -> Json:
        request = self._requests.get(key)
        if request is None:
            return None
        # A full count over an empty tree: the log line asks for the first key. The request was put off before that, so
        # PullMessageService, which catches this, loses nothing.
        with suppress(JClass("java.util.NoSuchElementException")):
            self.impl.pullMessage(request)
        if not self._instance.remoting.pulls:
            return None
        self._asked[key], offset, commit, commits = self._instance.remoting.pulls.pop()
        return [offset, commit if commits else None]

    def answer(self, key: Queue, status: str, next_offset: int, offsets: list[int]) -> None:
        callback = self._asked.pop(key, None)
        if callback is None:
            return
        decoder = JClass("org.apache.rocketmq.common.message.MessageDecoder")
        stream = java("java.io.ByteArrayOutputStream")
        for offset in offsets:
            stream.write(decoder.encode(_message(key, offset, 10), False))
        kind = JClass("org.apache.rocketmq.client.consumer.PullStatus").valueOf(status)
        result = java(IMPL + "consumer.PullResultExt", kind, next_offset, 0, 0, None, 0, stream.toByteArray())
        callback.onSuccess(result)

    def fail(self, key: Queue, flow_control: bool) -> None:
        callback = self._asked.pop(key, None)
        if callback is not None:
            code = FLOW_CONTROL if flow_control else SYSTEM_ERROR
            callback.onException(java("org.apache.rocketmq.client.exception.MQBrokerException", code, "no"))

    def run_task(self, place: int) -> None:
        if not self._tasks:
            return
        self._tasks.pop(place % len(self._tasks)).run()
        if self._orderly:  # a timer has handed the queue to the consume threads, which are free
            while (task := self._submitted.poll()) is not None:
                task.run()

    def clean(self) -> None:
        if not self._orderly:
            _call(self._service, "cleanExpireMsg")

    def state(self) -> Json:
        self.drain(0)
        if self._instance.woken():
            self.world.note("rebalance later", "", 0)
        table = {plain(entry.getKey()): entry.getValue() for entry in self.table().entrySet()}
        offsets = {
            plain(e.getKey()): int(e.getValue()) for e in self.impl.getOffsetStore().cloneOffsetTable(None).entrySet()
        }
        subscriptions = {str(e.getKey()): e.getValue() for e in self._rebalance.getSubscriptionInner().entrySet()}
        return {
            "journal": self.world.take_journal(),
            "queues": {name(key): _queue_state(table[key]) for key in sorted(table)},
            "popped": sorted(name(plain(mq)) for mq in self._rebalance.getPopProcessQueueTable().keySet()),
            "offsets": {name(key): offsets[key] for key in sorted(offsets)},
            "subscriptions": {topic: age(subscriptions[topic].getSubVersion()) for topic in sorted(subscriptions)},
            "thresholds": [self.consumer.getPullThresholdForQueue(), self.consumer.getPullThresholdSizeForQueue()],
            "requests": {
                name(key): [int(request.getNextOffset()), bool(request.isPreviouslyLocked())]
                for key, request in sorted(self._requests.items())
            },
            "tasks": len(self._tasks),
        }


def _queue_state(process_queue: Any) -> Json:
    taken = get(process_queue, "consumingMsgOrderlyTreeMap")
    return [
        process_queue.isDropped(),
        process_queue.isLocked(),
        bool(get(process_queue, "consuming")),
        process_queue.getTryUnlockTimes(),
        process_queue.getMsgCount().get(),
        process_queue.getMsgSize().get(),
        [[int(m.getQueueOffset()), int(m.getReconsumeTimes())] for m in process_queue.getMsgTreeMap().values()],
        [int(m.getQueueOffset()) for m in taken.values()],
        [age(process_queue.getLastLockTimestamp()), age(process_queue.getLastPullTimestamp())],
    ]


@cache
def _body(size: int) -> Any:
    """Return one array for all messages of this size: an array and a message that has it keep each other alive."""
    return jpype.JArray(jpype.JByte)(size)


def _message(key: Queue, offset: int, size: int) -> Any:
    """Return a message with its own place, so that the broker knows which one is sent back."""
    made = java("org.apache.rocketmq.common.message.MessageClientExt")
    topic, broker, queue_id = key
    made.setTopic(topic)
    made.setBrokerName(broker)
    made.setQueueId(queue_id)
    made.setQueueOffset(offset)
    made.setBody(_body(size))
    address = java("java.net.InetSocketAddress", "127.0.0.1", 1)
    made.setBornHost(address)
    made.setStoreHost(address)
    accessor = JClass("org.apache.rocketmq.common.message.MessageAccessor")
    accessor.putProperty(made, "UNIQ_KEY", f"{name(key)}@{offset}")
    return made


def _age_message(message: Any, past: int) -> None:
    accessor = JClass("org.apache.rocketmq.common.message.MessageAccessor")
    start = accessor.getConsumeStartTimeStamp(message)
    if start:
        accessor.setConsumeStartTimeStamp(message, str(int(start) - past))


def _call(owner: Any, method_name: str) -> None:
    kind = owner.getClass()
    while method_name not in {str(method.getName()) for method in kind.getDeclaredMethods()}:
        kind = kind.getSuperclass()
    method = kind.getDeclaredMethod(method_name)
    method.setAccessible(True)
    method.invoke(owner)
