"""OFFSET_REGRESSION: a queue's commit has gone backwards; what lies between is consumed again.

The broker takes any offset, a lower one too. By its hook, in the order of the commits, with the cause (`commits`). By
its answers alone only what lasts (POLLED): two of them in a row show less than was committed before; who did it is not
known. Clear when a later commit passes the mark that was fallen from, and no other falls at once: a client that
thaws, and the queue's heir that gives it back, commit in turn within milliseconds.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.hooks.broker_view import speaker
from rebalance_model.observe.polls.offsets import committed
from rebalance_model.observe.state import HookView, Regression
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Severity, Verdict

LASTING = 2
"""So many answers in a row."""


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By the lowest commit since the mark."""
    queue = turn.state.queues[mq]
    fallen, polled = queue.hook.regression if queue.hook is not None else None, queue.fallen_back
    if fallen is not None and fallen.shown:
        hook = turn.live_hook(turn.state.views.get(mq.broker))
        if hook is None:
            return None
        return Holds(_severity(turn, fallen.mark - fallen.to), fallen.cause, _committer(turn, mq, hook, fallen))
    if polled is None or turn.live_hook(turn.state.views.get(mq.broker)) is not None:
        return CLEAR
    return Holds(_severity(turn, polled.mark - polled.to), "POLLED") if polled.answers >= LASTING else None


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """From where to where, and who has the queue."""
    queue = turn.state.queues[mq]
    told, polled = queue.hook, queue.fallen_back
    found: Evidence = {"owner": queue.owner, "commit_offset": committed(turn, mq, queue)}
    if polled is not None:
        found |= {"fell_from": polled.mark, "fell_to": polled.to, "messages": polled.mark - polled.to}
    if told is not None and (fallen := told.regression) is not None:
        found |= {
            "fell_from": fallen.mark,
            "fell_to": fallen.to,
            "messages": fallen.mark - fallen.to,
            "worth_ms": fallen.worth_ms,
            "channel": fallen.channel,
        }
    return found


def _severity(turn: Turn, size: int) -> Severity:
    if size > turn.policy.regression_critical:
        return "critical"
    return "warning" if size > turn.policy.regression_warning else "info"


def _committer(turn: Turn, mq: MessageQueue, hook: HookView, fallen: Regression) -> str | None:
    """Whose the channel is, if it has said so by now."""
    return speaker(turn.state.views[mq.broker], hook, fallen.channel)


RULE = Rule("OFFSET_REGRESSION", judge, evidence, clear_after=lambda policy: policy.persist_consumer_offset_interval)
