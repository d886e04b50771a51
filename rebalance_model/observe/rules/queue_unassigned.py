"""QUEUE_UNASSIGNED: a queue that members should consume is nobody's, for longer than a hand-over takes.

How long that is depends on how it began: an heir of a queue that was seen to be given up needs two turns of its 20 s
timer; a new queue is first seen by the clients at their next look at the route; in any other case the broker may have
to find out that the owner is gone. Where the strategy itself leaves the queue without owner it takes as long, whatever
was seen. Only what every member has said since that time counts; of a group with a silent member it is not known. A
queue that a client has without its lock, as one does that is cut off from its broker, is not nobody's.

GHOST_CONNECTION: a client stands twice in the list, and the strategy gives the share of its second place to no client
(`ghost_connections`). That the queue has no owner need not be waited for then: it opens when lag has grown after every
client has looked at the list again (20 s). The broker may ask that client over its dead channel: its silence counts for
nothing here. Critical when lag goes on growing for `stuck_after`.
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group import ghost_connections
from rebalance_model.observe.group.expectation import is_divided, is_subscribed
from rebalance_model.observe.group.offsets import lag_of
from rebalance_model.observe.group.ownership import holders
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules.ghost_connection import GHOST_ADVICE, GHOST_CONNECTION, GHOST_UNITS, ghost_evidence
from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.state import GroupState, QueueState, Unowned
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, mq: MessageQueue) -> Verdict:
    """By how long everybody has answered without the queue, or by lag that grows where a ghost has its share."""
    state = step.state
    queue = state.queues[mq]
    if queue.owner is not None or not queue.in_route or mq.is_retry or holders(state, mq):
        return CLEAR
    if not state.members or not is_divided(state) or not is_subscribed(state, mq.topic):
        return CLEAR
    if queue.unowned is None:
        return None
    ghosts = ghost_connections.leaves_unassigned(step, mq)
    since, grows = _since(state, queue), _grows(queue, queue.unowned)
    if ghosts and grows and step.now - since > step.policy.rebalance_wait_interval:
        severity: Severity = "critical" if step.now - since > step.policy.stuck_after else "warning"
        return Holds(severity, GHOST_CONNECTION, ghosts[0].client_id)
    if state.rounds.known_at <= since + _grace(step.policy, queue):
        return None  # asked again when all have answered (`rounds`)
    severity = "critical" if grows else "warning"
    return Holds(severity, GHOST_CONNECTION, ghosts[0].client_id) if ghosts else Holds(severity)


def evidence(step: GroupStep, mq: MessageQueue) -> Evidence:
    """Since when, what it may take, and who should have it; the connections that leave it without owner."""
    queue, ghosts = step.state.queues[mq], ghost_evidence(step, mq)
    found: Evidence = {
        "owner": queue.owner,
        "expected_owner": queue.expected,
        "former_owner": queue.former_owner,
        "unowned_ms": step.now - _since(step.state, queue) if queue.owner is None else 0,
        "limit_ms": _grace(step.policy, queue) if not ghosts else step.policy.rebalance_wait_interval,
        "lag": lag_of(queue),
        "lag_then": queue.unowned.lag if queue.unowned is not None else None,
    }
    return found | ghosts


def _grows(queue: QueueState, unowned: Unowned) -> bool:
    lag = lag_of(queue)
    return lag is not None and unowned.lag is not None and lag > unowned.lag


def _since(state: GroupState, queue: QueueState) -> int:
    return max(queue.unowned.since if queue.unowned is not None else 0, state.members_since)


def _grace(policy: Policy, queue: QueueState) -> int:
    how = queue.unowned.how if queue.unowned is not None else ""
    if how == "NEW":
        return policy.unassigned_after_new
    if how == "SAID" and queue.expected is not None:
        return policy.unassigned_after_release
    return policy.unassigned_after


RULE = QueueRule(
    "QUEUE_UNASSIGNED",
    judge,
    evidence,
    units={
        "owner": "text",
        "expected_owner": "text",
        "former_owner": "text",
        "unowned_ms": "ms",
        "limit_ms": "ms",
        "lag": "messages",
        "lag_then": "messages",
        **GHOST_UNITS,
    },
    sub_causes=("", GHOST_CONNECTION),
    needs=("POLLS", "OWNERS"),
    absorbed_by=("LOCK_ORPHANED", "BROKER_UNREACHABLE", "TELEMETRY_GAP", "REBALANCE_STORM"),
    advice={
        "": Advice(
            what="Every member has answered, and none has this queue: no consumer will process its messages.",
            first_step=(
                "Compare the members' subscriptions, client ids and strategy with the expected owner, and restart "
                "that one."
            ),
        ),
        GHOST_CONNECTION: GHOST_ADVICE,
    },
)
