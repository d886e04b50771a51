"""The consumer of RocketMQ 5.4.0, driven by the same scripts as the model (client_script.py).

It is the real one, from `DefaultMQPushConsumerImpl` down to the frames that it would send: only the RemotingClient is
ours, which answers them from the `World`, and the executors, which keep their tasks until the script runs them.
"""

from contextlib import suppress
from typing import Any

import jpype
from jpype import JClass, JProxy

from tests.differential.client_script import CLIENT, GROUP, STEP, TIMESTAMP, TOPICS, Json, set_order
from tests.differential.client_world import DOWN, NOT_FOUND, AnswerError, Queue, World, name
from tests.differential.process_queue_java import age, get, make_older

_IMPL = "org.apache.rocketmq.client.impl."
_BODY = "org.apache.rocketmq.remoting.protocol.body."
_HEADER = "org.apache.rocketmq.remoting.protocol.header."
_REMOTING_CLIENT = "org.apache.rocketmq.remoting.RemotingClient"
_BROKERS = {"127.0.0.1:1": "a", "127.0.0.1:2": "b"}
# GET_CONSUMER_LIST_BY_GROUP does not name its topic, so each topic's route has an address of its own.
_ROUTES = {f"127.0.1.1:{place + 1}": topic for place, topic in enumerate((*TOPICS, "%RETRY%G_T", "%RETRY%G_U"))}
_MEMBERS = {"auto_commit": "setAutoCommit", "ack_index": "setAckIndex"}
_MEMBERS["suspend_current_queue_time_millis"] = "setSuspendCurrentQueueTimeMillis"
SUCCESS, SYSTEM_ERROR, TOPIC_NOT_EXIST, QUERY_NOT_FOUND, FLOW_CONTROL = 0, 1, 17, 22, 215


def java(class_name: str, *args: Any) -> Any:
    return JClass(class_name)(*args)


def put(owner: Any, field_name: str, value: Any) -> None:
    """Set a private field, of the object's class or the one that it extends."""
    for kind in (owner.getClass(), owner.getClass().getSuperclass()):
        if field_name in {str(field.getName()) for field in kind.getDeclaredFields()}:
            field = kind.getDeclaredField(field_name)
            field.setAccessible(True)
            field.set(owner, value)


def plain(queue: Any) -> Queue:
    return str(queue.getTopic()), str(queue.getBrokerName()), int(queue.getQueueId())


def queue(key: Queue) -> Any:
    return java("org.apache.rocketmq.common.message.MessageQueue", *key)


def hash_set(items: Any) -> Any:
    made = java("java.util.HashSet")
    for item in items:
        made.add(item)
    return made


def array_list(items: Any) -> Any:
    made = java("java.util.ArrayList")
    for item in items:
        made.add(item)
    return made


class Remoting:
    """A RemotingClient that answers from the world."""

    def __init__(self) -> None:
        self.world = World()
        self.pulls: list[Any] = []
        command = JClass("org.apache.rocketmq.remoting.protocol.RemotingCommand")
        self._response = command.createResponseCommand
        self._answers = {
            14: self._query_offset,
            29: self._search_offset,
            30: self._max_offset,
            34: self._heartbeat,
            36: self._send_back,
            38: self._consumer_ids,
            41: self._lock,
            42: lambda _, request: self._unlock(request, one_way=False),
            310: self._send_message,
            400: self._assignment,
        }

    def invokeSync(self, address: str | None, request: Any, _timeout: int) -> Any:  # noqa: N802  Java's name
        answer = self._answers.get(int(request.getCode()))
        if answer is None:  # the route of a topic that has none
            return self._response(TOPIC_NOT_EXIST, "no route")
        try:
            return answer({**_BROKERS, **_ROUTES}[str(address)], request) or self._response(SUCCESS, None)
        except AnswerError as failure:
            if failure.how == DOWN:
                raise JClass("org.apache.rocketmq.remoting.exception.RemotingConnectException")(str(address)) from None
            return self._response(QUERY_NOT_FOUND if failure.how == NOT_FOUND else SYSTEM_ERROR, failure.how)

    def invokeOneway(self, address: str, request: Any, _timeout: int) -> None:  # noqa: N802
        header = request.readCustomHeader()
        if int(request.getCode()) == 15:
            self.world.commit_offset(_queue_of(header), int(header.getCommitOffset()))
        else:
            self._unlock(request, one_way=True)

    def invokeAsync(self, _address: str, request: Any, _timeout: int, callback: Any) -> None:  # noqa: N802
        header = request.readCustomHeader()
        commits = int(header.getSysFlag()) & 1
        self.pulls.append(
            (get(callback, "val$pullCallback"), int(header.getQueueOffset()), int(header.getCommitOffset()), commits)
        )

    def registerRPCHook(self, _hook: Any) -> None:  # noqa: N802
        """Not asked for here."""

    def _consumer_ids(self, topic: str, _: Any) -> Any:
        body = java(_HEADER + "GetConsumerListByGroupResponseBody")
        body.setConsumerIdList(array_list(self.world.find_consumer_id_list(topic)))
        return self._with_body(body)

    def _assignment(self, _: str, request: Any) -> Any:
        asked = JClass(_BODY + "QueryAssignmentRequestBody")
        asked = asked.decode(request.getBody(), asked.class_)
        given = self.world.query_assignment(
            str(asked.getTopic()), str(asked.getStrategyName()), str(asked.getMessageModel())
        )
        body = java(_BODY + "QueryAssignmentResponseBody")
        if given is not None:
            body.setMessageQueueAssignments(hash_set(_assignment(*each) for each in given))
        return self._with_body(body)

    def _lock(self, broker: str, request: Any) -> Any:
        granted = self.world.lock(broker, _batch(request, "LockBatchRequestBody"))
        body = java(_BODY + "LockBatchResponseBody")
        body.setLockOKMQSet(hash_set(map(queue, granted)))
        return self._with_body(body)

    def _unlock(self, request: Any, *, one_way: bool) -> None:
        queues = _batch(request, "UnlockBatchRequestBody")
        self.world.unlock(queues[0][1], queues, one_way)

    def _query_offset(self, _: str, request: Any) -> Any:
        return self._with_field("offset", self.world.query_offset(_queue_of(request.readCustomHeader())))

    def _max_offset(self, _: str, request: Any) -> Any:
        return self._with_field("offset", self.world.max_offset(_queue_of(request.readCustomHeader())))

    def _search_offset(self, _: str, request: Any) -> Any:
        header = request.readCustomHeader()
        return self._with_field("offset", self.world.search_offset(_queue_of(header), int(header.getTimestamp())))

    def _heartbeat(self, broker: str, _: Any) -> None:
        if broker == "a":  # one goes to each broker
            self.world.note("heartbeat", "")

    def _send_back(self, _: str, request: Any) -> None:
        header = request.readCustomHeader()
        key, offset = _unnamed(str(header.getOriginMsgId()))
        self.world.sent_back("send back", key, offset, int(header.getDelayLevel()))

    def _send_message(self, _: str, request: Any) -> Any:
        decoder = JClass("org.apache.rocketmq.common.message.MessageDecoder")
        properties = decoder.string2messageProperties(request.readCustomHeader().getI())
        key, offset = _unnamed(str(properties.get("ORIGIN_MESSAGE_ID")))
        self.world.sent_back("retry topic", key, offset, int(properties.get("RECONSUME_TIME")) - 1)
        response = self._with_field("queueOffset", 0)
        response.addExtField("queueId", "0")
        response.addExtField("msgId", "0")
        return response

    def _with_body(self, body: Any) -> Any:
        response = self._response(SUCCESS, None)
        response.setBody(body.encode())
        return response

    def _with_field(self, field_name: str, value: int) -> Any:
        response = self._response(SUCCESS, None)
        response.addExtField(field_name, str(value))
        return response


class Executor:
    """A ScheduledExecutorService that hands its tasks over."""

    def __init__(self, take: Any) -> None:
        self._take = take

    def schedule(self, task: Any, delay: int, _unit: Any) -> None:
        self._take(task, int(delay))

    def execute(self, task: Any) -> None:
        self._take(task, 0)


class Instance:
    """One MQClientInstance for all scripts of a run."""

    def __init__(self) -> None:
        self.remoting = Remoting()
        self.client: JavaClient | None = None
        config = java("org.apache.rocketmq.client.ClientConfig")
        config.setVipChannelEnabled(False)
        self.factory = java(_IMPL + "factory.MQClientInstance", config, 0, CLIENT)
        self._executors = [get(self.factory, "scheduledExecutorService")]
        put(self.factory.getMQClientAPIImpl(), "remotingClient", JProxy(_REMOTING_CLIENT, inst=self.remoting))
        put(self.factory, "scheduledExecutorService", _executor(lambda _, delay: self._note("rebalance later", delay)))
        put(self.factory.getPullMessageService(), "scheduledExecutorService", _executor(self._pull_service))
        addresses = get(self.factory, "brokerAddrTable")
        for address, broker in _BROKERS.items():
            addresses.put(broker, _master_at(address))
        for address, topic in _ROUTES.items():
            self.factory.getTopicRouteTable().put(topic, _route(address))
        producer = self.factory.getDefaultMQProducer()
        producer.setRetryTimesWhenSendFailed(0)
        self._producer = producer.getDefaultMQProducerImpl()
        put(self._producer, "mQClientFactory", self.factory)
        published = java(_IMPL + "producer.TopicPublishInfo")
        published.setHaveTopicRouterInfo(True)
        published.setMessageQueueList(array_list([queue((TOPICS[2], "a", 0))]))
        self._producer.getTopicPublishInfoTable().put(TOPICS[2], published)

    def serve(self, client: "JavaClient", *, orderly: bool) -> None:
        """From now on it is this client's."""
        self.client = client
        self.remoting.world = client.world
        self.remoting.pulls.clear()
        get(self.factory, "consumerTable").clear()
        # Only an ordered consumer sends by the producer itself; a concurrent one falls back on it.
        state = JClass("org.apache.rocketmq.common.ServiceState")
        self._producer.setServiceState(state.RUNNING if orderly else state.CREATE_JUST)
        self.factory.registerConsumer(GROUP, client.impl)

    def woken(self) -> bool:
        """Whether the rebalance thread was woken since the last time."""
        field = JClass("org.apache.rocketmq.common.ServiceThread").class_.getDeclaredField("hasNotified")
        field.setAccessible(True)
        return field.get(get(self.factory, "rebalanceService")).getAndSet(False)

    def end(self) -> None:
        for executor in self._executors:
            executor.shutdownNow()

    def _note(self, what: str, delay: int) -> None:
        self.remoting.world.note(what, "", delay)

    def _pull_service(self, task: Any, delay: int) -> None:
        """A request that is put off comes at once, its delay noted; any other task waits."""
        if self.client is not None:
            if "PullMessageService" in str(task.getClass().getName()):
                task.run()
                self.client.drain(delay)
            else:
                self.client.later(task, delay)


def _executor(take: Any) -> Any:
    return JProxy("java.util.concurrent.ScheduledExecutorService", inst=Executor(take))


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

    def messageQueueChanged(self, topic: str, mq_all: Any, mq_divided: Any) -> None:  # noqa: N802
        all_names = None if mq_all is None else sorted(name(plain(each)) for each in mq_all)
        mine = sorted(name(plain(each)) for each in mq_divided)
        self._client.world.note("changed", str(topic), all_names, mine)


class BusyLock:
    """A consume lock whose read side a listener holds."""

    def __init__(self) -> None:
        self._read_lock = java("java.util.concurrent.locks.ReentrantReadWriteLock").readLock()

    def readLock(self) -> Any:  # noqa: N802
        return self._read_lock

    def writeLock(self) -> Any:  # noqa: N802
        return JProxy("java.util.concurrent.locks.Lock", inst=self)

    def tryLock(self, *_: Any) -> bool:  # noqa: N802
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
        """What DefaultMQPushConsumerImpl.start does, without threads."""
        factory, impl = self._instance.factory, self.impl
        self._rebalance.setConsumerGroup(GROUP)
        self._rebalance.setMessageModel(self.consumer.getMessageModel())
        self._rebalance.setAllocateMessageQueueStrategy(self.consumer.getAllocateMessageQueueStrategy())
        self._rebalance.setmQClientFactory(factory)
        impl.setmQClientFactory(factory)
        impl.setConsumeOrderly(self._orderly)
        impl.setOffsetStore(java("org.apache.rocketmq.client.consumer.store.RemoteBrokerOffsetStore", factory, GROUP))
        put(impl, "pullAPIWrapper", java(_IMPL + "consumer.PullAPIWrapper", factory, GROUP, False))
        state = JClass("org.apache.rocketmq.common.ServiceState")
        impl.setServiceState(state.RUNNING)
        impl.setPullTimeDelayMillsWhenException(1000)
        kind = "Orderly" if self._orderly else "Concurrently"
        listener = JProxy(f"org.apache.rocketmq.client.consumer.listener.MessageListener{kind}", inst=Listener(self))
        self._service = java(_IMPL + f"consumer.ConsumeMessage{kind}Service", impl, listener)
        put(self._service, "scheduledExecutorService", _executor(self.later))
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
        """Requests that came to the pull service, and tasks that came to the consume threads."""
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
        for process_queue in self.table().values():
            make_older(process_queue, steps)
            for tree in (process_queue.getMsgTreeMap(), get(process_queue, "consumingMsgOrderlyTreeMap")):
                for message in tree.values():
                    _age_message(message, steps)
        for subscription in self._rebalance.getSubscriptionInner().values():
            subscription.setSubVersion(subscription.getSubVersion() - steps * STEP)
        for process_queue in self._rebalance.getPopProcessQueueTable().values():
            process_queue.setLastPopTimestamp(process_queue.getLastPopTimestamp() - steps * STEP)

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
        result = java(_IMPL + "consumer.PullResultExt", kind, next_offset, 0, 0, None, 0, stream.toByteArray())
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


def _queue_of(header: Any) -> Queue:
    return str(header.getTopic()), str(header.getBrokerName()), int(header.getQueueId())


def _batch(request: Any, kind: str) -> list[Queue]:
    body = JClass(_BODY + kind)
    return [plain(each) for each in body.decode(request.getBody(), body.class_).getMqSet()]


def _assignment(key: Json, mode: str) -> Any:
    made = java("org.apache.rocketmq.common.message.MessageQueueAssignment")
    made.setMessageQueue(queue(tuple(key)) if key else None)
    made.setMode(JClass("org.apache.rocketmq.common.message.MessageRequestMode").valueOf(mode))
    return made


def _master_at(address: str) -> Any:
    table = java("java.util.HashMap")
    table.put(jpype.JLong(0), address)
    return table


def _route(address: str) -> Any:
    broker = java("org.apache.rocketmq.remoting.protocol.route.BrokerData", "cluster", "a", _master_at(address))
    route = java("org.apache.rocketmq.remoting.protocol.route.TopicRouteData")
    route.setBrokerDatas(array_list([broker]))
    return route


def _message(key: Queue, offset: int, size: int) -> Any:
    """A message that carries its own place, so that the broker knows which one is sent back."""
    made = java("org.apache.rocketmq.common.message.MessageClientExt")
    topic, broker, queue_id = key
    made.setTopic(topic)
    made.setBrokerName(broker)
    made.setQueueId(queue_id)
    made.setQueueOffset(offset)
    made.setBody(jpype.JArray(jpype.JByte)(size))
    address = java("java.net.InetSocketAddress", "127.0.0.1", 1)
    made.setBornHost(address)
    made.setStoreHost(address)
    accessor = JClass("org.apache.rocketmq.common.message.MessageAccessor")
    accessor.putProperty(made, "UNIQ_KEY", f"{name(key)}@{offset}")
    return made


def _unnamed(place: str) -> tuple[Queue, int]:
    key, offset = place.rsplit("@", 1)
    topic, broker, queue_id = key.split("/")
    return (topic, broker, int(queue_id)), int(offset)


def _age_message(message: Any, steps: int) -> None:
    accessor = JClass("org.apache.rocketmq.common.message.MessageAccessor")
    start = accessor.getConsumeStartTimeStamp(message)
    if start:
        accessor.setConsumeStartTimeStamp(message, str(int(start) - steps * STEP))


def _call(owner: Any, method_name: str) -> None:
    kind = owner.getClass()
    while method_name not in {str(method.getName()) for method in kind.getDeclaredMethods()}:
        kind = kind.getSuperclass()
    method = kind.getDeclaredMethod(method_name)
    method.setAccessible(True)
    method.invoke(owner)
