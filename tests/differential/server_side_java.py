"""A real broker's QueryAssignmentProcessor, not started; a case fills its tables. Needs the JVM."""

import json
from pathlib import Path
from typing import Any

import jpype

from tests.differential.server_side_script import BROKER, Json

_QUERY_ASSIGNMENT, _SET_MESSAGE_REQUEST_MODE = 400, 401
_PROTOCOL = "org.apache.rocketmq.remoting.protocol"


class JavaProcessor:
    """The processor, called with decoded requests."""

    def __init__(self, folder: Path) -> None:
        self._config = jpype.JClass("org.apache.rocketmq.common.BrokerConfig")()
        self._config.setBrokerName(BROKER)
        self._config.setAutoCreateSubscriptionGroup(False)
        store = jpype.JClass("org.apache.rocketmq.store.config.MessageStoreConfig")()
        store.setStorePathRootDir(str(folder))
        netty = "org.apache.rocketmq.remoting.netty"
        server, client = jpype.JClass(f"{netty}.NettyServerConfig")(), jpype.JClass(f"{netty}.NettyClientConfig")()
        self.controller = jpype.JClass("org.apache.rocketmq.broker.BrokerController")(
            self._config, server, client, store
        )
        processor = jpype.JClass("org.apache.rocketmq.broker.processor.QueryAssignmentProcessor")
        self._processor = processor(self.controller)
        self._routes = _field(self.controller.getTopicRouteInfoManager(), "topicSubscribeInfoTable")
        self._groups = _field(self.controller.getConsumerManager(), "consumerTable")
        self._modes = self._processor.getMessageRequestModeManager()
        self._mode_class = jpype.JClass("org.apache.rocketmq.common.message.MessageRequestMode")

    def answers(self, case: Json) -> Json:
        """Return the real answers in the form of `model_answers`."""
        topic = case["topic"]
        self._config.setServerLoadBalancerEnable(case["server_load_balancer_enable"])
        self._config.setDefaultMessageRequestMode(case["default_mode"])
        self._config.setDefaultPopShareQueueNum(case["default_shared"])
        self._know_mode(topic, case["set_mode"])
        self._know_route(topic, case["route"])
        self._know_members(case["clients"])
        question = {
            "topic": topic,
            "consumerGroup": "G",
            "strategyName": case["strategy"],
            "messageModel": case["model"],
        }
        return [self._answer(question | {"clientId": cid}) for cid in case["asking"]]

    def set_mode(self, topic: str, group: str, mode: str, shared: int) -> tuple[int, str | None]:
        """Return the code and remark of the broker's response."""
        body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": shared}
        response = self._request(_SET_MESSAGE_REQUEST_MODE, body)
        return int(response.getCode()), response.getRemark()

    def _know_mode(self, topic: str, mode: Json) -> None:
        self._modes.getMessageRequestModeMap().clear()
        if mode is not None:
            body = jpype.JClass(f"{_PROTOCOL}.body.SetMessageRequestModeRequestBody")()
            body.setMode(self._mode_class.valueOf(mode[0]))
            body.setPopShareQueueNum(mode[1])
            self._modes.setMessageRequestMode(topic, "G", body)

    def _know_route(self, topic: str, route: Json) -> None:
        self._routes.clear()
        if route is not None:
            queues = jpype.JClass("java.util.HashSet")()
            for mq in route:
                queues.add(jpype.JClass("org.apache.rocketmq.common.message.MessageQueue")(*mq))
            self._routes.put(topic, queues)

    def _know_members(self, clients: Json) -> None:
        self._groups.clear()
        if clients is not None:
            package = "org.apache.rocketmq.broker.client"
            group = jpype.JClass(f"{package}.ConsumerGroupInfo")("G")
            for cid in clients:
                channel = jpype.JClass("io.netty.channel.local.LocalChannel")()
                language = jpype.JClass(f"{_PROTOCOL}.LanguageCode").JAVA
                member = jpype.JClass(f"{package}.ClientChannelInfo")(channel, cid, language, 0)
                group.getChannelInfoTable().put(channel, member)
            self._groups.put("G", group)

    def _answer(self, question: Json) -> Json:
        response = json.loads(bytes(self._request(_QUERY_ASSIGNMENT, question).getBody()))
        if "messageQueueAssignments" not in response:
            return None
        given = [(found["messageQueue"], found["mode"]) for found in response["messageQueueAssignments"]]
        return sorted([mq["topic"], mq["brokerName"], mq["queueId"], mode] for mq, mode in given)

    def _request(self, code: int, body: Json) -> Any:
        request = jpype.JClass(f"{_PROTOCOL}.RemotingCommand").createRequestCommand(code, None)
        request.setBody(json.dumps(body).encode())
        return self._processor.processRequest(None, request)

    def mode_of(self, topic: str, group: str) -> str | None:
        """Return the stored mode; None if there is none."""
        found = self._modes.getMessageRequestMode(topic, group)
        return None if found is None else str(found.getMode())


def _field(holder: Any, name: str) -> Any:
    field = holder.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(holder)
