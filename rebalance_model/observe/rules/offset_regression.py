"""OFFSET_REGRESSION: a queue's committed offset has gone backwards; the messages in between are consumed again.

The broker accepts any offset, including a lower one. With the hook, the order of the commits and the cause are known
(`commits`). From answers alone only a lasting regression is seen (POLLED): two consecutive answers show less than was
committed before, and the cause is unknown. Clear when a later commit passes the mark (the highest offset before the
fall) and no other regression follows at once: a thawed client and the queue's new owner, which returns the queue, may
commit alternately within milliseconds.

Where the queue's newest offset itself has fallen, or the commit is beyond it, the marks are void: nothing is consumed
again. NEWEST_FELL is open for `FALL_SHOWN_FOR`; ILLEGAL_OFFSET and BEYOND_END until the reader corrects its offset.
"""

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import jumps
from rebalance_model.observe.group.ghost_connections import client_of_channel
from rebalance_model.observe.hooks import pull_errors
from rebalance_model.observe.hooks.commits import NEWEST_FELL
from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.step import GroupStep

LASTING = 2
"""The number of consecutive answers that must show it."""
FALL_SHOWN_FOR = 600_000
"""The time that a fall of the newest offset is shown that readers have followed; milliseconds."""


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check the lowest commit since the mark."""
    queue = q.queue
    ended = _of_newest(step, q)
    if ended is not None:
        return ended
    fallen, polled = q.seen.regression if q.seen is not None else None, queue.fallen_back
    if fallen is not None and fallen.counts and fallen.cause != NEWEST_FELL:
        if q.view is None or q.calls is None:
            return None
        calls = step.facts.calls_at(q.mq.broker)
        committer = client_of_channel(q.view, calls, fallen.channel)  # if a call has named it by now
        return Holds(_severity(step, fallen.mark - fallen.to), fallen.cause, committer)
    if polled is None or q.watched_since <= (polled.since or step.now):
        return CLEAR  # calls would have shown it
    if (commit := q.commit) is not None and commit.value >= polled.mark:
        return CLEAR
    return Holds(_severity(step, polled.mark - polled.to), "POLLED") if polled.answers >= LASTING else None


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the offsets before and after, and the owner of the queue."""
    queue = q.queue
    polled, commit = queue.fallen_back, q.commit
    fields: Evidence = {"owner": queue.owner, "commit_offset": commit.value if commit is not None else None}
    if polled is not None:
        fields |= {"fell_from": polled.mark, "fell_to": polled.to, "messages": polled.mark - polled.to}
    if q.seen is not None and (fallen := q.seen.regression) is not None:
        fields |= {
            "fell_from": fallen.mark,
            "fell_to": fallen.to,
            "messages": fallen.mark - fallen.to,
            "worth_ms": fallen.consume_time_ms,
            "channel": fallen.channel,
        }
    if (moved_by := jumps.reset_by(step, q.mq)) and (polled is not None or "fell_to" in fields):
        fields["moved_by"] = moved_by
    if (newest := queue.newest_fall) is not None:
        fields |= {"newest_fell_from": newest.mark, "newest_fell_to": newest.to, "newest_fell_at": newest.at}
    if queue.beyond_since and (commit is None or commit.value > (queue.broker_offset or 0)):
        fields["broker_offset"] = queue.broker_offset
    if (error := pull_errors.error_of(step, q)) is not None and error.code == pull_errors.OFFSET_MOVED:
        fields |= {"illegal_pulls": error.count, "illegal_since": error.since}
    return fields


def _of_newest(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check whether the newest offset has fallen, or the commit is beyond it; None: neither."""
    queue, limit = q.queue, step.policy.pull_refused_after
    error = pull_errors.error_of(step, q)
    if error is not None and error.code == pull_errors.OFFSET_MOVED:
        due = error.since + limit if step.now <= error.since + limit else error.over_at
        step.schedule_check(due + 1)
        if step.now > error.since + limit:
            return Holds("critical", "ILLEGAL_OFFSET", error.client_id)
    if queue.beyond_since and step.now - queue.beyond_since > limit:
        return Holds("critical", "BEYOND_END", queue.owner)
    fallen = q.seen.regression if q.seen is not None else None
    fell_at = max(
        queue.newest_fall.at if queue.newest_fall is not None else 0,
        fallen.at if fallen is not None and fallen.cause == NEWEST_FELL else 0,
    )
    if not fell_at or step.now - fell_at > FALL_SHOWN_FOR:
        return None
    step.schedule_check(fell_at + FALL_SHOWN_FOR + 1)
    return Holds("warning", NEWEST_FELL)


def _severity(step: GroupStep, size: int) -> Severity:
    if size > step.policy.regression_critical:
        return "critical"
    return "warning" if size > step.policy.regression_warning else "info"


RULE = QueueRule(
    "OFFSET_REGRESSION",
    judge,
    evidence,
    title="The offset of {subject} is wrong or went back",
    units={
        "owner": "text",
        "commit_offset": "offset",
        "fell_from": "offset",
        "fell_to": "offset",
        "messages": "messages",
        "worth_ms": "ms",
        "channel": "text",
        "moved_by": "text",
        "newest_fell_from": "offset",
        "newest_fell_to": "offset",
        "newest_fell_at": "epoch_ms",
        "broker_offset": "offset",
        "illegal_pulls": "count",
        "illegal_since": "epoch_ms",
    },
    sub_causes=(
        "REREAD",
        "STALE_OWNER",
        "OPERATOR_RESET",
        "RESET_TO_MIN",
        "POLLED",
        "FAILOVER",
        NEWEST_FELL,
        "ILLEGAL_OFFSET",
        "BEYOND_END",
    ),
    concerns=concerns.FALLEN | concerns.PULL_REFUSED,
    needs=("COMMITS",),
    clear_after=lambda policy: policy.persist_consumer_offset_interval,
    advice={
        "REREAD": Advice(
            short="the new owner reads some messages again",
            what="The new owner began at the former owner's commit, and the former owner then committed once more.",
            first_step="Nothing to do: at most one persist interval (5 s) of messages is consumed twice.",
        ),
        "STALE_OWNER": Advice(
            short="a former owner committed over it",
            what="A client that has lost the queue committed its old position over the owner's.",
            first_step=(
                "Look for a long pause of that client (garbage collection, a stopped VM); consumers must tolerate "
                "duplicates."
            ),
            inspect=("THREADS",),
        ),
        "OPERATOR_RESET": Advice(
            short="it was reset",
            what="The owner itself moved its offset back, as after a reset of the group's offset.",
            first_step=(
                "Find out who ran mqadmin resetOffsetByTime; if nobody did, look for offset corrections in the "
                "owner's log."
            ),
            inspect=("PROGRESS",),
        ),
        "RESET_TO_MIN": Advice(
            short="it is consumed from the beginning",
            what=(
                "The queue is consumed from its beginning again: a reset to the earliest, or an offset out of the "
                "log's range."
            ),
            first_step="Look at the owner's log for OFFSET_ILLEGAL; check the topic's retention against the lag.",
            inspect=("PROGRESS",),
        ),
        "POLLED": Advice(
            short="messages are consumed again",
            what="The broker's stored offset is below an earlier commit: the messages in between are consumed again.",
            first_step=(
                "Check whether somebody reset the offset, or a stale client commits; the broker's hook would show "
                "which client and when."
            ),
            inspect=("PROGRESS",),
        ),
        "FAILOVER": Advice(
            short="the broker came back with older offsets",
            what="The broker came back with older offsets than it had before.",
            first_step="Check how the broker went down, and whether a slave with older offsets took over.",
            inspect=("PROGRESS",),
        ),
        NEWEST_FELL: Advice(
            short="the topic was created again, or messages were lost",
            what="The queue's newest offset fell: its topic was created again, or the broker lost messages.",
            first_step="Find out who deleted the topic, or what the broker lost; check where its consumers read now.",
            inspect=("PROGRESS", "BROKERS"),
        ),
        "ILLEGAL_OFFSET": Advice(
            short="the reader asks for an offset that does not exist",
            what=(
                "The reader asks again and again for an offset that the queue does not have (PULL_OFFSET_MOVED, code "
                "21), and does not correct it: it receives nothing."
            ),
            first_step="Reset the group's offset of this topic (mqadmin resetOffsetByTime), and restart the reader.",
            inspect=("PROGRESS", "THREADS"),
        ),
        "BEYOND_END": Advice(
            short="it is beyond the newest message",
            what=(
                "The committed offset is beyond the queue's newest one, and is not corrected: messages may wait, how "
                "many is unknown."
            ),
            first_step="Reset the group's offset of this topic (mqadmin resetOffsetByTime), and restart its readers.",
            inspect=("PROGRESS", "THREADS"),
        ),
    },
)
