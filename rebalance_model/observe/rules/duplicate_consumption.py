"""DUPLICATE_CONSUMPTION: after a rebalance, owners read messages again that had been consumed and committed.

RocketMQ guarantees at-least-once delivery, so this is no fault; the incident reports how many messages were read
again, and which rebalance moved the queues. There is one incident for each rebalance, which lists its queues, and one
for the queues that no rebalance explains. It opens after a persist interval, when the new owners have begun. Clear when
every commit has reached its former position.
"""

from collections.abc import Iterable

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, RebalanceRule, Verdict
from rebalance_model.observe.state import IncidentKey, Reread
from rebalance_model.observe.step import GroupStep

CODE = "DUPLICATE_CONSUMPTION"
QUEUES_LISTED = 20
"""At most this many queues are listed; all of them are counted."""


def note(step: GroupStep, queues: Iterable[QueueFacts]) -> list[str]:
    """Record which of the queues are read again; return the rebalances to judge, "" for none.

    An owner whose pulls are refused has read nothing yet.
    """
    noted = step.state.reread
    for q in queues:
        if q.seen is not None and (reread := q.seen.reread) is not None and q.seen.pull_error is None:
            before = noted.setdefault(reread.rebalance_id, {}).get(q.mq)
            noted[reread.rebalance_id][q.mq] = reread if before is None else _together(before, reread)
    return list(noted)


def forget(step: GroupStep) -> None:
    """Remove the records of resolved incidents."""
    state = step.state
    for rebalance_id in list(state.reread):
        if _key(rebalance_id) not in state.incidents and _key(rebalance_id) not in state.pending:
            del state.reread[rebalance_id]


def judge(step: GroupStep, rebalance_id: str) -> Verdict:
    """Compare the offset where each owner began to read with what had been committed."""
    state = step.state
    noted = state.reread.get(rebalance_id)
    if not noted:
        return CLEAR
    again = (_reread(step, mq) for mq in noted)
    if not any(reread is not None and reread.rebalance_id == rebalance_id for reread in again):
        pending = state.pending.get(_key(rebalance_id))
        if pending is None:
            return CLEAR  # it is open, or was resolved by this step
        if step.now - pending.since >= step.policy.persist_consumer_offset_interval:
            step.schedule_check(step.now + 1)  # over already: opens now, resolved at the next check
    clients = {reread.client_id for reread in noted.values()}
    return Holds("info", client_id=clients.pop() if len(clients) == 1 else None)


def evidence(step: GroupStep, rebalance_id: str) -> Evidence:
    """Return how much was read again, of which queues, and because of which rebalance."""
    noted = step.state.reread.get(rebalance_id, {})
    times = [reread.consume_time_ms for reread in noted.values() if reread.consume_time_ms is not None]
    ranges = [f"{mq} {noted[mq].start}..{noted[mq].mark}" for mq in sorted(noted, key=queue_order)]
    more = [f"and {len(ranges) - QUEUES_LISTED} more"] if len(ranges) > QUEUES_LISTED else []
    return {
        "messages": sum(reread.mark - reread.start for reread in noted.values()),
        "worth_ms": max(times, default=None),
        "queues": len(noted),
        "offsets": ", ".join((*ranges[:QUEUES_LISTED], *more)),
        "rebalance_id": rebalance_id,
    }


def _key(rebalance_id: str) -> IncidentKey:
    return IncidentKey(CODE, rebalance_id)


def _reread(step: GroupStep, mq: MessageQueue) -> Reread | None:
    seen = QueueFacts.of(step.facts, mq).seen if mq in step.state.queues else None
    return seen.reread if seen is not None else None


def _together(before: Reread, reread: Reread) -> Reread:
    """Return the union of two ranges of a queue that is read again twice, or from a lower offset."""
    start, mark = min(before.start, reread.start), max(before.mark, reread.mark)
    return Reread(start, mark, reread.client_id, reread.rebalance_id, reread.consume_time_ms)


RULE = RebalanceRule(
    CODE,
    judge,
    evidence,
    title="A rebalance made {group} consume messages again",
    units={"messages": "messages", "worth_ms": "ms", "queues": "count", "offsets": "text", "rebalance_id": "text"},
    needs=("HOOKS",),
    open_after=lambda policy: policy.persist_consumer_offset_interval,
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("REBALANCE_STORM", "MIXED_MEMBERS", *OF_BROKER),
    advice={
        "": Advice(
            what="Messages that were consumed and committed before are being consumed again.",
            first_step="Nothing, if consumers are idempotent; the rebalance named in the evidence moved the queue.",
        ),
    },
)
