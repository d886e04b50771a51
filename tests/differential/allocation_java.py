"""The real strategies of rocketmq-client, with the same cases as the model (allocation_script.py). Needs the JVM."""

from collections.abc import Callable
from typing import Any

import jpype

from rebalance_model.entities import MessageQueue
from tests.differential.allocation_script import HASHES, RESOLVERS, Json, universe

_REBALANCE = "org.apache.rocketmq.client.consumer.rebalance"
_HASH_FUNCTION = "org.apache.rocketmq.common.consistenthash.HashFunction"
_RESOLVER = f"{_REBALANCE}.AllocateMachineRoomNearby$MachineRoomResolver"


class JavaStrategies:
    """Builds strategies and calls them. Each Java queue is built once: most cases have the same few."""

    def __init__(self) -> None:
        self._message_queue = jpype.JClass("org.apache.rocketmq.common.message.MessageQueue")
        self._array_list = jpype.JClass("java.util.ArrayList")
        self._hash_set = jpype.JClass("java.util.HashSet")
        self._kinds = {
            "AVG": jpype.JClass(f"{_REBALANCE}.AllocateMessageQueueAveragely"),
            "AVG_BY_CIRCLE": jpype.JClass(f"{_REBALANCE}.AllocateMessageQueueAveragelyByCircle"),
            "CONSISTENT_HASH": jpype.JClass(f"{_REBALANCE}.AllocateMessageQueueConsistentHash"),
            "CONFIG": jpype.JClass(f"{_REBALANCE}.AllocateMessageQueueByConfig"),
            "MACHINE_ROOM": jpype.JClass(f"{_REBALANCE}.AllocateMessageQueueByMachineRoom"),
            "MACHINE_ROOM_NEARBY": jpype.JClass(f"{_REBALANCE}.AllocateMachineRoomNearby"),
        }
        self._made: dict[tuple[Any, ...], Any] = {}
        self._hashes = {name: jpype.JProxy(_HASH_FUNCTION, dict={"hash": hashed}) for name, hashed in HASHES.items()}

    def queue(self, mq: Json) -> Any:
        key = tuple(mq)
        if key not in self._made:
            self._made[key] = self._message_queue(*key)
        return self._made[key]

    def queues(self, mqs: Json) -> Any:
        return None if mqs is None else self.list([self.queue(mq) for mq in mqs])

    def list(self, values: list[Any]) -> Any:
        made = self._array_list()
        for value in values:
            made.add(value)
        return made

    def build(self, spec: Json) -> Any:
        params, kind = spec["params"], self._kinds[spec["strategy"]]
        match spec["strategy"]:
            case "CONSISTENT_HASH" if "custom_hash_function" in params:
                hashed = self._hashes[params["custom_hash_function"]]
                return kind(jpype.JInt(params.get("virtual_node_cnt", 10)), hashed)
            case "CONSISTENT_HASH":
                return kind(jpype.JInt(params["virtual_node_cnt"])) if params else kind()
            case "MACHINE_ROOM_NEARBY":
                inner = self.build(params["inner"]) if params["inner"] else None
                return kind(inner, _resolver(params["resolver"]))
        made = kind()
        if "message_queue_list" in params:
            made.setMessageQueueList(self.queues(params["message_queue_list"]))
        if "consumeridcs" in params:
            made.setConsumeridcs(self._hash_set(self.list(params["consumeridcs"])))
        return made

    def answers(self, case: Json) -> Json:
        """Return the real answers in the form of `model_answers`."""
        try:
            made = self.build(case)
        except jpype.JException as error:
            return _refusal(error, building=True)
        clients = None if case["clients"] is None else self.list(case["clients"])
        queues, every_queue = self.queues(case["queues"]), self.queues(universe(case))

        def answer(cid: str | None) -> Json:
            try:
                share = made.allocate("G", cid, queues, clients)
            except jpype.JException as error:
                return _refusal(error, building=False)
            return None if share is None else [int(every_queue.indexOf(mq)) for mq in share]

        return {"name": made.getName(), "answers": [answer(cid) for cid in case["asking"]]}


def _refusal(error: Any, *, building: bool) -> Json:
    name = str(error.getClass().getSimpleName())
    return [name, error.getMessage() if building or name != "NullPointerException" else None]


def _resolver(name: str | None) -> Any:
    if name is None:
        return None
    rooms = RESOLVERS[name]()

    def broker_deploy_in(mq: Any) -> str | None:
        return rooms.broker_deploy_in(MessageQueue(mq.getTopic(), mq.getBrokerName(), mq.getQueueId()))

    methods: dict[str, Callable[..., str | None]] = {
        "brokerDeployIn": broker_deploy_in,
        "consumerDeployIn": lambda cid: rooms.consumer_deploy_in(str(cid)),
    }
    return jpype.JProxy(_RESOLVER, dict=methods)
