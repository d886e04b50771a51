"""The cost of an allocation: ``python -m tests.instruments.bench allocation``.

It measures the whole group at once (`plan`), each client by itself (`allocate`), and the real Java classes, each client
by itself, as the clients of a group do. One run, after a warm-up run of each; the results are compared.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jpype
import typer
from rich.console import Console
from rich.table import Table

from rebalance_model.allocation import AllocateStrategy, strategy
from rebalance_model.entities import MessageQueue, java_order, queue_order
from tests.differential.jvm import start

ROOMS = 8
_NEARBY = "MACHINE_ROOM_NEARBY-AVG"
_REBALANCE = "org.apache.rocketmq.client.consumer.rebalance"
# Java runs in its own process, because calls from Python would add to its time; javac needs a JDK.
_RESOLVER = """
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby.MachineRoomResolver;
import org.apache.rocketmq.common.message.MessageQueue;

public class Rooms implements MachineRoomResolver {
    public String brokerDeployIn(MessageQueue mq) { return room(mq.getBrokerName()); }
    public String consumerDeployIn(String cid) { return room(cid); }
    private static String room(String name) { return name.substring(0, name.indexOf('@')); }
}
"""


class Rooms:
    """A strategy in Python, as in Java."""

    def broker_deploy_in(self, mq: MessageQueue) -> str:
        """Return the part before the @."""
        return mq.broker.partition("@")[0]

    def consumer_deploy_in(self, cid: str) -> str:
        """Return the part before the @; the last room has no client."""
        return cid.partition("@")[0]


def main(queues: int = 4_096, clients: int = 512) -> None:
    """Measure and print the results."""
    mq_all = [MessageQueue("Orders", f"r{i % ROOMS}@broker-{i % ROOMS}", i // ROOMS) for i in range(queues)]
    mq_all.sort(key=queue_order)
    cid_all = sorted((f"r{i % (ROOMS - 1)}@10.0.{i // 256}.{i % 256}" for i in range(clients)), key=java_order)
    table = Table("strategy", "plan", "allocate for each", "Java for each", title=f"{queues} queues, {clients} clients")
    with tempfile.TemporaryDirectory() as folder:
        start(Path(folder), "-XX:TieredStopAtLevel=4")  # with the optimising compiler, as in production
        for name, model, real in _strategies(Path(folder), mq_all):
            table.add_row(name, *_row(model, real, mq_all, cid_all))
        jpype.shutdownJVM()
    Console().print(table)


def _strategies(folder: Path, mq_all: list[MessageQueue]) -> list[tuple[str, AllocateStrategy, Any]]:
    rooms = {f"r{i}" for i in range(ROOMS - 1)}
    by_room, by_config, resolver = _java("MessageQueueByMachineRoom"), _java("MessageQueueByConfig"), _resolver(folder)
    by_room.setConsumeridcs(jpype.JClass("java.util.HashSet")(rooms))
    by_config.setMessageQueueList(_java_queues(mq_all[:8]))
    nearby = resolver and _java("MachineRoomNearby", _java("MessageQueueAveragely"), resolver)
    return [
        ("AVG", strategy("AVG"), _java("MessageQueueAveragely")),
        ("AVG_BY_CIRCLE", strategy("AVG_BY_CIRCLE"), _java("MessageQueueAveragelyByCircle")),
        ("CONSISTENT_HASH", strategy("CONSISTENT_HASH"), _java("MessageQueueConsistentHash")),
        ("CONFIG", strategy("CONFIG", message_queue_list=mq_all[:8]), by_config),
        ("MACHINE_ROOM", strategy("MACHINE_ROOM", consumeridcs=rooms), by_room),
        (_NEARBY, strategy(_NEARBY, resolver=Rooms()), nearby),
    ]


def _java(name: str, *args: Any) -> Any:
    return jpype.JClass(f"{_REBALANCE}.Allocate{name}")(*args)


def _java_queues(mq_all: list[MessageQueue]) -> Any:
    kind, made = jpype.JClass("org.apache.rocketmq.common.message.MessageQueue"), jpype.JClass("java.util.ArrayList")()
    for mq in mq_all:
        made.add(kind(mq.topic, mq.broker, mq.queue_id))
    return made


def _resolver(folder: Path) -> Any:
    compiler = jpype.JClass("javax.tools.ToolProvider").getSystemJavaCompiler()
    if compiler is None:
        return None
    source = folder / "Rooms.java"
    source.write_text(_RESOLVER)
    class_path = jpype.JClass("java.lang.System").getProperty("java.class.path")
    if compiler.run(None, None, None, "-d", str(folder), "-cp", class_path, str(source)):
        raise RuntimeError("the resolver did not compile")
    return jpype.JClass("Rooms")()


def _row(model: AllocateStrategy, real: Any, mq_all: list[MessageQueue], cid_all: list[str]) -> tuple[str, str, str]:
    plan, planned = _timed(lambda: model.plan("G", mq_all, cid_all))
    each, one_by_one = _timed(lambda: {cid: model.allocate("G", cid, mq_all, cid_all) for cid in cid_all})
    assert planned == one_by_one
    if real is None:
        return plan, each, "no compiler here"
    queues, clients = _java_queues(mq_all), jpype.JClass("java.util.ArrayList")(cid_all)
    java, shares = _timed(lambda: [real.allocate("G", cid, queues, clients) for cid in cid_all])
    assert [len(share) for share in shares] == [len(share or ()) for share in planned.values()]
    return plan, each, java


def _timed(work: Callable[[], Any]) -> tuple[str, Any]:
    work()
    before = time.perf_counter()
    answer = work()
    return f"{(time.perf_counter() - before) * 1000:,.1f} ms", answer


if __name__ == "__main__":
    typer.run(main)
