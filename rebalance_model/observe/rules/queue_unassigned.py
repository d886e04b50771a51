"""QUEUE_UNASSIGNED: no member has a queue that the group should consume, for longer than a hand-over takes.

The limit depends on how the queue became unassigned. After an observed release (an unlock, an orderly leave, an answer
of its owner without the queue), the next owner needs two intervals of its 20 s timer. A new queue is first seen at the
clients' next route query. In any other case, and where the strategy itself assigns the queue to no client, the broker
may first have to detect that the owner is gone. A client in Go does not unlock what it gives up
(apache/rocketmq-client-go#1220): the next one is refused until the lock expires. Only answers of every member after
that time count; while a member does not answer, the verdict is unknown. A queue that a client has without its lock, as
a client does that is cut off from its broker, is not unassigned.

GHOST_CONNECTION: a client appears twice in the list, and the strategy gives the share of its second entry to no client
(`ghost_connections`). It is then certain that the queue gets no owner: the incident opens if lag has grown after every
client has requested the list again (20 s). The broker may forward requests for that client on its dead channel, so the
client's missing answers do not count. Critical if lag keeps growing for `stuck_after`.
"""

from rebalance_model.observe.facts.group_facts import is_subscribed
from rebalance_model.observe.facts.queue_facts import QueueFacts
from rebalance_model.observe.group import ghost_connections
from rebalance_model.observe.group.ownership import holders
from rebalance_model.observe.rules import concerns, route_view_split, stall
from rebalance_model.observe.rules.ghost_connection import GHOST_ADVICE, GHOST_CONNECTION, GHOST_UNITS, ghost_evidence
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, Holds, QueueRule, Severity, Verdict
from rebalance_model.observe.state import GroupState, QueueState, Unassigned
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, q: QueueFacts) -> Verdict:
    """Check for how long all members have answered without the queue, or whether lag grows on a ghost's share."""
    state = step.state
    queue = q.queue
    if queue.owner is not None or not queue.in_route or q.mq.is_retry or holders(step, q.mq, queue):
        return CLEAR
    if not state.members or not step.facts.is_divided or not is_subscribed(state, q.mq.topic):
        return CLEAR
    route = state.routes.get(q.mq.topic)
    if queue.unassigned is None or (route is not None and route.missing_since):
        return None  # a topic that is missing may have been deleted
    ghosts = ghost_connections.leaves_unassigned(step, q.queue)
    since, grows = _since(state, queue), _grows(queue, queue.unassigned)
    if ghosts and grows and step.now - since > step.policy.rebalance_wait_interval:
        severity: Severity = "critical" if step.now - since > step.policy.stuck_after else "warning"
        return Holds(severity, GHOST_CONNECTION, ghosts[0].client_id)
    is_early = state.rounds.known_at <= since + _grace(step, queue)
    if is_early or (not ghosts and route_view_split.may_explain(step, q.mq)):
        return None  # judged again when all have answered (`rounds`)
    severity = "critical" if grows else "warning"
    by_shares = Holds(severity, explained_by=stall.causes_of_unassigned(step, q))
    return Holds(severity, GHOST_CONNECTION, ghosts[0].client_id) if ghosts else by_shares


def evidence(step: GroupStep, q: QueueFacts) -> Evidence:
    """Return since when, the limit (ms), the expected owner, and the connections that leave the queue without owner."""
    queue, ghosts = q.queue, ghost_evidence(step, q)
    fields: Evidence = {
        "owner": queue.owner,
        "expected_owner": queue.expected_owner,
        "former_owner": queue.former_owner,
        "unowned_ms": step.now - _since(step.state, queue) if queue.owner is None else 0,
        "limit_ms": _grace(step, queue) if not ghosts else step.policy.rebalance_wait_interval,
        "lag": queue.lag,
        "lag_then": queue.unassigned.lag if queue.unassigned is not None else None,
    }
    return fields | ghosts


def _grows(queue: QueueState, unassigned: Unassigned) -> bool:
    lag = queue.lag
    return lag is not None and unassigned.lag is not None and lag > unassigned.lag


def _since(state: GroupState, queue: QueueState) -> int:
    return max(queue.unassigned.since if queue.unassigned is not None else 0, queue.returned_at, state.members_since)


def _grace(step: GroupStep, queue: QueueState) -> int:
    policy, is_for_nobody = step.policy, bool(step.state.strategy) and queue.expected_owner is None
    how = queue.unassigned.how if queue.unassigned is not None else ""
    if how == "NEW":
        return policy.unassigned_after_new
    if how == "RELEASED" and not is_for_nobody:
        return policy.unassigned_after_release
    return policy.unassigned_after


RULE = QueueRule(
    "QUEUE_UNASSIGNED",
    judge,
    evidence,
    title="Nobody consumes {subject}",
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
    concerns=concerns.UNASSIGNED,
    needs=("POLLS", "OWNERS"),
    absorbed_by=(
        "LOCK_ORPHANED",
        *OF_BROKER,
        "TELEMETRY_GAP",
        "REBALANCE_STORM",
        "MIXED_MEMBERS",
        "CLIENT_ID_COLLISION",
    ),
    advice={
        "": Advice(
            what="Every member has answered, and none has this queue: no consumer will process its messages.",
            first_step=(
                "Compare the members' subscriptions, client ids and strategy with the expected owner, and restart "
                "that one."
            ),
            inspect=("COMPARE", "MEMBERS"),
        ),
        GHOST_CONNECTION: GHOST_ADVICE,
    },
)
