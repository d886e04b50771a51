"""NO_ACTIVE_CLIENTS_WITH_LAG: a group that had members has none, and messages wait for it.

Clients behind a separate proxy (CLUSTER mode) are in no broker's list: a group whose commits advance nevertheless is
consumed. NOT_BACK: by hooks alone, which do not show what waits: a broker has restarted, and no member has come back
to it. NOT_POPPED: its messages wait, and no commit has advanced for `stuck_after`. Where proxies are asked, they
list these clients: the last one has left when all proxies answer, none lists any, and no commit advances. For a
broadcasting group the broker's offsets are stale and do not count. Nor do queues that have ended, such as those of a
topic that the last members did not subscribe (`ended_queues`).
"""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.group import proxied
from rebalance_model.observe.group.membership import HEARD_FROM_ALL
from rebalance_model.observe.rules import stale_heartbeat
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import GroupState, IncidentKey
from rebalance_model.observe.step import GroupStep

CODE = "NO_ACTIVE_CLIENTS_WITH_LAG"
MARGIN = 10_000
"""Delay after which missing members of a restarted broker count as not back; milliseconds."""


def judge(step: GroupStep, _: str) -> Verdict:
    """Check how long ago the last member left."""
    state = step.state
    if state.members and stale_heartbeat.comes_back(step, IncidentKey(CODE)):
        return None
    if state.members or step.facts.broadcasts:
        return CLEAR
    if "OFFSETS" in step.facts.missing:
        return _not_back(step)
    if step.facts.is_consumed_unlisted or state.proxied_left_at or proxied.is_listed(state):
        return _of_unlisted(step)
    return _of_group(step) if state.no_members_since else CLEAR


def _not_back(step: GroupStep) -> Verdict:
    """Check whether the last members were lost by a broker's restart, and none has come back since."""
    state = step.state
    restarted_at = _restarted_at(step)
    if restarted_at is None:
        own = state.incidents.get(IncidentKey(CODE))
        return CLEAR if state.no_members_since == 0 or (own is not None and own.sub_cause == "NOT_BACK") else None
    if step.now - restarted_at > step.policy.group_memory:
        return CLEAR
    return Holds("critical", "NOT_BACK", duration_ms=step.now - restarted_at, stamp=restarted_at)


def _restarted_at(step: GroupStep) -> int | None:
    """Return when a broker restarted whose hook saw no member come back; None: the last members left otherwise."""
    left_at = step.state.no_members_since
    for broker, hook in step.facts.hooks.items():
        back_at = step.state.views[broker].back_at
        was_lost = back_at <= left_at <= back_at + HEARD_FROM_ALL + MARGIN
        if back_at and was_lost and not hook.recent_unregisters:
            return back_at
    return None


def _of_group(step: GroupStep) -> Verdict:
    """Check a group whose last member has left."""
    state = step.state
    alone = step.now - state.no_members_since
    if alone > step.policy.group_memory:
        return CLEAR
    waiting = _waiting(step)
    if waiting is None or step.facts.info is None:
        return None
    step.schedule_check(state.no_members_since + step.policy.group_memory + 1)
    if not waiting:
        return CLEAR
    refused = any(hook.refused_heartbeats for hook in step.facts.hooks.values())
    causes = tuple(key for broker in state.views for key in stale_heartbeat.explains(step, broker, None))
    return Holds("critical", "HEARTBEATS_REFUSED" if refused else "", duration_ms=alone, explained_by=causes)


def _of_unlisted(step: GroupStep) -> Verdict:
    """Check a group whose clients no broker lists: for how long messages have waited while no commit advanced.

    A blocked FIFO queue looks the same (ORDERED_QUEUE_STUCK reports that), so nothing is known of a group with one,
    unless its clients are known: by hooks at every broker, or by the lists of the proxies.
    """
    state = step.state
    waiting = _waiting(step)
    if not waiting:
        return CLEAR if waiting == 0 else None
    if (left := _left_at(step)) is not None:
        return _held_since(step, left)
    if any(view.is_fifo for view in state.views.values()):
        return CLEAR if proxied.clients(state) else None
    waited = max((state.queues[mq].stalled_ms for mq in _consumed(state)), default=0)
    stopped = min(waited, step.now - state.advanced_at)
    if not stopped:
        return CLEAR
    return Holds("critical", "NOT_POPPED", duration_ms=stopped) if stopped > step.policy.stuck_after else None


def _left_at(step: GroupStep) -> int | None:
    """Return when the last client of a proxy left, or a commit last advanced after that; None: not known to have."""
    state, called_left_at = step.state, step.facts.pops.proxied_left_at
    if called_left_at and step.cluster.has_all_hooks and not proxied.is_listed(state):
        return max(called_left_at, state.no_members_since)
    if (left := proxied.left_at(state)) and not proxied.clients(state):
        return max(left, state.no_members_since, state.advanced_at)
    return None


def _held_since(step: GroupStep, since: int) -> Verdict:
    if step.now - since > step.policy.group_memory:
        return CLEAR
    step.schedule_check(since + step.policy.group_memory + 1)
    return Holds("critical", "", duration_ms=step.now - since)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return how many messages wait, and for how long there has been no member.

    Of clients that no broker lists: since when no commit has advanced, and a topic, without which `mqadmin
    consumerProgress` fails for a group that has no retry topic.
    """
    state = step.state
    since = _left_at(step) or state.no_members_since
    if "OFFSETS" in step.facts.missing and (at := _restarted_at(step)) is not None:
        without_ms = {"without_members_ms": step.now - at, "limit_ms": step.policy.no_clients_after}
        return {"lag": None, "members": len(state.members), "restarted_at": at, **without_ms}
    fields: Evidence = {
        "lag": _waiting(step),
        "members": len(state.members),
        "without_members_ms": step.now - since if since else 0,
        "limit_ms": step.policy.no_clients_after,
    }
    if state.proxies:
        fields |= {"proxied_clients": len(proxied.clients(state))}
    if not step.facts.is_consumed_unlisted and not proxied.is_listed(state):
        return fields
    most = max(_consumed(state), key=lambda mq: state.queues[mq].lag or 0, default=None)
    return fields | {"without_advance_ms": step.now - state.advanced_at, "topic": most.topic if most else None}


def _consumed(state: GroupState) -> list[MessageQueue]:
    """Return the queues that the group should consume."""
    return [mq for mq, queue in state.queues.items() if queue.ended is None and not mq.is_retry]


def _waiting(step: GroupStep) -> int | None:
    """Return the minimum of messages that wait in queues that have not ended; None if it is unknown whether any do."""
    queues = [queue for mq, queue in step.state.queues.items() if not mq.is_retry]
    lags = [queue.lag for queue in queues if queue.ended is None]
    waiting = sum(lag or 0 for lag in lags)
    return None if not waiting and (not queues or None in lags) else waiting


RULE = GroupRule(
    CODE,
    judge,
    evidence,
    follows=("MEMBERS", "OFFSETS", "PROXIES", "ENDED", "DECLARED"),
    title="Nobody consumes for {group}, and messages wait",
    units={
        "lag": "messages",
        "members": "count",
        "proxied_clients": "count",
        "without_members_ms": "ms",
        "without_advance_ms": "ms",
        "topic": "text",
        "restarted_at": "epoch_ms",
        "limit_ms": "ms",
    },
    sub_causes=("", "HEARTBEATS_REFUSED", "NOT_BACK", "NOT_POPPED"),
    needs=("OFFSETS", "OFFSETS_OF_BROKER"),
    open_after=lambda policy: policy.no_clients_after,
    absorbed_by=(*OF_BROKER, "PROXY_UNREACHABLE", "TELEMETRY_GAP"),
    advice={
        "NOT_BACK": Advice(
            short="none has come back since the broker's restart",
            what=(
                "The group had members before a broker restarted, and none has come back since: nobody consumes. How "
                "many messages wait is unknown without a collector."
            ),
            first_step=(
                "Check that the clients run, and that they reach the broker by the address that it registers now "
                "(mqadmin topicRoute); restart them if they do not come back."
            ),
            inspect=("MEMBERS", "BROKERS"),
        ),
        "NOT_POPPED": Advice(
            short="no client runs, or all are full",
            what=(
                "Messages wait for the group, whose clients are behind a proxy, and no commit has advanced for long: "
                "no client runs, or all of them are full."
            ),
            first_step="Check that the group's clients run, and that they reach the proxy; look at their logs.",
            inspect=("PROGRESS",),
        ),
        "HEARTBEATS_REFUSED": Advice(
            short="the broker refuses the heartbeats",
            what="Messages wait for the group, whose clients run, and whose broker does not take their heartbeats.",
            first_step="Look at STALE_HEARTBEAT of its clients: it has the response code, and what to change.",
            inspect=("MEMBERS", "PROGRESS"),
        ),
        "": Advice(
            what="Messages wait for the group, which had members until recently and has none now.",
            first_step="Start its consumers; check why the last of them left.",
            inspect=("MEMBERS", "PROGRESS"),
        ),
    },
)
