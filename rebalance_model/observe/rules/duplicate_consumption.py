"""DUPLICATE_CONSUMPTION: after a rebalance, owners read messages again that had been consumed and committed.

RocketMQ promises each message at least once, so this is no fault; how many they were, and what moved the queues, is
worth knowing. One incident for each rebalance, which lists its queues; one more for what no rebalance explains. It
opens after a persist interval, by when the heirs have begun. Clear when every commit is back where it was.
"""

from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, RebalanceRule, Verdict
from rebalance_model.observe.state import GroupState, Reread
from rebalance_model.observe.step import GroupStep

CODE = "DUPLICATE_CONSUMPTION"
QUEUES_LISTED = 20
"""So many queues are listed, and all are counted."""


def note(step: GroupStep) -> list[str]:
    """Note which of the queues to be judged are read again; return the rebalances to judge, "" for none."""
    noted = step.state.reread
    for mq in step.queues_to_judge:
        reread = _reread(step.state, mq)
        if reread is not None:
            before = noted.setdefault(reread.rebalance_id, {}).get(mq)
            noted[reread.rebalance_id][mq] = reread if before is None else _together(before, reread)
    return list(noted)


def forget(step: GroupStep) -> None:
    """Forget what was noted of incidents that are over."""
    state = step.state
    for rebalance_id in list(state.reread):
        if _name(rebalance_id) not in state.incidents and _name(rebalance_id) not in state.pending:
            del state.reread[rebalance_id]


def judge(step: GroupStep, rebalance_id: str) -> Verdict:
    """Judge by where the owners began to read, against what had been committed."""
    state = step.state
    noted = state.reread.get(rebalance_id)
    if not noted:
        return CLEAR
    again = (_reread(state, mq) for mq in noted)
    if not any(reread is not None and reread.rebalance_id == rebalance_id for reread in again):
        if _name(rebalance_id) in state.incidents:
            return CLEAR
        pending = state.pending.get(_name(rebalance_id))
        if pending is not None and step.now - pending.since >= step.policy.persist_consumer_offset_interval:
            step.schedule_check(step.now + 1)  # it is over already, opens now all the same, and ends
    clients = {reread.client_id for reread in noted.values()}
    return Holds("info", client_id=clients.pop() if len(clients) == 1 else None)


def evidence(step: GroupStep, rebalance_id: str) -> Evidence:
    """Say how much was read again, of which queues, and because of which rebalance."""
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


def _name(rebalance_id: str) -> str:
    """Its incident's place among the group's."""
    return f"{CODE} {rebalance_id}".rstrip()


def _reread(state: GroupState, mq: MessageQueue) -> Reread | None:
    queue = state.queues.get(mq)
    return queue.hook_view.reread if queue is not None and queue.hook_view is not None else None


def _together(before: Reread, reread: Reread) -> Reread:
    """Return all that was read again of a queue, where it is read again once more or from further back."""
    start, mark = min(before.start, reread.start), max(before.mark, reread.mark)
    return Reread(start, mark, reread.client_id, reread.rebalance_id, reread.consume_time_ms)


RULE = RebalanceRule(
    CODE,
    judge,
    evidence,
    units={"messages": "messages", "worth_ms": "ms", "queues": "count", "offsets": "text", "rebalance_id": "text"},
    needs=("HOOKS",),
    open_after=lambda policy: policy.persist_consumer_offset_interval,
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("REBALANCE_STORM", "BROKER_UNREACHABLE"),
    advice={
        "": Advice(
            what="Messages that were consumed and committed before are being consumed again.",
            first_step=(
                "Nothing, if consumers are idempotent; the rebalance named in the evidence is what moved the queue."
            ),
        ),
    },
)
