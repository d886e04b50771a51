"""The faults with their cures: the effect on the cluster, and what a monitor should then report."""

from dataclasses import dataclass
from typing import Literal

from streaming.lab import fault_actions
from streaming.lab.fault_actions import NEW_QUEUES, OTHER_EXPRESSION, OTHER_STRATEGY, SLOW_PULL_MS


@dataclass(frozen=True)
class LabFault:
    """One kind of fault. The texts name the client (topic, broker), its group, and the queue in braces."""

    target: Literal["new consumer", "consumer", "ordered consumer", "topic", "broker", "group"]
    does: str
    expect: str
    cure_does: str
    cure_expect: str
    inject: fault_actions.Inject
    cure: fault_actions.Cure
    takes_away: bool = False
    """True if the process is missing on purpose while the fault is active."""


_BACK = (
    "{client} is back without locks and members (a new boot time): clients see its route within 30 s and register with "
    "their next heartbeat, at most 30 s later; its ordered queues go to the first client that requests their lock "
    "(BROKER_LOCKS_LOST)"
)

FAULTS: dict[str, LabFault] = {
    "join": LabFault(
        target="new consumer",
        does="a new consumer joins the group",
        expect="{client} joins {group}: one rebalance, and queues move to it",
        cure_does="it leaves",
        cure_expect="{client} leaves {group} cleanly: one rebalance gives its queues back at once",
        inject=fault_actions.join,
        cure=fault_actions.quit_group,
    ),
    "leave": LabFault(
        target="consumer",
        does="a consumer shuts down cleanly",
        expect="{client} unlocks and unregisters from {group}: its queues move within seconds",
        cure_does="it is started again",
        cure_expect="{client} joins {group} again: one rebalance",
        inject=fault_actions.stop,
        cure=fault_actions.start_again,
        takes_away=True,
    ),
    "kill": LabFault(
        target="consumer",
        does="a consumer is killed (SIGKILL)",
        expect="{client} is gone without unlocking: the next owners of its ordered queues are refused for up to 60 s "
        "after its last renewal; ORDERED_QUEUE_STUCK (OWNER_GONE_LOCK_HELD) if that takes longer than stuck_after",
        cure_does="it is started again",
        cure_expect="{client} joins {group} again: one rebalance",
        inject=fault_actions.kill,
        cure=fault_actions.start_again,
        takes_away=True,
    ),
    "freeze": LabFault(
        target="consumer",
        does="a consumer is stopped (SIGSTOP), as by a long garbage collection",
        expect="{client} stays a member and does nothing: its locks expire after 30 s (LOCK_EXPIRED), its queues stop "
        "(ORDERED_QUEUE_STUCK, OWNER_UNRESPONSIVE) until the broker drops it after 120 to 130 s",
        cure_does="it continues (also: lab fault thaw)",
        cure_expect="{client} continues: it renews its locks, or returns on new channels if the broker had dropped it",
        inject=fault_actions.freeze,
        cure=fault_actions.thaw,
    ),
    "partition": LabFault(
        target="consumer",
        does="the network between a consumer and every server is cut: nothing passes either way, new connections hang, "
        "and none is closed",
        expect="{client} stays a member and cannot renew anything: its locks expire after 30 s (LOCK_EXPIRED), its "
        "queues stop (ORDERED_QUEUE_STUCK, OWNER_UNRESPONSIVE) until the brokers drop it after 120 to 130 s",
        cure_does="the network is healed, and delayed data passes",
        cure_expect="{client} comes back on new channels, because it closed those that did not answer: it sends a "
        "heartbeat and renews its locks, or requests the locks of its queues if the brokers had dropped it",
        inject=fault_actions.partition,
        cure=fault_actions.heal,
    ),
    "hang": LabFault(
        target="consumer",
        does="a consumer's listener blocks (--queue, --broker: only there)",
        expect="{client} keeps its locks and heartbeats while no commit of {where} advances: ORDERED_QUEUE_STUCK "
        "(LISTENER_HUNG) after stuck_after",
        cure_does="the listener continues",
        cure_expect="{client} consumes again: the commit of {where} advances",
        inject=fault_actions.hang,
        cure=fault_actions.behave,
    ),
    "poison": LabFault(
        target="ordered consumer",
        does="an ordered listener refuses one message (SUSPEND_CURRENT_QUEUE_A_MOMENT)",
        expect="{client} processes one message of {where} repeatedly: ORDERED_QUEUE_STUCK (SUSPEND_LOOP) after "
        "stuck_after",
        cure_does="the message is accepted",
        cure_expect="{client} accepts the message: the commit of {where} advances",
        inject=fault_actions.poison,
        cure=fault_actions.behave,
    ),
    "dead-letter": LabFault(
        target="new consumer",
        does="a consumer joins whose listener refuses one message and has no further attempt for it "
        "(maxReconsumeTimes 0)",
        expect="{client} joins {group}, and one message goes to the dead-letter topic: MESSAGES_DEAD_LETTERED when the "
        "collector next asks for dead letters (collector.dead_letters_interval_ms)",
        cure_does="it leaves",
        cure_expect="{client} leaves {group}; the incident is resolved when nothing was added for "
        "dead_letters_clear_after (10 min)",
        inject=fault_actions.join_without_retries,
        cure=fault_actions.quit_group,
    ),
    "slow-pull": LabFault(
        target="new consumer",
        does=f"a consumer joins that pulls every {SLOW_PULL_MS // 1000} s",
        expect="{client} joins {group} and its queues do not advance between two pulls: ORDERED_QUEUE_STUCK "
        "(NOT_PULLING), and PULL_EXPIRED after 120 s, until the client's next rebalance re-acquires each queue",
        cure_does="it leaves",
        cure_expect="{client} leaves {group}: its queues move and are pulled again",
        inject=fault_actions.join_slowly,
        cure=fault_actions.quit_group,
    ),
    "add-queues": LabFault(
        target="topic",
        does=f"the topic grows by --count queues ({NEW_QUEUES}) on every running broker",
        expect="{client} has more queues: clients see them within 30 s, each at its own time, and divide them",
        cure_does="the topic shrinks to its former number of queues",
        cure_expect="{client} has its former number of queues: the others are released",
        inject=fault_actions.add_queues,
        cure=fault_actions.remove_queues,
    ),
    "subscription": LabFault(
        target="new consumer",
        does=f"a consumer joins that subscribes only the tag {OTHER_EXPRESSION!r}, while the others subscribe all",
        expect="{client} joins {group}: messages of other tags in its queues reach no consumer, nor those in the "
        "others' queues while its subscription is a broker's newest (each rebalance of a member renews its own); "
        "SUBSCRIPTION_INCONSISTENT (EXPRESSION) after 150 s",
        cure_does="it leaves",
        cure_expect="{client} leaves {group}: the new owners of its queues renew their subscription, and all messages "
        "reach the group again; the skipped ones are lost",
        inject=fault_actions.join_with_another_subscription,
        cure=fault_actions.quit_group,
    ),
    "topic-set": LabFault(
        target="new consumer",
        does="a consumer joins that subscribes another topic than the others",
        expect="{client} joins {group}: each heartbeat overwrites the broker's subscription table, a share of the "
        "topic's queues goes to members that do not read it (QUEUE_UNASSIGNED), and the flips rebalance the group "
        "repeatedly (REBALANCE_STORM, TOPIC_SET_FLIP); SUBSCRIPTION_INCONSISTENT (TOPIC_SET) after 150 s",
        cure_does="it leaves",
        cure_expect="{client} leaves {group}: all members subscribe the same again, and every queue has an owner",
        inject=fault_actions.join_for_another_topic,
        cure=fault_actions.quit_group,
    ),
    "same-id": LabFault(
        target="consumer",
        does="a second process joins with a consumer's client id",
        expect="{client} is in {group}'s member list twice: both processes take the same queues and the same locks "
        "(CLIENT_ID_COLLISION), and a share of the topic is unassigned (QUEUE_UNASSIGNED)",
        cure_does="the second process leaves",
        cure_expect="{client} is one client again; the other process released its locks, which it renews within 20 s",
        inject=fault_actions.join_by_the_same_id,
        cure=fault_actions.quit_twin,
    ),
    "strategy": LabFault(
        target="new consumer",
        does=f"a consumer joins that allocates queues by {OTHER_STRATEGY}",
        expect="{client} joins {group}: STRATEGY_MISMATCH after two answers of each member; some queues are claimed by "
        "two members (in an ordered group the lock decides), and some by none (QUEUE_UNASSIGNED)",
        cure_does="it leaves",
        cure_expect="{client} leaves {group}: every queue has one owner again",
        inject=fault_actions.join_by_another_strategy,
        cure=fault_actions.quit_group,
    ),
    "mixed": LabFault(
        target="new consumer",
        does="a concurrent consumer joins an ordered group, or an ordered one a concurrent group",
        expect="{client} joins {group} and takes its share without locks while the others use locks, or vice versa: "
        "MIXED_CONSUME_MODE after two answers of each member",
        cure_does="it leaves",
        cure_expect="{client} leaves {group}: all members have the same mode again",
        inject=fault_actions.join_in_another_mode,
        cure=fault_actions.quit_group,
    ),
    "broker-restart": LabFault(
        target="broker",
        does="a broker shuts down cleanly (SIGTERM), the first half of a restart",
        expect="{client} is unreachable (BROKER_UNREACHABLE after two polls); its offsets are saved, its locks and "
        "members, kept only in memory, are lost; clients see a route without it within 30 s and release its queues",
        cure_does="it is started again, the second half",
        cure_expect=_BACK,
        inject=fault_actions.stop,
        cure=fault_actions.start_broker_again,
        takes_away=True,
    ),
    "broker-freeze": LabFault(
        target="broker",
        does="a broker is stopped (SIGSTOP), as if its network were cut, except that the kernel keeps connections open",
        expect="{client} is unreachable (BROKER_UNREACHABLE after two polls), and none of its queues advances",
        cure_does="it continues",
        cure_expect="{client} continues with the members and locks that it had, and answers pending requests; it "
        "drops clients whose last heartbeat is over 120 s old by its clock",
        inject=fault_actions.freeze,
        cure=fault_actions.thaw,
    ),
    "broker-kill": LabFault(
        target="broker",
        does="a broker is killed (SIGKILL)",
        expect="{client} is unreachable (BROKER_UNREACHABLE after two polls); its locks and members are lost, and the "
        "commits since it last saved offsets (every 5 s); clients see a route without it within 30 s and release its "
        "queues",
        cure_does="it is started again",
        cure_expect=f"{_BACK}; messages whose commit was lost are consumed again (DUPLICATE_CONSUMPTION)",
        inject=fault_actions.kill,
        cure=fault_actions.start_broker_again,
        takes_away=True,
    ),
}

CURES = {"thaw": "freeze"}
"""Cures with names of their own."""
