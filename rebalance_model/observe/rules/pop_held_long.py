"""POP_HELD_LONG: a popped message has been renewed by its proxy for long, and is not acknowledged.

A proxy renews the messages of a client that is still connected: a listener that hangs keeps its message from all other
clients, for up to three hours. Clear when the message is acknowledged or refused. Of queues that are popped in order
ORDERED_QUEUE_STUCK reports it, as the messages behind it wait.
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.hooks.pops import held_since
from rebalance_model.observe.rules import concerns, proxy_client_gone
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check since when the oldest of the renewed messages was popped."""
    queue = step.facts.pops.queues.queues.get(q.mq)
    if queue is None or queue.order or not queue.held_messages:
        return CLEAR
    since = held_since(queue)
    if step.now - since <= step.policy.pop_held_after:
        step.schedule_check(since + step.policy.pop_held_after + 1)
        return None
    return Holds("warning", explained_by=proxy_client_gone.explains(step))


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return how many messages are kept, the oldest one's offset, and for how long."""
    queue = step.facts.pops.queues.queues.get(q.mq)
    if queue is None or not queue.held_messages:
        return {"messages": 0}
    offset = min(queue.held_messages, key=lambda one: queue.held_messages[one].first_pop)
    return {
        "messages": len(queue.held_messages),
        "held_offset": offset,
        "held_ms": step.now - queue.held_messages[offset].first_pop,
        "limit_ms": step.policy.pop_held_after,
    }


RULE = QueueRule(
    "POP_HELD_LONG",
    judge,
    evidence,
    title="A message of {subject} is held for long",
    units={"messages": "messages", "held_offset": "offset", "held_ms": "ms", "limit_ms": "ms"},
    concerns=concerns.HELD,
    of_popped=True,
    needs=("POPS",),
    absorbed_by=(*OF_BROKER, "PROXY_UNREACHABLE", "TELEMETRY_GAP"),
    advice={
        "": Advice(
            what=(
                "A client behind a proxy has had a message for long, and the proxy keeps it from all others by "
                "renewing it: its listener has not returned."
            ),
            first_step="Look at the logs and threads of the group's clients: which of them has it the proxy knows.",
            inspect=("MESSAGE", "PROGRESS"),
        ),
    },
)
