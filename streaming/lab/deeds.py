"""What the faults do to real processes, and what their cures do."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from streaming.errors import UserError
from streaming.lab.cluster import Cluster
from streaming.lab.control import TAGS, ConsumerOrders, Queue
from streaming.lab.processes import send
from streaming.lab.state import ActiveFault
from streaming.settings import LabGroup

SLOW_PULL_MS = 150_000  # over pullMaxIdleTime (120 s): between two pulls the client's own check calls the queue expired
NEW_QUEUES = 4
OTHER_STRATEGY = "AllocateMessageQueueAveragelyByCircle"
OTHER_EXPRESSION = TAGS[-1]
_OBEY_SECONDS_MAX = 20.0  # a process looks for its orders five times a second, if it gets to run
_MESSAGE_SECONDS_MAX = 20.0  # how long a client that owns queues may have to wait for its next message


@dataclass(frozen=True)
class Aim:
    """What a fault is aimed at."""

    client: str
    """A consumer's name, there or to come; a topic's or a broker's."""
    group: LabGroup
    queue_id: int | None = None
    broker: str = ""
    """Only on this broker's queues; empty: on every broker's."""
    count: int = NEW_QUEUES


@dataclass(frozen=True)
class Hit:
    """What it hit."""

    queue: Queue | None = None
    former_queues: int = 0


Inject: TypeAlias = Callable[[Cluster, Aim], Hit]
Cure: TypeAlias = Callable[[Cluster, ActiveFault], None]


def _start(cluster: Cluster, orders: ConsumerOrders) -> Hit:
    cluster.launch_consumer(orders)
    try:
        cluster.await_start(orders.name)
    except UserError:
        _end(cluster, orders.name, cleanly=False)
        raise
    return Hit()


def _end(cluster: Cluster, name: str, *, cleanly: bool) -> None:
    cluster.end(name, cleanly=cleanly)
    cluster.forget(name)


def join(cluster: Cluster, aim: Aim) -> Hit:
    """A new consumer, as the others are."""
    return _start(cluster, cluster.new_consumer(aim.client, aim.group))


def join_slowly(cluster: Cluster, aim: Aim) -> Hit:
    """A new consumer that hardly pulls."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), pull_interval_ms=SLOW_PULL_MS))


def join_by_another_strategy(cluster: Cluster, aim: Aim) -> Hit:
    """A new consumer that works out its queues in another way."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), strategy=OTHER_STRATEGY))


def join_in_another_mode(cluster: Cluster, aim: Aim) -> Hit:
    """A new consumer that is concurrent in an ordered group, or the other way round."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), ordered=not aim.group.ordered))


def join_with_another_subscription(cluster: Cluster, aim: Aim) -> Hit:
    """A new consumer that wants one tag only."""
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), expression=OTHER_EXPRESSION))


def join_for_another_topic(cluster: Cluster, aim: Aim) -> Hit:
    """A new consumer that subscribes another topic than the group does."""
    other = next((topic for topic in cluster.state.topics if topic != aim.group.topic), None)
    if other is None:
        raise UserError("topic-set needs a second topic: give the lab another group (lab.groups in the settings).")
    return _start(cluster, replace(cluster.new_consumer(aim.client, aim.group), topic=other))


def quit_group(cluster: Cluster, active: ActiveFault) -> None:
    """A consumer that joined leaves for good."""
    _end(cluster, active.client, cleanly=True)


def _twin(client: str) -> str:
    return f"{client}-twin"


def join_by_the_same_id(cluster: Cluster, aim: Aim) -> Hit:
    """A second process with a living consumer's client id."""
    return _start(cluster, replace(cluster.consumer(aim.client), name=_twin(aim.client)))


def quit_twin(cluster: Cluster, active: ActiveFault) -> None:
    """The second process leaves; whoever it doubled stays."""
    _end(cluster, _twin(active.client), cleanly=True)


def stop(cluster: Cluster, aim: Aim) -> Hit:
    """SIGTERM: a consumer leaves its group, a broker its name server."""
    cluster.end(aim.client, cleanly=True)
    return Hit()


def kill(cluster: Cluster, aim: Aim) -> Hit:
    """SIGKILL."""
    cluster.end(aim.client, cleanly=False)
    return Hit()


def start_again(cluster: Cluster, active: ActiveFault) -> None:
    """A consumer, with the orders that it had."""
    cluster.launch_consumer(cluster.consumer(active.client))
    cluster.await_start(active.client)


def start_broker_again(cluster: Cluster, active: ActiveFault) -> None:
    """A broker, with the store that it had."""
    cluster.start_broker(active.client)


def freeze(cluster: Cluster, aim: Aim) -> Hit:
    """SIGSTOP."""
    send(cluster.state.members[aim.client].process, signal.SIGSTOP)
    return Hit()


def thaw(cluster: Cluster, active: ActiveFault) -> None:
    """SIGCONT."""
    send(cluster.state.members[active.client].process, signal.SIGCONT)


def partition(cluster: Cluster, aim: Aim) -> Hit:
    """Nothing passes between it and the servers, and no connection is closed."""
    try:
        _network(cluster, aim.client, cut=True)
    except UserError:
        cluster.tell_consumer(replace(cluster.consumer(aim.client), cut=False))
        raise
    return Hit()


def heal(cluster: Cluster, active: ActiveFault) -> None:
    """What waited goes through."""
    _network(cluster, active.client, cut=False)


def _network(cluster: Cluster, client: str, *, cut: bool) -> None:
    cluster.tell_consumer(replace(cluster.consumer(client), cut=cut))
    event = "cut" if cut else "healed"
    cluster.await_report(client, lambda said: said.event == event or None, _OBEY_SECONDS_MAX)


def hang(cluster: Cluster, aim: Aim) -> Hit:
    """The listener does not return."""
    queue = _misbehave(cluster, aim, "hangs", replace(cluster.consumer(aim.client), hang=True))
    return Hit(queue if aim.queue_id is not None else None)


def poison(cluster: Cluster, aim: Aim) -> Hit:
    """The listener refuses the first message that it now gets."""
    return Hit(_misbehave(cluster, aim, "poisoned", replace(cluster.consumer(aim.client), poison=True)))


def _misbehave(cluster: Cluster, aim: Aim, event: str, orders: ConsumerOrders) -> Queue:
    cluster.tell_consumer(replace(orders, queue_id=aim.queue_id, broker=aim.broker))
    try:
        said = cluster.await_report(aim.client, lambda one: one.event == event or None, _MESSAGE_SECONDS_MAX)
    except UserError:
        _behave(cluster, aim.client)
        where = "that queue" if aim.queue_id is not None or aim.broker else "any queue"
        raise UserError(
            f"{aim.client} got no message of {where} to misbehave with: see what it owns in `lab status`."
        ) from None
    return said.queues[0]


def behave(cluster: Cluster, active: ActiveFault) -> None:
    """The listener does its work again."""
    _behave(cluster, active.client)


def _behave(cluster: Cluster, client: str) -> None:
    orders = cluster.consumer(client)
    cluster.tell_consumer(replace(orders, hang=False, poison=False, queue_id=None, broker=""))


def add_queues(cluster: Cluster, aim: Aim) -> Hit:
    """More queues of the topic, on every broker that runs."""
    former = cluster.state.topics[aim.group.topic]
    cluster.tell_topics({**cluster.state.topics, aim.group.topic: former + aim.count})
    return Hit(former_queues=former)


def remove_queues(cluster: Cluster, active: ActiveFault) -> None:
    """As many queues of the topic as before."""
    cluster.tell_topics({**cluster.state.topics, active.client: active.former_queues})
