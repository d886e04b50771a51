"""LAG_GROWTH: a queue's lag has grown over a full window without a decrease (Burrow's method, without a fixed limit).

Judged at each answer of the broker; clear as soon as lag falls. The sub-cause names the reason: UNASSIGNED,
REBALANCE_PAUSE (the queue is being handed over), CONSUMED_SLOWER or PRODUCED_FASTER, whichever rate deviates more from
the queue's usual rate.
"""

from typing import Literal, get_args

from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import retaken
from rebalance_model.observe.polls import offsets
from rebalance_model.observe.rules import concerns, filtered
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, QueueRule, Verdict
from rebalance_model.observe.state import QueueState
from rebalance_model.observe.step import GroupStep

SubCause = Literal["PRODUCED_FASTER", "CONSUMED_SLOWER", "UNASSIGNED", "REBALANCE_PAUSE", "UNDETERMINED"]


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check the window that ends with this answer."""
    queue = q.queue
    trend = queue.lag_trend
    if step.facts.broadcasts:
        return CLEAR  # each client keeps its offsets itself: those of the broker are stale
    if trend is None or queue.stats_at != step.now or q.mq.is_retry or queue.lag is None:
        return None
    if trend.rising_since == step.now:
        return CLEAR
    if offsets.is_growing(queue, step.policy) and filtered.is_filtered(step, q):
        return CLEAR  # nothing waits
    if not offsets.is_growing(queue, step.policy) or _is_read_between_commits(step, q):
        return None
    return Holds("warning", _sub_cause(step, q, queue), queue.owner)


def _is_read_between_commits(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether its client commits at checkpoints, and has not since the lag began to grow."""
    limit = step.policy.stuck_after + step.policy.stalled_open_after
    if not q.queue.stalled_ms or not filtered.is_read_actively(step, q):
        return False
    return filtered.reads_on(step, q, limit) is not False


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return the lag, its growth and the time it took, and the recent rates beside the usual ones."""
    queue = q.queue
    produced, consumed = offsets.of_late(queue)
    trend = queue.lag_trend
    return {
        "owner": queue.owner,
        "lag": queue.lag,
        "grown_from": trend.rising_broker - trend.rising_commit if trend is not None else None,
        "rising_ms": queue.stats_at - trend.rising_since if trend is not None else None,
        "window_ms": step.policy.lag_growth_window,
        "produced_per_hour": produced,
        "consumed_per_hour": consumed,
        "usually_produced_per_hour": trend.produced if trend is not None else None,
        "usually_consumed_per_hour": trend.consumed if trend is not None else None,
    }


def _sub_cause(step: GroupStep, q: QueueFacts, queue: QueueState) -> SubCause:
    episode, trend = step.state.episode, queue.lag_trend
    if episode is not None and q.mq in episode.moves and not retaken.is_again(step, q):
        return "REBALANCE_PAUSE"
    produced, consumed = offsets.of_late(queue)
    divided = step.facts.is_divided and not q.is_owner_hidden and q.mq.topic not in step.facts.popped
    if queue.owner is None and (divided or not (step.state.members or consumed)):
        return "UNASSIGNED"
    if consumed == 0:
        return "CONSUMED_SLOWER"
    if trend is None or trend.produced is None or trend.consumed is None:
        return "UNDETERMINED"
    return "CONSUMED_SLOWER" if trend.consumed - consumed > produced - trend.produced else "PRODUCED_FASTER"


RULE = QueueRule(
    "LAG_GROWTH",
    judge,
    evidence,
    title="The lag of {subject} keeps growing",
    units={
        "owner": "text",
        "lag": "messages",
        "grown_from": "messages",
        "rising_ms": "ms",
        "window_ms": "ms",
        "produced_per_hour": "per_hour",
        "consumed_per_hour": "per_hour",
        "usually_produced_per_hour": "per_hour",
        "usually_consumed_per_hour": "per_hour",
    },
    sub_causes=get_args(SubCause),
    concerns=concerns.RISING,
    of_popped=True,
    needs=("OFFSETS", "OFFSETS_OF_BROKER"),
    absorbed_by=(
        "PULL_REFUSED",
        "PULL_EXPIRED",
        "NO_ACTIVE_CLIENTS_WITH_LAG",
        "ORDERED_QUEUE_STUCK",
        "QUEUE_STALLED",
        "QUEUE_UNASSIGNED",
        "REBALANCE_STORM",
        "MIXED_MEMBERS",
        *OF_BROKER,
        "PROXY_UNREACHABLE",
        "TELEMETRY_GAP",
    ),
    is_lasting=True,
    advice={
        "PRODUCED_FASTER": Advice(
            short="more is produced than usual",
            what=(
                "Lag has grown throughout the window: more is produced than usual, and consumption does not keep up."
            ),
            first_step="Check whether the load is intended; add consumers up to the number of queues, or threads.",
            inspect=("PROGRESS",),
        ),
        "CONSUMED_SLOWER": Advice(
            short="less is consumed than usual",
            what="Lag has grown throughout the window: less is consumed than usual.",
            first_step="Check the owner: a slow listener, a slow database behind it, flow control.",
            inspect=("THREADS", "PROGRESS"),
        ),
        "UNASSIGNED": Advice(
            short="it has no owner",
            what="Lag has grown throughout the window: the queue has no owner.",
            first_step="Check the group's assignment: which member is the queue's expected owner, and why it does not "
            "have it.",
            inspect=("COMPARE",),
        ),
        "REBALANCE_PAUSE": Advice(
            short="it changed owners meanwhile",
            what="Lag has grown throughout the window, during which the queue changed owners.",
            first_step="Check what delays the rebalance: locks that are held, members that join and leave.",
            inspect=("MEMBERS",),
        ),
        "UNDETERMINED": Advice(
            short="its usual rate is not known yet",
            what="Lag has grown throughout the window; the queue's usual rate is not known yet.",
            first_step="Compare the rate of production with the owner's rate of consumption.",
            inspect=("PROGRESS",),
        ),
    },
)
