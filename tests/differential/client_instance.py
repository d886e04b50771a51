"""A real MQClientInstance without network and threads, for the consumers of the differential tests (client_java.py).

Its RemotingClient is a stub that answers from the `World`; its executors keep their tasks.
"""

from typing import Any, Protocol

import jpype
from jpype import JClass, JProxy

from tests.differential.client_script import CLIENT, GROUP, TOPICS
from tests.differential.client_world import DOWN, NOT_FOUND, AnswerError, Queue, World
from tests.differential.process_queue_java import get

IMPL = "org.apache.rocketmq.client.impl."
_BODY = "org.apache.rocketmq.remoting.protocol.body."
_HEADER = "org.apache.rocketmq.remoting.protocol.header."
_REMOTING_CLIENT = "org.apache.rocketmq.remoting.RemotingClient"
_BROKERS = {"127.0.0.1:1": "a", "127.0.0.1:2": "b"}
# GET_CONSUMER_LIST_BY_GROUP does not name its topic, so each topic's route has an address of its own.
_ROUTES = {f"127.0.1.1:{place + 1}": topic for place, topic in enumerate((*TOPICS, "%RETRY%G_T", "%RETRY%G_U"))}
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

    def invokeOneway(self, address: str, request: Any, _timeout: int) -> None:  # noqa: N802  Java's name
        header = request.readCustomHeader()
        if int(request.getCode()) == 15:
            self.world.commit_offset(_queue_of(header), int(header.getCommitOffset()))
        else:
            self._unlock(request, one_way=True)

    def invokeAsync(self, _address: str, request: Any, _timeout: int, callback: Any) -> None:  # noqa: N802  Java's name
        header = request.readCustomHeader()
        commits = int(header.getSysFlag()) & 1
        self.pulls.append(
            (get(callback, "val$pullCallback"), int(header.getQueueOffset()), int(header.getCommitOffset()), commits)
        )

    def registerRPCHook(self, _hook: Any) -> None:  # noqa: N802  Java's name
        """Do nothing: the tests have no hook."""

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
    """A ScheduledExecutorService that passes its tasks to a function."""

    def __init__(self, take: Any) -> None:
        self._take = take

    def schedule(self, task: Any, delay: int, _unit: Any) -> None:
        self._take(task, int(delay))

    def execute(self, task: Any) -> None:
        self._take(task, 0)


class Client(Protocol):
    """The part of a consumer that the instance uses."""

    world: World
    impl: Any

    def later(self, task: Any, delay: int) -> None: ...

    def drain(self, delay: int) -> None: ...


class Instance:
    """One MQClientInstance for all scripts of a run."""

    def __init__(self) -> None:
        self.remoting = Remoting()
        self.client: Client | None = None
        config = java("org.apache.rocketmq.client.ClientConfig")
        config.setVipChannelEnabled(False)
        self.factory = java(IMPL + "factory.MQClientInstance", config, 0, CLIENT)
        self._executors = [get(self.factory, "scheduledExecutorService")]
        put(self.factory.getMQClientAPIImpl(), "remotingClient", JProxy(_REMOTING_CLIENT, inst=self.remoting))
        put(self.factory, "scheduledExecutorService", executor(lambda _, delay: self._note("rebalance later", delay)))
        put(self.factory.getPullMessageService(), "scheduledExecutorService", executor(self._pull_service))
        addresses = get(self.factory, "brokerAddrTable")
        for address, broker in _BROKERS.items():
            addresses.put(broker, _master_at(address))
        for address, topic in _ROUTES.items():
            self.factory.getTopicRouteTable().put(topic, _route(address))
        producer = self.factory.getDefaultMQProducer()
        producer.setRetryTimesWhenSendFailed(0)
        self._producer = producer.getDefaultMQProducerImpl()
        put(self._producer, "mQClientFactory", self.factory)
        published = java(IMPL + "producer.TopicPublishInfo")
        published.setHaveTopicRouterInfo(True)
        published.setMessageQueueList(array_list([queue((TOPICS[2], "a", 0))]))
        self._producer.getTopicPublishInfoTable().put(TOPICS[2], published)

    def serve(self, client: Client, *, orderly: bool) -> None:
        """Serve this client from now on."""
        self.client = client
        self.remoting.world = client.world
        self.remoting.pulls.clear()
        get(self.factory, "consumerTable").clear()
        # Only an ordered consumer sends by the producer itself; a concurrent one falls back on it.
        state = JClass("org.apache.rocketmq.common.ServiceState")
        self._producer.setServiceState(state.RUNNING if orderly else state.CREATE_JUST)
        self.factory.registerConsumer(GROUP, client.impl)

    def woken(self) -> bool:
        """Return whether the rebalance thread was woken since the last call."""
        field = JClass("org.apache.rocketmq.common.ServiceThread").class_.getDeclaredField("hasNotified")
        field.setAccessible(True)
        return field.get(get(self.factory, "rebalanceService")).getAndSet(False)

    def end(self) -> None:
        for executor in self._executors:
            executor.shutdownNow()

    def _note(self, what: str, delay: int) -> None:
        self.remoting.world.note(what, "", delay)

    def _pull_service(self, task: Any, delay: int) -> None:
        """Run a delayed pull request at once and record its delay; keep any other task."""
        if self.client is not None:
            if "PullMessageService" in str(task.getClass().getName()):
                task.run()
                self.client.drain(delay)
            else:
                self.client.later(task, delay)


def executor(take: Any) -> Any:
    return JProxy("java.util.concurrent.ScheduledExecutorService", inst=Executor(take))


def _queue_of(header: Any) -> Queue:
    return str(header.getTopic()), str(header.getBrokerName()), int(header.getQueueId())


def _batch(request: Any, kind: str) -> list[Queue]:
    body = JClass(_BODY + kind)
    return [plain(each) for each in body.decode(request.getBody(), body.class_).getMqSet()]


def _assignment(key: Queue | None, mode: str) -> Any:
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


def _unnamed(place: str) -> tuple[Queue, int]:
    key, offset = place.rsplit("@", 1)
    topic, broker, queue_id = key.split("/")
    return (topic, broker, int(queue_id)), int(offset)
