"""The faults, each with its cure: what is done to real processes, and what a watcher should then see."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from streaming.errors import UserError
from streaming.lab.cluster import PRODUCER, Cluster
from streaming.lab.control import Queue
from streaming.lab.processes import send
from streaming.lab.state import ActiveFault
from streaming.settings import LabGroup

SLOW_PULL_MS = 150_000  # over pullMaxIdleTime (120 s): between two pulls the client's own check calls the queue expired
NEW_QUEUES = 4
_MESSAGE_SECONDS_MAX = 20.0  # how long a client that owns queues may have to wait for its next message


@dataclass(frozen=True)
class Aim:
    """What a fault is aimed at."""

    client: str
    group: LabGroup
    queue_id: int | None = None
    count: int = NEW_QUEUES


@dataclass(frozen=True)
class Hit:
    """What it hit."""

    queue: Queue | None = None
    former_queues: int = 0


@dataclass(frozen=True)
class Fault:
    """One kind of fault. The texts name the client, its group and topic, and the queue in braces."""

    target: Literal["new consumer", "consumer", "ordered consumer", "topic"]
    does: str
    expect: str
    cure_does: str
    cure_expect: str
    inject: Callable[[Cluster, Aim], Hit]
    cure: Callable[[Cluster, ActiveFault], None]
    takes_away: bool = False
    """While it lasts the process is missing on purpose."""


def _join(cluster: Cluster, aim: Aim, pull_interval_ms: int = 0) -> Hit:
    cluster.launch_consumer(aim.client, aim.group, pull_interval_ms=pull_interval_ms)
    try:
        cluster.await_start(aim.client)
    except UserError:
        cluster.end(aim.client, cleanly=False)
        cluster.forget(aim.client)
        raise
    return Hit()


def _join_slowly(cluster: Cluster, aim: Aim) -> Hit:
    return _join(cluster, aim, SLOW_PULL_MS)


def _quit(cluster: Cluster, active: ActiveFault) -> None:
    cluster.end(active.client, cleanly=True)
    cluster.forget(active.client)


def _leave(cluster: Cluster, aim: Aim) -> Hit:
    cluster.end(aim.client, cleanly=True)
    return Hit()


def _kill(cluster: Cluster, aim: Aim) -> Hit:
    cluster.end(aim.client, cleanly=False)
    return Hit()


def _return(cluster: Cluster, active: ActiveFault) -> None:
    cluster.relaunch_consumer(active.client)
    cluster.await_start(active.client)


def _freeze(cluster: Cluster, aim: Aim) -> Hit:
    send(cluster.state.members[aim.client].process, signal.SIGSTOP)
    return Hit()


def _thaw(cluster: Cluster, active: ActiveFault) -> None:
    send(cluster.state.members[active.client].process, signal.SIGCONT)


def _hang(cluster: Cluster, aim: Aim) -> Hit:
    cluster.tell_consumer(aim.client, hang=True, queue_id=aim.queue_id)
    queue = _touched(cluster, aim, "hangs")
    return Hit(queue if aim.queue_id is not None else None)


def _poison(cluster: Cluster, aim: Aim) -> Hit:
    cluster.tell_consumer(aim.client, poison=True, queue_id=aim.queue_id)
    return Hit(_touched(cluster, aim, "poisoned"))


def _touched(cluster: Cluster, aim: Aim, event: str) -> Queue:
    try:
        said = cluster.await_report(aim.client, lambda one: one.event == event or None, _MESSAGE_SECONDS_MAX)
    except UserError:
        cluster.tell_consumer(aim.client)
        where = "that queue" if aim.queue_id is not None else "any queue"
        raise UserError(
            f"{aim.client} got no message of {where} to misbehave with: see what it owns in `lab status`."
        ) from None
    return said.queues[0]


def _behave(cluster: Cluster, active: ActiveFault) -> None:
    cluster.tell_consumer(active.client)


def _add_queues(cluster: Cluster, aim: Aim) -> Hit:
    if not cluster.runs(PRODUCER):
        raise UserError("The producer, which changes topics, is down: run `rebalance-watch lab up` first.")
    former = cluster.state.topics[aim.group.topic]
    cluster.tell_topics({**cluster.state.topics, aim.group.topic: former + aim.count})
    return Hit(former_queues=former)


def _remove_queues(cluster: Cluster, active: ActiveFault) -> None:
    cluster.tell_topics({**cluster.state.topics, active.client: active.former_queues})


FAULTS: dict[str, Fault] = {
    "join": Fault(
        target="new consumer",
        does="a new consumer joins the group",
        expect="{client} joins {group}: one rebalance, and queues move to it",
        cure_does="it leaves",
        cure_expect="{client} leaves {group} cleanly: one rebalance gives its queues back at once",
        inject=_join,
        cure=_quit,
    ),
    "leave": Fault(
        target="consumer",
        does="a consumer shuts down cleanly",
        expect="{client} unlocks and unregisters from {group}: its queues move within seconds",
        cure_does="it is started again",
        cure_expect="{client} joins {group} again: one rebalance",
        inject=_leave,
        cure=_return,
        takes_away=True,
    ),
    "kill": Fault(
        target="consumer",
        does="a consumer is killed (SIGKILL)",
        expect="{client} is gone without unlocking: its heirs are refused its ordered queues up to 60 s from its last "
        "renewal; ORDERED_QUEUE_STUCK (OWNER_GONE_LOCK_HELD) where that takes longer than stuck_after",
        cure_does="it is started again",
        cure_expect="{client} joins {group} again: one rebalance",
        inject=_kill,
        cure=_return,
        takes_away=True,
    ),
    "freeze": Fault(
        target="consumer",
        does="a consumer is stopped (SIGSTOP), as by a long garbage collection",
        expect="{client} stays a member and does nothing: its locks expire after 30 s (LOCK_EXPIRED), its queues stand "
        "(ORDERED_QUEUE_STUCK, OWNER_UNRESPONSIVE) until the broker drops it after 120 to 130 s",
        cure_does="it goes on (also: lab fault thaw)",
        cure_expect="{client} goes on: it renews its locks, or comes back on new channels if the broker had dropped it",
        inject=_freeze,
        cure=_thaw,
    ),
    "hang": Fault(
        target="consumer",
        does="a consumer's listener blocks (--queue: on one queue only)",
        expect="{client} keeps its locks and heartbeats while no commit of {where} advances: ORDERED_QUEUE_STUCK "
        "(LISTENER_HUNG) after stuck_after",
        cure_does="the listener goes on",
        cure_expect="{client} consumes again: the commit of {where} advances",
        inject=_hang,
        cure=_behave,
    ),
    "poison": Fault(
        target="ordered consumer",
        does="an ordered listener refuses one message (SUSPEND_CURRENT_QUEUE_A_MOMENT)",
        expect="{client} tries one message of {where} again and again: ORDERED_QUEUE_STUCK (SUSPEND_LOOP) after "
        "stuck_after",
        cure_does="the message is accepted",
        cure_expect="{client} accepts the message: the commit of {where} advances",
        inject=_poison,
        cure=_behave,
    ),
    "slow-pull": Fault(
        target="new consumer",
        does=f"a consumer joins that pulls every {SLOW_PULL_MS // 1000} s",
        expect="{client} joins {group} and its queues stand between two pulls: ORDERED_QUEUE_STUCK (NOT_PULLING), and "
        "PULL_EXPIRED after 120 s, until the client's next rebalance gives each queue a new start",
        cure_does="it leaves",
        cure_expect="{client} leaves {group}: its queues move and are pulled again",
        inject=_join_slowly,
        cure=_quit,
    ),
    "add-queues": Fault(
        target="topic",
        does=f"the topic grows by --count queues ({NEW_QUEUES})",
        expect="{client} has more queues: clients see it within 30 s, each at its own time, and share them out",
        cure_does="the topic goes back to its former number",
        cure_expect="{client} has its former number of queues: the others are given up",
        inject=_add_queues,
        cure=_remove_queues,
    ),
}

CURES = {"thaw": "freeze"}
"""Cures with a name of their own."""
