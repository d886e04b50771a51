"""The actions of faults on real processes, and of their cures."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from streaming.base.errors import UserError
from streaming.base.sections.lab import LabGroup
from streaming.base.times import now_ms
from streaming.lab.cluster import LabCluster
from streaming.lab.control import TAGS, ConsumerOrders, LabQueue
from streaming.lab.processes import send
from streaming.lab.state import ActiveFault

SLOW_PULL_MS = 150_000  # over pullMaxIdleTime (120 s): between two pulls the client's own check finds the queue expired
NEW_QUEUES = 4
OTHER_STRATEGY = "AllocateMessageQueueAveragelyByCircle"
OTHER_EXPRESSION = TAGS[-1]
_OBEY_SECONDS_MAX = 60.0  # a process checks its orders five times a second, if it gets CPU time
_ORDERS_AHEAD_MS = 3_000  # all consumers of a group have their orders before the message is sent that they are about
_MESSAGE_SECONDS_MAX = 60.0  # how long a client that owns queues may have to wait for its next message


@dataclass(frozen=True)
class FaultTarget:
    """The target of a fault."""

    client: str
    """The name of a consumer (existing or new), a topic or a broker; the key of a group."""
    group: LabGroup
    queue_id: int | None = None
    broker: str = ""
    """Broker whose queues have the fault; empty: every broker's."""
    count: int = NEW_QUEUES


@dataclass(frozen=True)
class FaultEffect:
    """The process, queue or group that a fault has affected."""

    queue: LabQueue | None = None
    former_queues: int = 0


Inject: TypeAlias = Callable[[LabCluster, FaultTarget], FaultEffect]
Cure: TypeAlias = Callable[[LabCluster, ActiveFault], None]


def _start(cluster: LabCluster, orders: ConsumerOrders) -> FaultEffect:
    cluster.launch_consumer(orders)
    try:
        cluster.await_start(orders.name)
    except UserError:
        _end(cluster, orders.name, cleanly=False)
        raise
    return FaultEffect()


def _end(cluster: LabCluster, name: str, *, cleanly: bool) -> None:
    cluster.end(name, cleanly=cleanly)
    cluster.forget(name)


def join(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start another consumer like the others."""
    return _start(cluster, cluster.new_consumer(aim.client, aim.group))


def join_slowly(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a consumer that hardly pulls."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), pull_interval_ms=SLOW_PULL_MS))


def join_without_retries(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a consumer that refuses one message and has no further attempt for it."""
    _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), max_reconsume_times=0))
    try:
        return poison(cluster, aim)
    except UserError:
        _end(cluster, aim.client, cleanly=False)
        raise


def join_by_another_strategy(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a consumer with another allocation strategy."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), strategy=OTHER_STRATEGY))


def join_in_another_mode(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a concurrent consumer in an ordered group, or the reverse."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), ordered=not aim.group.ordered))


def join_with_another_subscription(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a consumer that subscribes to one tag only."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), expression=OTHER_EXPRESSION))


def join_for_another_topic(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a consumer that subscribes to another topic than the group."""
    other = next((topic for topic in cluster.state.topics if topic != aim.group.topic), None)
    if other is None:
        raise UserError("topic-set needs a second topic: give the lab another group (lab.groups in the settings).")
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), topic=other))


def join_that_pulls(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a consumer that pulls in a group whose members pop."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), client="pull"))


def quit_group(cluster: LabCluster, active: ActiveFault) -> None:
    """Stop a consumer that joined, and remove it."""
    _end(cluster, active.client, cleanly=True)


def _twin(client: str) -> str:
    return f"{client}-twin"


def join_by_the_same_id(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Start a second process with the client id of a running consumer."""
    return _start(cluster, replace(cluster.consumer(aim.client), name=_twin(aim.client)))


def quit_twin(cluster: LabCluster, active: ActiveFault) -> None:
    """Stop the second process; the original consumer stays."""
    _end(cluster, _twin(active.client), cleanly=True)


def stop(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Stop cleanly (SIGTERM): a consumer leaves its group, a broker unregisters at the name server."""
    cluster.end(aim.client, cleanly=True)
    return FaultEffect()


def kill(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Kill a process (SIGKILL)."""
    cluster.end(aim.client, cleanly=False)
    return FaultEffect()


def start_again(cluster: LabCluster, active: ActiveFault) -> None:
    """Start a consumer with its former orders."""
    cluster.launch_consumer(cluster.consumer(active.client))
    cluster.await_start(active.client)


def stop_all(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Stop every consumer of a group cleanly."""
    for name in cluster.consumers(aim.client):
        cluster.end(name, cleanly=True)
    return FaultEffect()


def start_all_again(cluster: LabCluster, active: ActiveFault) -> None:
    """Start the consumers of a group with their former orders."""
    names = [name for name in cluster.consumers(active.client) if not cluster.runs(name)]
    for name in names:
        cluster.launch_consumer(cluster.consumer(name))
    for name in names:
        cluster.await_start(name)


def start_broker_again(cluster: LabCluster, active: ActiveFault) -> None:
    """Start a broker with its former store."""
    cluster.start_broker(active.client)


def freeze(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Freeze a process (SIGSTOP)."""
    send(cluster.state.members[aim.client].process, signal.SIGSTOP)
    return FaultEffect()


def thaw(cluster: LabCluster, active: ActiveFault) -> None:
    """Continue a frozen process (SIGCONT)."""
    send(cluster.state.members[active.client].process, signal.SIGCONT)


def partition(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Cut a consumer off from the servers without closing a connection."""
    try:
        _network(cluster, aim.client, cut=True)
    except UserError:
        cluster.send_orders(replace(cluster.consumer(aim.client), cut=False))
        raise
    return FaultEffect()


def heal(cluster: LabCluster, active: ActiveFault) -> None:
    """Let delayed and new traffic pass again."""
    _network(cluster, active.client, cut=False)


def _network(cluster: LabCluster, client: str, *, cut: bool) -> None:
    cluster.send_orders(replace(cluster.consumer(client), cut=cut))
    event = "cut" if cut else "healed"
    cluster.await_report(client, lambda report: report.event == event or None, _OBEY_SECONDS_MAX)


def hang(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Let the listener block."""
    queue = _misbehave(cluster, aim, "hangs", replace(cluster.consumer(aim.client), hang=True))
    return FaultEffect(queue if aim.queue_id is not None else None)


def poison(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Let the listener refuse the next message."""
    return FaultEffect(_misbehave(cluster, aim, "poisoned", replace(cluster.consumer(aim.client), poison=True)))


def poison_group(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Let every consumer of a group refuse one message."""
    return _of_one_message(cluster, aim, "poisoned", poison=True)


def slow_group(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Let one message take longer than its invisible time, whichever consumer of a group gets it."""
    return _of_one_message(cluster, aim, "slowed", slow=True)


def _of_one_message(cluster: LabCluster, aim: FaultTarget, event: str, **behaviour: bool) -> FaultEffect:
    """Give all consumers the same orders for the next message that the producer sends."""
    names = [name for name in cluster.consumers(aim.client) if cluster.runs(name)]
    begin = now_ms() + _ORDERS_AHEAD_MS
    sent = {"sent_from": begin, "sent_until": begin + cluster.send_interval_ms()}
    for name in names:
        cluster.send_orders(replace(cluster.consumer(name), **behaviour, **sent))
    try:
        report = cluster.await_any_report(names, lambda one: one.event == event or None, _MESSAGE_SECONDS_MAX)
    except UserError:
        _behave_all(cluster, aim.client)
        raise UserError(f"{aim.client} received no message, so the fault has no effect: see `lab status`.") from None
    return FaultEffect(report.queues[0])


def behave_all(cluster: LabCluster, active: ActiveFault) -> None:
    """Let the listeners of a group work normally again."""
    _behave_all(cluster, active.client)


def _behave_all(cluster: LabCluster, key: str) -> None:
    for name in cluster.consumers(key):
        _behave(cluster, name)


def no_ack(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Let the consumer acknowledge nothing."""
    _misbehave(cluster, aim, "withholds", replace(cluster.consumer(aim.client), no_ack=True))
    return FaultEffect()


def _misbehave(cluster: LabCluster, aim: FaultTarget, event: str, orders: ConsumerOrders) -> LabQueue:
    cluster.send_orders(replace(orders, queue_id=aim.queue_id, broker=aim.broker))
    try:
        report = cluster.await_report(aim.client, lambda one: one.event == event or None, _MESSAGE_SECONDS_MAX)
    except UserError:
        _behave(cluster, aim.client)
        where = "that queue" if aim.queue_id is not None or aim.broker else "any queue"
        raise UserError(
            f"{aim.client} received no message of {where}, so the fault has no effect: see its queues in `lab status`."
        ) from None
    return report.queues[0]


def behave(cluster: LabCluster, active: ActiveFault) -> None:
    """Let the listener work normally again."""
    _behave(cluster, active.client)


def _behave(cluster: LabCluster, client: str) -> None:
    orders = cluster.consumer(client)
    well = replace(orders, hang=False, poison=False, slow=False, no_ack=False, queue_id=None, broker="")
    cluster.send_orders(replace(well, sent_from=0, sent_until=0))


def add_queues(cluster: LabCluster, aim: FaultTarget) -> FaultEffect:
    """Add queues to the topic on every running broker."""
    former = cluster.state.topics[aim.group.topic]
    cluster.set_topics({**cluster.state.topics, aim.group.topic: former + aim.count})
    return FaultEffect(former_queues=former)


def remove_queues(cluster: LabCluster, active: ActiveFault) -> None:
    """Reduce the topic to its former number of queues."""
    cluster.set_topics({**cluster.state.topics, active.client: active.former_queues})
