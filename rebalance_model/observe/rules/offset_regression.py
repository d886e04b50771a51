"""OFFSET_REGRESSION: a queue's commit has gone backwards; what lies between is consumed again.

The broker takes any offset, a lower one too. By its hook, in the order of the commits, with the cause (`commits`). By
its answers alone only what lasts (POLLED): two of them in a row show less than was committed before; who did it is not
known. Clear when a later commit passes the mark that was fallen from, and no other falls at once: a client that
thaws, and the queue's heir that gives it back, commit in turn within milliseconds.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.channels import client_of_channel
from rebalance_model.observe.group.offsets import committed
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.state import HookView, Regression
from rebalance_model.observe.step import GroupStep

LASTING = 2
"""So many answers in a row."""


def judge(step: GroupStep, mq: MessageQueue) -> Verdict:
    """By the lowest commit since the mark."""
    queue = step.state.queues[mq]
    fallen, polled = queue.hook_view.regression if queue.hook_view is not None else None, queue.fallen_back
    if fallen is not None and fallen.shown:
        hook = step.live_hook(step.state.views.get(mq.broker))
        if hook is None:
            return None
        return Holds(_severity(step, fallen.mark - fallen.to), fallen.cause, _committer(step, mq, hook, fallen))
    if polled is None or step.live_hook(step.state.views.get(mq.broker)) is not None:
        return CLEAR
    return Holds(_severity(step, polled.mark - polled.to), "POLLED") if polled.answers >= LASTING else None


def evidence(step: GroupStep, mq: MessageQueue) -> Evidence:
    """From where to where, and who has the queue."""
    queue = step.state.queues[mq]
    hook_view, polled = queue.hook_view, queue.fallen_back
    found: Evidence = {"owner": queue.owner, "commit_offset": committed(step, mq, queue)}
    if polled is not None:
        found |= {"fell_from": polled.mark, "fell_to": polled.to, "messages": polled.mark - polled.to}
    if hook_view is not None and (fallen := hook_view.regression) is not None:
        found |= {
            "fell_from": fallen.mark,
            "fell_to": fallen.to,
            "messages": fallen.mark - fallen.to,
            "worth_ms": fallen.consume_time_ms,
            "channel": fallen.channel,
        }
    return found


def _severity(step: GroupStep, size: int) -> Severity:
    if size > step.policy.regression_critical:
        return "critical"
    return "warning" if size > step.policy.regression_warning else "info"


def _committer(step: GroupStep, mq: MessageQueue, hook: HookView, fallen: Regression) -> str | None:
    """Whose the channel is, if it has said so by now."""
    return client_of_channel(step.state.views[mq.broker], hook, fallen.channel)


RULE = QueueRule(
    "OFFSET_REGRESSION",
    judge,
    evidence,
    units={
        "owner": "text",
        "commit_offset": "offset",
        "fell_from": "offset",
        "fell_to": "offset",
        "messages": "messages",
        "worth_ms": "ms",
        "channel": "text",
    },
    sub_causes=("REREAD", "STALE_OWNER", "OPERATOR_RESET", "RESET_TO_MIN", "POLLED", "FAILOVER"),
    needs=("COMMITS",),
    clear_after=lambda policy: policy.persist_consumer_offset_interval,
    advice={
        "REREAD": Advice(
            what="The queue's new owner began where the former one had committed before it was told to stop.",
            first_step="Nothing to do: at most one persist interval (5 s) is consumed twice.",
        ),
        "STALE_OWNER": Advice(
            what="A client that has lost the queue committed its old position over that of the owner.",
            first_step=(
                "Look for a long pause of that client (garbage collection, a stopped VM); consumers must tolerate "
                "repeats."
            ),
        ),
        "OPERATOR_RESET": Advice(
            what="The owner itself went back, as after a reset of the group's offset.",
            first_step=(
                "Ask who ran mqadmin resetOffsetByTime; if nobody did, look at the owner's log for a corrected offset."
            ),
        ),
        "RESET_TO_MIN": Advice(
            what=(
                "The queue is consumed from its beginning again: a reset to the earliest, or an offset out of the "
                "log's range."
            ),
            first_step="Look at the owner's log for OFFSET_ILLEGAL; check the topic's retention against the lag.",
        ),
        "POLLED": Advice(
            what="The broker's stored offset is below what was committed before: what lies between is consumed again.",
            first_step=(
                "See whether somebody reset the offset, or a stale client commits; the broker's hook would tell who "
                "and when."
            ),
        ),
        "FAILOVER": Advice(
            what="The broker came back with older offsets than it had before.",
            first_step="Check how the broker went down, and whether a slave with older offsets took over.",
        ),
    },
)
