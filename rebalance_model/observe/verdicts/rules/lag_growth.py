"""LAG_GROWTH: a queue's lag has grown over a full window and never fell in it (Burrow's judgement, no fixed number).

Judged at each answer of the broker; clear as soon as it falls. The sub-cause says why: NOBODY_OWNS, REBALANCE_PAUSE
(the queue changes hands just now), CONSUMED_SLOWER or PRODUCED_FASTER, whichever is further off the queue's usual pace.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group.expectation import broadcasts, is_divided
from rebalance_model.observe.polls import lag_pace
from rebalance_model.observe.polls.offsets import lag_of
from rebalance_model.observe.state import QueueState
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, mq: MessageQueue) -> Verdict:
    """By the window that ends with this answer."""
    queue = turn.state.queues[mq]
    pace = queue.pace
    if broadcasts(turn.state):
        return CLEAR  # each client keeps its offsets itself: those of the broker are leftovers
    if pace is None or queue.stats_at != turn.now or mq.is_retry or not queue.commit_known:
        return None
    if pace.rising_since == turn.now:
        return CLEAR
    if not lag_pace.is_growing(queue, turn.policy):
        return None
    return Holds("warning", _sub_cause(turn, mq, queue), queue.owner)


def evidence(turn: Turn, mq: MessageQueue) -> Evidence:
    """Lag, by how much it has grown in what time, and the pace of late beside the usual one."""
    queue = turn.state.queues[mq]
    produced, consumed = lag_pace.of_late(queue)
    pace = queue.pace
    return {
        "owner": queue.owner,
        "lag": lag_of(queue),
        "grown_from": pace.rising_broker - pace.rising_commit if pace is not None else None,
        "rising_ms": queue.stats_at - pace.rising_since if pace is not None else None,
        "window_ms": turn.policy.lag_growth_window,
        "produced_per_hour": produced,
        "consumed_per_hour": consumed,
        "usually_produced_per_hour": pace.produced if pace is not None else None,
        "usually_consumed_per_hour": pace.consumed if pace is not None else None,
    }


def _sub_cause(turn: Turn, mq: MessageQueue, queue: QueueState) -> str:
    episode, pace = turn.state.episode, queue.pace
    if episode is not None and mq in episode.moves:
        return "REBALANCE_PAUSE"
    produced, consumed = lag_pace.of_late(queue)
    if queue.owner is None and (is_divided(turn.state) or not (turn.state.members or consumed)):
        return "NOBODY_OWNS"
    if consumed == 0:
        return "CONSUMED_SLOWER"
    if pace is None or pace.produced is None or pace.consumed is None:
        return "UNDETERMINED"
    return "CONSUMED_SLOWER" if pace.consumed - consumed > produced - pace.produced else "PRODUCED_FASTER"


RULE = Rule(
    "LAG_GROWTH",
    judge,
    evidence,
    absorbed_by=(
        "NO_ACTIVE_CLIENTS_WITH_LAG",
        "ORDERED_QUEUE_STUCK",
        "QUEUE_STALLED",
        "QUEUE_UNASSIGNED",
        "REBALANCE_STORM",
        "BROKER_UNREACHABLE",
        "TELEMETRY_GAP",
    ),
)
