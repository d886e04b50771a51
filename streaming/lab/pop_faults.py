"""The faults of consumers that pop, with their cures; a name may be that of a fault of consumers that pull.

What a fault leads to depends on how its consumer pops: each name has a fault for each kind of client that can have it.
"""

from collections.abc import Iterator

from streaming.base.sections.lab import PopClient
from streaming.lab import fault_actions
from streaming.lab.control import INVISIBLE_MS
from streaming.lab.faults import LabFault

_INVISIBLE = f"{INVISIBLE_MS // 1000} s"
_GONE = (
    "its proxy lists {client} and keeps its messages from the others until 120 s after its last heartbeat: "
    "PROXY_CLIENT_GONE after 30 s; in a group in order the queues that it held stand meanwhile"
)
_NEW = "{client} is a member of {group} under a new id; PROXY_CLIENT_GONE is resolved when the proxy drops the old one"


def _join(expect: str) -> LabFault:
    return LabFault(
        target="new consumer",
        does="a new consumer joins the group",
        expect=expect,
        cure_does="it leaves",
        cure_expect="{client} leaves {group} cleanly: the others go on",
        inject=fault_actions.join,
        cure=fault_actions.quit_group,
    )


_JOIN = _join("{client} joins {group} and pops from every queue; none changes its owner, as there is none")
_PULL = LabFault(
    target="new consumer",
    does="a consumer joins that pulls the topic (clientRebalance=true), while the others pop it",
    expect="{client} joins {group}, and many messages are consumed twice: MIXED_REQUEST_MODE after 40 s",
    cure_does="it leaves",
    cure_expect="{client} leaves {group}: the topic is only popped again; resolved after a minute",
    inject=fault_actions.join_that_pulls,
    cure=fault_actions.quit_group,
)


def _leave() -> LabFault:
    return LabFault(
        target="consumer",
        does="a consumer shuts down cleanly",
        expect="{client} leaves {group}; what it had popped and not acknowledged comes back to the others",
        cure_does="it is started again",
        cure_expect="{client} is a member of {group} again",
        inject=fault_actions.stop,
        cure=fault_actions.start_again,
        takes_away=True,
    )


def _kill(expect: str, cure_expect: str) -> LabFault:
    return LabFault(
        target="consumer",
        does="a consumer is killed (SIGKILL)",
        expect=expect,
        cure_does="it is started again",
        cure_expect=cure_expect,
        inject=fault_actions.kill,
        cure=fault_actions.start_again,
        takes_away=True,
    )


def _freeze(expect: str, cure_expect: str) -> LabFault:
    return LabFault(
        target="consumer",
        does="a consumer is stopped (SIGSTOP), as by a long garbage collection",
        expect=expect,
        cure_does="it continues (also: lab fault thaw)",
        cure_expect=cure_expect,
        inject=fault_actions.freeze,
        cure=fault_actions.thaw,
    )


def _poison(expect: str) -> LabFault:
    return LabFault(
        target="group",
        does="all consumers of a group refuse one message, each time it comes (--client: the key of the group)",
        expect=expect,
        cure_does="the message is accepted",
        cure_expect="{group} accepts the message when it comes the next time",
        inject=fault_actions.poison_group,
        cure=fault_actions.behave_all,
    )


def _hang(expect: str) -> LabFault:
    return LabFault(
        target="consumer",
        does="a consumer's listener blocks in all its threads (--queue, --broker: only for messages from there)",
        expect=expect,
        cure_does="the listener continues",
        cure_expect="{client} acknowledges again; what had been popped for too long comes back once more",
        inject=fault_actions.hang,
        cure=fault_actions.behave,
    )


def _slow() -> LabFault:
    return LabFault(
        target="group",
        does=f"one message takes longer than its invisible time ({_INVISIBLE}), each time it comes (--client: the key "
        "of the group)",
        expect="{group} finishes the message too late, so it gets it again and again: POP_RETURNED (EXPIRED), an info",
        cure_does="it is quick again",
        cure_expect="{group} acknowledges the message in time when it comes again; resolved after a minute",
        inject=fault_actions.slow_group,
        cure=fault_actions.behave_all,
    )


def _all_gone() -> LabFault:
    return LabFault(
        target="group",
        does="every consumer of a group shuts down cleanly (--client: the key of the group)",
        expect="{group} has no consumer while messages arrive: NO_ACTIVE_CLIENTS_WITH_LAG after a minute",
        cure_does="all are started again",
        cure_expect="{group} is consumed again: resolved as soon as its members are seen",
        inject=fault_actions.stop_all,
        cure=fault_actions.start_all_again,
        takes_away=True,
    )


_NO_ACK = LabFault(
    target="consumer",
    does="a simple consumer acknowledges nothing",
    expect=f"{{client}} gets each message again after {_INVISIBLE}: POP_RETURNED (EXPIRED)",
    cure_does="it acknowledges again",
    cure_expect="{client} acknowledges what comes: resolved a minute after the last message came back",
    inject=fault_actions.no_ack,
    cure=fault_actions.behave,
)

POP_FAULTS: dict[str, dict[PopClient, LabFault]] = {
    "join": {"remoting": _JOIN, "grpc-push": _JOIN, "grpc-simple": _JOIN},
    "leave": {"remoting": _leave(), "grpc-push": _leave(), "grpc-simple": _leave()},
    "poison": {
        "remoting": _poison("{group} refuses one message with growing delays: POP_RETURNED (REJECTED) within a minute"),
        "grpc-push": _poison(
            "in order, a client of {group} tries one message of {where} again and again without a request: "
            "ORDERED_QUEUE_STUCK (POP_BLOCKED) after a minute; otherwise it comes back: POP_RETURNED (REJECTED)"
        ),
    },
    "hang": {
        "remoting": _hang(
            "{client} pops and acknowledges nothing: POP_NOT_ACKING after a minute, and POP_STOPPED (FULL) when it has "
            "over 96 messages"
        ),
        "grpc-push": _hang(
            "in order, the queues of which {client} gets a message stand: ORDERED_QUEUE_STUCK (POP_BLOCKED) after a "
            "minute; otherwise its proxy keeps renewing its messages: POP_HELD_LONG after a minute"
        ),
    },
    "no-ack": {"grpc-simple": _NO_ACK},
    "slow": {"remoting": _slow(), "grpc-simple": _slow()},
    "kill": {
        "remoting": _kill(
            "{client} is gone, which its broker notices at once; what it had popped comes back to the others after "
            f"{_INVISIBLE}",
            "{client} is a member of {group} again",
        ),
        "grpc-push": _kill(_GONE, _NEW),
        "grpc-simple": _kill(_GONE, _NEW),
    },
    "freeze": {
        "remoting": _freeze(
            "{client} stays a member and does nothing: CLIENT_UNRESPONSIVE after two polls, POP_STOPPED after its next "
            "POP is overdue, STALE_HEARTBEAT",
            "{client} continues, and pops again",
        ),
        "grpc-push": _freeze(
            _GONE, "{client} continues, with its old id or, if the proxy had dropped it, registers again"
        ),
        "grpc-simple": _freeze(_GONE, "{client} continues, and registers again if the proxy had dropped it"),
    },
    "pull-among-pops": {"remoting": _PULL},
    "all-gone": {"remoting": _all_gone(), "grpc-push": _all_gone(), "grpc-simple": _all_gone()},
}


def pop_faults() -> Iterator[tuple[str, PopClient, LabFault]]:
    """Yield every fault with its name and its kind of client."""
    for name, faults in POP_FAULTS.items():
        for client, fault in faults.items():
            yield name, client, fault
