"""QUEUE_DOUBLE_OWNED: two members hold one queue at the same time.

Answers are snapshots of two instants: during a hand-over one may still show what the next one does not. So each member
must show the queue in two consecutive answers, and the two spans must overlap. A client consumes an ordered queue only
while it believes that it holds the lock: both locks must be valid by their owners' own timestamps, and the later one
must have existed when the other client answered.

For a concurrent queue the broker's hook shows it too: both clients have pulled alternately for longer than a rebalance
takes. (Commits add nothing: a client pulls every queue that it has not dropped, but commits nothing if no message
arrives.)

After a topic gets more queues, one client may know that and the other may not: the queue has two owners and messages
are consumed twice (DUPLICATE_CONSUMPTION reports that), but it ends by itself. Every client queries the name server
within 30 s and rebalances within another 20 s, so nothing is judged until then (`Policy.unassigned_after_new`).
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.polls.offsets import COVERED_INTERVALS
from rebalance_model.observe.rules import concerns, route_view_split
from rebalance_model.observe.rules.rule import CLEAR, Advice, Clear, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.state import ClientView, HookQueueView, ProcessQueueView
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check the last two answers of both members, or the pulls of both."""
    queue = q.queue
    pulled = q.seen is not None and q.seen.concurrent_puller is not None
    if (queue.rival is None and not pulled) or queue.owner is None or q.mq.is_retry or not step.facts.is_divided:
        return CLEAR
    by_pulls = _by_pulls(step, q.calls) if q.calls is not None else None
    rival = by_pulls if by_pulls is not None else _by_answers(step, q, queue.owner, queue.rival)
    if not isinstance(rival, str):
        return rival
    if _has_just_grown(step, q):
        return None
    return Holds("critical", client_id=rival, explained_by=route_view_split.explains(step, q.mq))


def _has_just_grown(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether some clients may not yet know how many queues the topic has."""
    route = step.state.routes.get(q.mq.topic)
    if route is None or not 0 < len(route.former) < len(route.queues):
        return False
    until = route.changed_at + step.policy.unassigned_after_new
    if step.now > until:
        return False
    step.schedule_check(until + 1)
    return True


def _by_pulls(step: GroupStep, hook_view: HookQueueView) -> str | None:
    """Return the client that pulls the queue beside its owner."""
    puller = hook_view.concurrent_puller
    if puller is None or puller.client_id not in step.facts.members or step.state.orderly:
        return None
    last = min(puller.pull_time, hook_view.pull_time)
    if step.now - last > step.policy.pull_suspended_max:
        return None  # one of them has stopped
    together = last - max(puller.since, hook_view.holder_since)
    if puller.client_id == hook_view.holder or together <= step.policy.rebalance_wait_interval:
        return None
    step.schedule_check(last + step.policy.pull_suspended_max + 1)
    return puller.client_id


def _by_answers(step: GroupStep, q: QueueFacts, owner: str, rival: str | None) -> str | Clear | None:
    """Return the member that claims the queue in its answers as its owner does."""
    if rival is None or rival == owner:
        return CLEAR
    holder, other = step.state.clients[owner], step.state.clients.get(rival)
    if other is None:
        return CLEAR
    if holder.silent or other.silent:
        return None
    return rival if _overlap(step.policy, q, holder, other) else CLEAR


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return both members, since when each has shown the queue, and whether each claims the lock."""
    queue = q.queue
    fields: Evidence = {"owner": queue.owner, "rival": queue.rival, "expected_owner": queue.expected_owner}
    for role, client_id in (("owner", queue.owner), ("rival", queue.rival)):
        client = step.state.clients.get(client_id or "")
        process_queue = client.queues.get(q.mq) if client is not None else None
        if client is not None and process_queue is not None:
            fields[f"{role}_since"] = process_queue.claimed_since
            fields[f"{role}_answered"] = client.answered
            fields[f"{role}_locked"] = process_queue.locked if client.orderly else None
    if q.seen is not None and (puller := q.seen.concurrent_puller) is not None:
        fields |= {"pulled_by": puller.client_id, "pulled_since": puller.since, "pulled_at": puller.pull_time}
    return fields


def _overlap(policy: Policy, q: QueueFacts, holder: ClientView, other: ClientView) -> bool:
    mine, theirs = holder.queues.get(q.mq), other.queues.get(q.mq)
    if mine is None or theirs is None or mine.dropped or theirs.dropped:
        return False
    began = max(mine.claimed_since, theirs.claimed_since)
    pairs = ((holder, mine, other), (other, theirs, holder))
    return all(
        client.asked_at_answer > began
        and client.asked_at_answer - client.asked_before <= COVERED_INTERVALS * policy.poll_interval
        and (not client.orderly or _was_locked(policy, held, client, beside.asked_at_answer))
        for client, held, beside in pairs
    )


def _was_locked(policy: Policy, process_queue: ProcessQueueView, client: ClientView, at: int) -> bool:
    """Return whether the client believes in its lock now, and did so when the other client was asked (``at``)."""
    queue = client.at_answer(process_queue)
    renewed = queue.last_lock_timestamp
    is_trusted = queue.trusts_lock(client.answered, policy.client_lock_max_live_time)
    return is_trusted and renewed is not None and renewed <= at


RULE = QueueRule(
    "QUEUE_DOUBLE_OWNED",
    judge,
    evidence,
    title="Two clients consume {subject}",
    units={
        "owner": "text",
        "rival": "text",
        "expected_owner": "text",
        "owner_since": "epoch_ms",
        "owner_answered": "epoch_ms",
        "owner_locked": "flag",
        "rival_since": "epoch_ms",
        "rival_answered": "epoch_ms",
        "rival_locked": "flag",
        "pulled_by": "text",
        "pulled_since": "epoch_ms",
        "pulled_at": "epoch_ms",
    },
    concerns=concerns.RIVAL,
    needs=("OWNERS",),
    clear_after=lambda policy: policy.rebalance_wait_interval,
    absorbed_by=("TELEMETRY_GAP", "REBALANCE_STORM", "MIXED_MEMBERS", "CLIENT_ID_COLLISION"),
    advice={
        "": Advice(
            what="Two members hold the queue at the same time: its messages are consumed twice.",
            first_step=(
                "Compare both members' strategy, client id and member list; restart the one that should not have it."
            ),
            inspect=("COMPARE",),
        ),
    },
)
