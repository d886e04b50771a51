"""QUEUE_STALLED: a queue that is consumed concurrently has lag, and its commit has not advanced for a long time.

The commit of such a queue is the smallest offset that is still being processed: one listener that does not return holds
it back, while others continue until the span reaches consumeConcurrentlyMaxSpan. Judged like ORDERED_QUEUE_STUCK, on
covered time alone. A queue of which the owner has no cached message does not wait for a listener, unless the owner
pulls it and consumes nothing: then the client may not report what it has. Nor does one that it has released without a
call (`released_queues`).

A client that declares a longer consumeTimeout than the default (15 min) has listeners that take long on purpose. Within
that time nothing is wrong with one; a commit without progress for ten minutes is reported (LISTENER_MAY_TAKE_LONG).
"""

from typing import Literal, get_args

from rebalance_model.entities import RETRY_TOPIC_PREFIX
from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts
from rebalance_model.observe.group import retaken
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.hooks import pull_errors, released_queues
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import concerns, filtered, pull_stall, stall, thread_pool
from rebalance_model.observe.rules.ghost_connection import ghost_evidence
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.state import ClientView, IncidentKey
from rebalance_model.observe.step import GroupStep

SubCause = Literal[
    "FILTERED",
    "RETAKEN",
    "PULL_INTERVAL",
    "UNASSIGNED",
    "GHOST_CONNECTION",
    "OWNER_UNRESPONSIVE",
    "PULL_REFUSED",
    "TOPIC_NOT_READABLE",
    "SUSPENDED",
    "HOLDS_BACK",
    "NOTHING_RECEIVED",
    "POOL_EXHAUSTED",
    "MESSAGE_LOST",
    "LISTENER_BATCH",
    "LISTENER_HUNG",
    "MESSAGE_HELD",
    "LISTENER_BLOCKED",
    "LISTENER_MAY_TAKE_LONG",
    "RETRY_NOT_CONSUMED",
    "READER_STOPPED",
    "NOT_COMMITTED",
    "NOT_REPORTED",
    "UNDETERMINED",
]

_OF_LISTENER = ("POOL_EXHAUSTED", "LISTENER_BATCH", "LISTENER_HUNG", "MESSAGE_HELD", "LISTENER_BLOCKED")
_CONSUME_TIMEOUT = 15 * 60_000
"""The default of consumeTimeout: a client that declares no more may not know of it; milliseconds."""
_SAID_AFTER = 10 * 60_000
"""Time without a commit that is reported even if the client allows its listener more; milliseconds."""


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check for how long the queue has waited; None until that is long enough."""
    if step.facts.broadcasts:
        return CLEAR  # the broker's offsets are stale
    if not (q.mq.is_retry or q.is_concurrent):
        return None
    waited = stall.find(step, q, _limit(step.policy)) if not pull_errors.is_illegal(step, q) else None
    if waited is None:
        return None
    if waited.ms <= _limit(step.policy):
        return CLEAR if waited.moved else None
    return _of_retry(step, q, waited) if q.mq.is_retry else _of_topic(step, q, waited)


def _of_topic(step: GroupStep, q: QueueFacts, waited: stall.Stall) -> Verdict:
    if filtered.is_filtered(step, q):
        return filtered.verdict(q)
    by_itself = filtered.is_read_actively(step, q)
    return _of_reader(step, q, waited) if by_itself else _of_listener(step, q, waited.ms)


def _of_listener(step: GroupStep, q: QueueFacts, waited_ms: int) -> Verdict:
    """Check a queue that has waited for long, and whose client gives its messages to a listener."""
    process_queue = owners_queue(step, q)
    if retaken.is_again(step, q):
        return stall.of_retaken(step, RULE.code, q, "warning")
    if process_queue is not None and process_queue.answer is not None:
        cached = process_queue.answer.cached_count
        if cached is not None and cached <= 0 and not _pulls_in_vain(process_queue, step.policy):
            return None
    elif step.facts.routes is None and released_queues.is_released_by_owner(step, q):
        is_open = IncidentKey(RULE.code, str(q)) in step.state.incidents
        return _unassigned(step, q) if is_open else None  # no client has what its listener had of it
    sub_cause = stall.settled(step, RULE.code, q, _sub_cause(step, q, process_queue))
    if sub_cause in _OF_LISTENER and waited_ms <= _allowed(q):
        return Holds("warning", "LISTENER_MAY_TAKE_LONG", q.queue.owner) if waited_ms > _SAID_AFTER else CLEAR
    return _unassigned(step, q) if sub_cause == "UNASSIGNED" else _with_pool(step, q, sub_cause, waited_ms)


def _allowed(q: QueueFacts) -> int:
    """Return how long a message may be in a listener of the owner, as it declares on purpose; 0: it does not."""
    declared = q.owner.consume_timeout if q.owner is not None else None
    return declared if declared is not None and declared > _CONSUME_TIMEOUT else 0


def _unassigned(step: GroupStep, q: QueueFacts) -> Holds:
    return Holds("warning", "UNASSIGNED", explained_by=stall.causes_of_unassigned(step, q))


def _with_pool(step: GroupStep, q: QueueFacts, sub_cause: str, waited_ms: int) -> Verdict:
    """Return the verdict; of the queues that wait for one pool of threads, the incident of one explains the others.

    That is a queue of the topic that has the threads, if it is known which one: the others wait until it has opened.
    """
    owner = q.queue.owner
    pool = thread_pool.exhausted(step, owner) if sub_cause == "POOL_EXHAUSTED" else None
    if pool is None:
        explained_by = stall.causes(step, q.mq.broker, sub_cause, owner)
        return Holds("warning", sub_cause, owner, explained_by=explained_by)
    root = thread_pool.root(step, RULE.code, q.mq, owner)
    is_early = waited_ms <= _limit(step.policy) + 2 * step.policy.poll_interval
    if not root and pool.holder not in (None, q.mq.topic) and is_early:
        return None
    return Holds("warning", sub_cause, owner, explained_by=(root,) if root else ())


def _of_reader(step: GroupStep, q: QueueFacts, waited: stall.Stall) -> Verdict:
    """Check a queue whose client pulls by itself, and commits when its application does."""
    owner, reads = q.queue.owner, filtered.reads_on(step, q, _limit(step.policy))
    if reads is False:
        return _with_pool(step, q, _cause_of_reader(step, q), waited.ms)
    if waited.ms <= step.policy.uncommitted_after:
        return CLEAR if reads else None
    return Holds("warning", "NOT_COMMITTED" if reads else "UNDETERMINED", owner)


def _cause_of_reader(step: GroupStep, q: QueueFacts) -> SubCause:
    process_queue = owners_queue(step, q)
    if process_queue is None:
        return "PULL_REFUSED" if pull_errors.is_refused(step, q) else "READER_STOPPED"
    if _is_unresponsive(step, q, process_queue):
        return "OWNER_UNRESPONSIVE"
    return pull_stall.cause_of(step, q, process_queue) or "READER_STOPPED"


def _of_retry(step: GroupStep, q: QueueFacts, waited: stall.Stall) -> Verdict:
    """Check messages in the retry queue, of ordered groups, too: a message comes there after its delay.

    A message that fails again is committed, and comes back behind the others. What comes back to clients that pop is in
    topics of their own, of which each POP reads a part only: more must wait there than one pull brings.
    """
    if not waited.lag or (
        q.mq.topic != RETRY_TOPIC_PREFIX + step.state.group and waited.lag <= step.facts.pull_batch(q.queue.owner)
    ):
        return None
    if retaken.is_again(step, q):
        return stall.of_retaken(step, RULE.code, q, "warning")
    owner, sub_cause = q.queue.owner, _sub_cause(step, q, owners_queue(step, q))
    if sub_cause in ("UNASSIGNED", "GHOST_CONNECTION", "UNDETERMINED"):
        return Holds("warning", "RETRY_NOT_CONSUMED", owner)
    return Holds("warning", sub_cause, owner, explained_by=stall.causes(step, q.mq.broker, sub_cause, owner))


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the lag, the offsets, and the last known state of the owner."""
    queue, process_queue = q.queue, owners_queue(step, q)
    fields = stall.evidence(step, q, _limit(step.policy))
    if process_queue is not None:
        fields |= _of_threads(process_queue.client)
        fields |= {"pull_age_ms": process_queue.pull_ms, "consume_age_ms": process_queue.consume_ms}
        fields["cached_count"] = process_queue.answer.cached_count if process_queue.answer is not None else None
    return fields | ghost_evidence(step, q) | thread_pool.evidence(step, queue.owner)


def _of_threads(client: ClientView) -> Evidence:
    """Return how many messages the listener gets at once, and how many threads were in it when that was asked."""
    fields: Evidence = {"consume_batch": client.consume_batch} if (client.consume_batch or 1) > 1 else {}
    asked: Evidence = {"threads_in_listener": client.threads_in_listener, "stacks_at": client.stacks_at}
    return fields | asked if client.stacks_at else fields


def _pulls_in_vain(process_queue: OwnersQueue, policy: Policy) -> bool:
    """Return whether the owner pulls the queue and has consumed nothing of it for long."""
    pull_ms, consume_ms = process_queue.pull_ms, process_queue.consume_ms
    pulls = pull_ms is not None and pull_ms <= policy.pull_suspended_max
    return pulls and consume_ms is not None and consume_ms > policy.consume_frozen_after


def _limit(policy: Policy) -> int:
    return policy.stuck_after + policy.stalled_open_after


def _sub_cause(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue | None) -> SubCause:
    """Return the first sub-cause that applies."""
    if process_queue is None:
        return _without_owner(step, q)
    if _is_unresponsive(step, q, process_queue):
        return "OWNER_UNRESPONSIVE"
    if (of_pulls := pull_stall.cause_of(step, q, process_queue)) is not None:
        return of_pulls
    if process_queue.answer is not None and (process_queue.answer.cached_count or 0) > 0:
        return _of_messages(step, q, process_queue)
    if thread_pool.exhausted(step, q.queue.owner) is not None:
        return "POOL_EXHAUSTED"
    seen = stall.by_calls(step, q)
    has_pulled = seen is not None and (process_queue.answer is None or bool(seen.lag)) and _has_pulled(q)
    return "LISTENER_BLOCKED" if has_pulled else "UNDETERMINED"


def _of_messages(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> SubCause:
    """Return why the owner does not finish the messages that it has."""
    client = process_queue.client
    if _is_lost(step, q, client):
        return "MESSAGE_LOST"
    if thread_pool.exhausted(step, q.queue.owner) is not None:
        return "POOL_EXHAUSTED"
    if not _is_frozen(step, q, process_queue):
        return "MESSAGE_HELD"
    return "LISTENER_BATCH" if (client.consume_batch or 1) > 1 else "LISTENER_HUNG"


def _is_lost(step: GroupStep, q: QueueFacts, client: ClientView) -> bool:
    """Return whether no thread of the client was in its listener when it was asked during the stall.

    The answer holds for as long as the commit stands, though others may be in the listener later.
    """
    incident = step.state.incidents.get(IncidentKey(RULE.code, str(q)))
    if incident is not None and incident.sub_cause == "MESSAGE_LOST":
        return True
    return client.threads_in_listener == 0 and 0 < step.now - client.stacks_at < q.queue.stalled_ms


def _is_frozen(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> bool:
    """Return whether the owner has finished no message of the queue for long, not only that at the commit.

    If it has finished one during the incident, it is that at the commit: the next may come minutes later.
    """
    incident = step.state.incidents.get(IncidentKey(RULE.code, str(q)))
    if incident is not None and incident.sub_cause == "MESSAGE_HELD":
        return False
    consume_ms = process_queue.consume_ms
    return consume_ms is None or consume_ms > step.policy.consume_frozen_after


def _has_pulled(q: QueueFacts) -> bool:
    """Return whether its client has pulled it since it took it: what the one before had pulled is not with it."""
    return q.seen is not None and q.seen.start_offset >= 0


def _without_owner(step: GroupStep, q: QueueFacts) -> SubCause:
    if pull_errors.is_refused(step, q):
        return "PULL_REFUSED"
    if not step.facts.is_divided and step.state.members:
        return "UNDETERMINED"  # its clients do not report which of them has it
    return stall.without_owner(step, q)


def _is_unresponsive(step: GroupStep, q: QueueFacts, process_queue: OwnersQueue) -> bool:
    """Return whether the client sends nothing to the collector or, without an answer, to the broker."""
    if process_queue.client.silent and step.now - process_queue.client.answered > step.policy.unresponsive_after:
        return True
    return process_queue.answer is None and stall.is_unresponsive(step, q)


RULE = QueueRule(
    "QUEUE_STALLED",
    judge,
    evidence,
    title="{subject} is not advancing",
    units={**stall.UNITS, **thread_pool.UNITS, "consume_batch": "messages", "stacks_at": "epoch_ms"},
    sub_causes=get_args(SubCause),
    concerns=concerns.STALLED,
    needs=("OFFSETS_OF_BROKER", "PULLS", "LISTS"),
    absorbed_by=(
        "PULL_REFUSED",
        "PULL_EXPIRED",
        "NO_ACTIVE_CLIENTS_WITH_LAG",
        "LOCK_ORPHANED",
        *OF_BROKER,
        "PROXY_UNREACHABLE",
        "TELEMETRY_GAP",
        "REBALANCE_STORM",
        "MIXED_MEMBERS",
        "QUEUE_UNASSIGNED",
        "CLIENT_ID_COLLISION",
    ),
    is_lasting=True,
    advice={
        **stall.ADVICE,
        filtered.FILTERED: filtered.ADVICE,
        **pull_stall.ADVICE,
        "READER_STOPPED": Advice(
            short="the application takes no more messages",
            what=(
                "The client pulls by itself (CONSUME_ACTIVELY), and takes no more messages of the queue: its "
                "application does not call poll() or pull(), or has paused the queue."
            ),
            first_step=(
                "Take a thread dump of the owner (mqadmin consumerStatus -s) and look at the thread that calls poll() "
                "or pull(): such a client has no ConsumeMessageThread."
            ),
            inspect=("THREADS", "PROGRESS"),
        ),
        "NOT_COMMITTED": Advice(
            short="the client reads on and does not commit",
            what=(
                "The client pulls by itself (CONSUME_ACTIVELY), and reads on, but it has not committed for long: after "
                "a restart it reads these messages again."
            ),
            first_step=(
                "Check whether the application's checkpoints succeed (Flink, SeaTunnel), and that it calls commit(); "
                "raise uncommitted_after for this group if it keeps its offsets elsewhere."
            ),
            inspect=("PROGRESS",),
        ),
        "RETRY_NOT_CONSUMED": Advice(
            short="nobody consumes the retry topic",
            what="Messages that failed wait in the retry topic to be tried again, and no client consumes them.",
            first_step=(
                "Check which member has the retry queue, and that it pulls it; restart that member, or all if none has."
            ),
            inspect=("COMPARE", "PROGRESS"),
        ),
        "POOL_EXHAUSTED": Advice(
            short="all threads of its owner are busy",
            what=(
                "Messages of several topics wait at the owner, enough for all its threads, and none is finished: all "
                "of its threads seem to be in listeners that do not return. Its topics share them: messages of the "
                "other topics do not start, though nothing is wrong with them."
            ),
            first_step=(
                "Take a thread dump of the owner (mqadmin consumerStatus -s) and look at what its "
                "ConsumeMessageThreads wait for; the evidence names the topic that stopped first, if that is known."
            ),
            inspect=("THREADS", "MESSAGE"),
        ),
        "MESSAGE_LOST": Advice(
            short="its client has lost track of a message",
            what=(
                "The owner has messages of the queue and does not finish that at the commit, though none of its "
                "threads was in the listener when it was asked: the client has lost track of it."
            ),
            first_step=(
                "Restart the client: it reads the messages from the commit on again. Read its log for what happened to "
                "the message (a rejected task, an exception outside the listener)."
            ),
            inspect=("MESSAGE", "PROGRESS"),
        ),
        "LISTENER_BATCH": Advice(
            short="its listener has not finished a batch",
            what=(
                "The owner finishes no messages of the queue. Its listener gets several at once "
                "(consumeMessageBatchMaxSize), and the commit waits for the whole batch: it takes long, a listener "
                "has not returned, or the client has lost track of a message."
            ),
            first_step=(
                "Compare how long a message takes with the size of a batch: lower consumeMessageBatchMaxSize (1 is the "
                "default). Take a thread dump of the owner (mqadmin consumerStatus -s)."
            ),
            inspect=("THREADS", "MESSAGE"),
        ),
        "LISTENER_HUNG": Advice(
            short="its owner finishes no message",
            what=(
                "The owner has messages of the queue and finishes none: a listener has not returned, or the client has "
                "lost track of a message. The commit waits for it."
            ),
            first_step=(
                "Take a thread dump of the owner (mqadmin consumerStatus -s): look at what its ConsumeMessageThreads "
                "wait for; if none is in the listener, restart the client."
            ),
            inspect=("THREADS", "MESSAGE"),
        ),
        "MESSAGE_HELD": Advice(
            short="the message at its commit is not finished",
            what=(
                "The owner continues with later messages, but not past the one at the commit: a listener has not "
                "returned from it, or the client has lost track of it."
            ),
            first_step=(
                "Take a thread dump of the owner (mqadmin consumerStatus -s): look at what its ConsumeMessageThreads "
                "wait for; if none is in the listener, restart the client."
            ),
            inspect=("THREADS", "MESSAGE"),
        ),
        "LISTENER_MAY_TAKE_LONG": Advice(
            short="its listener may take long",
            what=(
                "A message has been in a listener for more than ten minutes. Its client allows that: it declares a "
                "longer consumeTimeout."
            ),
            first_step="Wait if the listener takes long on purpose; else lower consumeTimeout, and take a thread dump.",
            inspect=("THREADS", "MESSAGE"),
        ),
        "LISTENER_BLOCKED": Advice(
            short="a message is not finished",
            what=(
                "The owner has pulled messages, but its committed offset is not advancing: a listener has not returned "
                "from the one at it, or the client has lost track of it."
            ),
            first_step=(
                "Take a thread dump of the owner (mqadmin consumerStatus -s): look at what its ConsumeMessageThreads "
                "wait for; if none is in the listener, restart the client."
            ),
            inspect=("THREADS", "MESSAGE"),
        ),
    },
)
