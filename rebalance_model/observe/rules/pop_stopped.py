"""POP_STOPPED: a member does not pop any more, so it consumes nothing.

FULL: by two consecutive answers it has popped more messages of a queue than popThresholdForQueue, and acknowledged none
of them: it waits for its listener. All the time the broker's own lag can be 0, as the commit advances when a message is
handed out. Critical if more messages wait.
"""

from rebalance_model.observe.group.offsets import lag_of
from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.rule import CLEAR, Advice, ClientRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import ClientView
from rebalance_model.observe.step import GroupStep

FULL = "FULL"


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Check whether the client was full in two answers; one that does not answer is as it last was."""
    client = step.state.clients.get(client_id)
    if client is None or not client.full:
        return CLEAR
    if client.unanswered or client.full_since == client.answered:
        return None
    return Holds("critical" if _lag(step, client) else "warning", FULL, client_id)


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return what the client has popped and not acknowledged, for how long it has been full, and what waits behind."""
    client = step.state.clients.get(client_id)
    if client is None:
        return {"member": False}
    return {
        "unacked": client.unacked,
        "queues_full": len(client.full),
        "full_ms": client.answered - client.full_since if client.full_since else 0,
        "lag": _lag(step, client),
    }


def _lag(step: GroupStep, client: ClientView) -> int:
    """Return how many messages wait in the queues that the client does not pop, as far as is known."""
    places = {(one.topic, one.broker, one.queue_id) for one in client.full}
    return sum(
        lag_of(queue) or 0
        for mq, queue in step.state.queues.items()
        if (mq.topic, mq.broker, mq.queue_id) in places or (mq.topic, mq.broker, -1) in places
    )


RULE = ClientRule(
    "POP_STOPPED",
    judge,
    evidence,
    title="{subject} has stopped popping",
    units={"member": "flag", "unacked": "messages", "queues_full": "count", "full_ms": "ms", "lag": "messages"},
    sub_causes=(FULL,),
    concerns=concerns.FULL,
    needs=("POLLS", "ANSWERS"),
    absorbed_by=("BROKER_UNREACHABLE", "TELEMETRY_GAP"),
    advice={
        FULL: Advice(
            short="it acknowledges nothing",
            what=(
                "The member has popped as many messages as it may (popThresholdForQueue), and acknowledges none: it "
                "pops no more. When they have been invisible for long enough, others get them again."
            ),
            first_step="Take a thread dump of the member (mqadmin consumerStatus -s): its listeners have not returned.",
            inspect=("THREADS",),
        ),
    },
)
