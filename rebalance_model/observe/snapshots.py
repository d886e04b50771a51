"""Write rows of state: a group's and a queue's, when they change materially and every snapshot interval.

Their health follows from the open incidents, and their coverage lists the suspended rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from rebalance_model.broker.consumer_group_info import ConsumerGroupInfo
from rebalance_model.entities import MessageQueue, queue_order
from rebalance_model.observe.effects import GroupSnapshot, Health, QueueSnapshot
from rebalance_model.observe.facts.queue_facts import OwnersQueue, QueueFacts, is_locked, of_queues
from rebalance_model.observe.group import proxied
from rebalance_model.observe.group.deleted_group import GROUP_DELETED, is_deleted
from rebalance_model.observe.group.ended_queues import WHY
from rebalance_model.observe.group.owners_queue import owners_queue
from rebalance_model.observe.rules import revive_behind
from rebalance_model.observe.rules.coverage import coverage, is_popped_or_proxied
from rebalance_model.observe.state import GroupState, IncidentState, LastGroupRow, LastQueueRow
from rebalance_model.observe.step import GroupStep

_DAY = 86_400_000
_ERA = 146_097
"""Days in 400 years."""


def utc(time_ms: int) -> str:
    """Return an instant as ``2026-11-22 15:59:25``, UTC.

    Args:
        time_ms: epoch milliseconds.
    """
    days, rest = divmod(time_ms, _DAY)
    era, day = divmod(days + 719_468, _ERA)  # since 0000-03-01: the leap day is the last of such a year
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day_of_month = day - (153 * month + 2) // 5 + 1
    month, year = (month + 3, 400 * era + year) if month < 10 else (month - 9, 400 * era + year + 1)
    minutes, seconds = divmod(rest // 1_000, 60)
    return f"{year:04}-{month:02}-{day_of_month:02} {minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


PROXIED_MAX = 256
"""At most this many clients of proxies are named."""
_WITHOUT_OWNER: dict[str, tuple[Health, str]] = {
    "BROADCAST": ("OK", "every client reads it"),
    "ACTIVE": ("UNKNOWN", "its clients pull by themselves and do not report which queues"),
    "PROXIED": ("UNKNOWN", "its clients are behind a proxy"),
}
"""Health and reason of a queue without owner, by how the members share the queues; see `GroupFacts.division`."""
_OfQueues: TypeAlias = dict[MessageQueue, list[IncidentState]]
"""The open incidents of each queue that has any."""
_RANK = {"critical": 0, "warning": 1, "info": 2}
_HEALTH: dict[str, Health] = {"critical": "BAD", "warning": "WARN", "info": "OK"}


def snapshot_changes(step: GroupStep, judged: Mapping[MessageQueue, QueueFacts]) -> None:
    """Write rows for what changed materially in this step; queues that were ``judged`` are in hand."""
    if step.touched:
        incidents = _by_queue(step.state) if step.state.incidents else {}
        may_be_calm = not (step.facts.missing or step.cluster.incidents)
        for mq in step.touched:
            if not (may_be_calm and mq not in incidents and _is_as_before(step.state, mq)):
                q = judged.get(mq) or QueueFacts.of(step.facts, mq)
                _snapshot_queue(step, q, incidents, always=False)
    if step.group_touched:
        _snapshot_group(step, always=False)


def _is_as_before(state: GroupState, mq: MessageQueue) -> bool:
    """Return whether a queue without an incident, of a group that is polled, certainly has the row that it had."""
    queue = state.queues[mq]
    owner = state.clients.get(queue.owner) if queue.owner is not None else None
    if owner is None or owner.unanswered or not (owner.readable and owner.answered) or queue.ended is not None:
        return False
    locked = is_locked(mq, queue, owner, state.views.get(mq.broker))
    return queue.last_row == LastQueueRow(queue.owner, queue.expected_owner, locked, "OK", "")


def snapshot_all(step: GroupStep) -> None:
    """Write rows for the whole state, at the snapshot interval."""
    incidents = _by_queue(step.state)
    for q in of_queues(step.facts, sorted(step.state.queues, key=queue_order)).values():
        _snapshot_queue(step, q, incidents, always=True)
    _snapshot_group(step, always=True)


def _by_queue(state: GroupState) -> _OfQueues:
    incidents: _OfQueues = {}
    for incident in state.incidents.values():
        if incident.queue is not None:
            incidents.setdefault(incident.queue, []).append(incident)
    return incidents


def _worst(step: GroupStep, incidents: Iterable[IncidentState]) -> tuple[Health, str] | None:
    """Return the worst incident as health and reason; a parent that holds counts instead of those it absorbs."""
    own = {incident.incident_id: incident for incident in incidents}
    if not own:
        return None
    if any(incident.absorbed for incident in own.values()):
        known = (*step.state.incidents.values(), *step.cluster.incidents.values())
        every = {incident.incident_id: incident for incident in known if incident.cleared_at is None}
        tops = (every.get(i.parent or "", i) if i.absorbed else i for i in own.values())
        own = {top.incident_id: top for top in tops}
    worst = min(own.values(), key=lambda i: (_RANK[i.severity], i.opened_at, i.code, i.subject), default=None)
    return (_HEALTH[worst.severity], f"{worst.code} {worst.sub_cause}".rstrip()) if worst is not None else None


def _of_cluster(step: GroupStep) -> Iterator[IncidentState]:
    """Yield the open incidents of the group's brokers and its collector, without those that wait to be resolved."""
    if step.state.proxies:
        yield from (away for away in step.proxies_away() if away.cleared_at is None)
    if not step.cluster.incidents:
        return
    subjects = {*step.state.views, step.state.collector.partition("/")[2]}
    for incident in step.cluster.incidents.values():
        is_mine = incident.cleared_at is None and incident.subject in subjects
        if is_mine and (incident.code != revive_behind.CODE or is_popped_or_proxied(step)):  # others get nothing back
            yield incident


def _group_health(step: GroupStep) -> tuple[Health, str]:
    state = step.state
    worst = _worst(step, (*state.incidents.values(), *_of_cluster(step)))
    if worst is not None and worst[0] != "OK":
        return worst
    found = _unknown_health(step)
    return worst if worst is not None and found[0] == "OK" else found  # an info does not make the unknown known


def _unknown_health(step: GroupStep) -> tuple[Health, str]:
    """Return health and reason of a group without an incident to warn of."""
    state = step.state
    if "OFFSETS" in step.facts.missing and not state.members and step.facts.pops.modes:
        return "UNKNOWN", "its clients are behind a proxy, and only their calls are seen"
    if not step.facts.is_reported:
        return "UNKNOWN", "no source reports it"
    if is_deleted(state, step.now):
        return "UNKNOWN", GROUP_DELETED
    if step.facts.info is None:
        return "UNKNOWN", "no broker answers"
    by_calls = _health_by_calls(step) if not step.facts.shows_owners else None
    return by_calls or (_health_of_members(step) if state.members else _health_without_members(step))


def _health_by_calls(step: GroupStep) -> tuple[Health, str] | None:
    """Return what calls alone do not show of a group; None: nothing."""
    state = step.state
    if not state.members and state.no_members_since:
        return "UNKNOWN", f"no client is listed since {utc(state.no_members_since)} UTC, and no offsets are seen"
    if not state.members:
        return None
    if (unused := _unused_broker(step)) is not None:
        return "UNKNOWN", f"no pull or commit is seen at {unused}"
    unseen = _unseen_broker(step) if step.facts.routes is None else None
    return ("UNKNOWN", f"no client is seen at {unseen}, which may have queues of its topics") if unseen else None


def _unseen_broker(step: GroupStep) -> str | None:
    """Return a broker whose hook reports and has seen nothing of a group whose members other hooks see; or None.

    Hooks show no routes: the group's topics may have no queue there, or no client reaches it.
    """
    brokers, views = step.cluster.brokers, step.state.views
    if len(brokers) <= len(views) and brokers.keys() <= views.keys():
        return None
    return next((name for name in sorted(brokers.keys() - views.keys()) if step.cluster.is_watched(name)), None)


def _unused_broker(step: GroupStep) -> str | None:
    """Return a broker whose hook shows neither pull nor commit of any owned queue for long; None if there is none."""
    unused: dict[str, bool] = {}
    for mq, queue in step.state.queues.items():
        if queue.owner is not None and unused.get(mq.broker, True) and not mq.is_retry:
            unused[mq.broker] = _is_unused(step, QueueFacts.of(step.facts, mq))
    return next((broker for broker in sorted(unused) if unused[broker]), None)


def _is_unused(step: GroupStep, q: QueueFacts) -> bool:
    """Return whether the hook has shown neither pull nor commit of an owned queue for pullMaxIdleTime.

    A client that has a queue pulls it at least every 30 s, or holds back and commits it every 5 s.
    """
    seen = q.calls
    if seen is None or q.mq.is_retry:
        return False
    last = max(seen.pull_time, seen.commit_time, seen.holder_since, q.watched_since)
    return step.now - last > step.policy.pull_max_idle_time


def _health_of_members(step: GroupStep) -> tuple[Health, str]:
    state = step.state
    if step.facts.division == "PROXIED":
        return "UNKNOWN", "its clients are behind a proxy and answer no request"
    silent = [m for m in state.members if state.clients[m].unanswered and state.clients[m].silent]
    if silent:
        return "UNKNOWN", f"no answer from {silent[0]}" + _more(silent)
    unread = [m for m in state.members if not state.clients[m].readable]
    if unread and len(step.facts.hooks) < len(state.views):
        return "UNKNOWN", f"no readable answer from {unread[0]}" + _more(unread)
    return "OK", ""


def _more(names: list[str]) -> str:
    """Return how many there are beside the first one."""
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _health_without_members(step: GroupStep) -> tuple[Health, str]:
    """Return the health of a group without a listed client: messages may wait, or unlisted clients consume them."""
    state = step.state
    if proxied.is_listed(state):
        return "OK", "its clients are behind a proxy that lists them"
    if failing := proxied.failing(state):
        return "UNKNOWN", f"no list of clients from the proxy {failing[0]}" + _more(failing)
    if step.facts.is_consumed_unlisted and state.advanced_at > proxied.left_at(state):
        return "UNKNOWN", "commits advance, but no client is listed: they are behind a proxy"
    queues = [queue for mq, queue in state.queues.items() if not mq.is_retry and queue.ended is None]
    waiting = [queue for queue in queues if queue.lag]
    if step.facts.broadcasts:
        return "OK", ""
    if not waiting:
        is_unknown = any(queue.broker_offset and queue.lag is None for queue in queues)
        return ("UNKNOWN", "no client is listed, and it is unknown whether messages wait") if is_unknown else ("OK", "")
    since = min(queue.stats_at - queue.stalled_ms for queue in waiting)
    return "UNKNOWN", f"no client is listed, and messages wait since {utc(since)} UTC or longer"


def _queue_health(step: GroupStep, q: QueueFacts, incidents: _OfQueues) -> tuple[Health, str]:
    """Return health and reason of a queue, from its broker's and its owner's."""
    state, mq, owner = step.state, q.mq, q.owner
    is_reported = "OFFSETS" not in step.facts.missing or q.watched_since <= step.now
    if state.incidents or step.cluster.incidents:
        down = step.cluster.incident("BROKER_UNREACHABLE", mq.broker)
        worst = _worst(step, [*incidents.get(mq, ()), *([down] if down is not None else ())])
        if worst is not None and (worst[0] != "OK" or is_reported):
            return worst
    if not is_reported:
        return "UNKNOWN", f"no source reports {mq.broker}"
    if owner is None:
        return _without_owner(step, mq)
    if owner.unanswered and owner.silent:
        return "UNKNOWN", f"no answer from {q.queue.owner}"
    if not (owner.readable or q.watched_since <= step.now):
        return "UNKNOWN", f"no readable answer from {q.queue.owner}"
    is_seen = (step.facts.shows_owners and owner.readable and owner.answered > 0) or not _is_unused(step, q)
    return ("OK", "") if is_seen else ("UNKNOWN", f"no pull or commit is seen at {mq.broker}")


def _without_owner(step: GroupStep, mq: MessageQueue) -> tuple[Health, str]:
    """Return health and reason of a queue without an owner, by how the clients share its topic."""
    if mq.topic in step.facts.popped:
        return _of_sharers(step, mq)
    if proxied.pop(step.state, mq.topic) and not step.state.members:
        return "OK", "shared: clients of a proxy pop it"
    return _WITHOUT_OWNER.get(step.facts.division, ("UNKNOWN", "no known owner"))


def _of_sharers(step: GroupStep, mq: MessageQueue) -> tuple[Health, str]:
    """Return health and reason of a popped queue: as long as one of its clients pops it, it is consumed."""
    clients = [client for one in step.facts.shared_by(mq) if (client := step.state.clients.get(one)) is not None]
    answering = [client for client in clients if not client.silent]
    if clients and not answering:
        return "UNKNOWN", "no client that pops it answers"
    if answering and all(any(one.covers(mq) for one in client.full) for client in answering):
        return "WARN", "every client that pops it is full"
    return "OK", "shared: its clients pop it"


def _snapshot_group(step: GroupStep, *, always: bool) -> None:
    state = step.state
    info = step.facts.info or ConsumerGroupInfo()
    health, reason = _group_health(step)
    row = LastGroupRow(
        members=state.members,
        subscriptions=_subscriptions(state, info),
        consume_type=step.facts.consume_type,
        message_model=state.message_model,
        consume_from_where=info.consume_from_where,
        orderly=state.orderly,
        strategy=step.facts.strategy,
        health=health,
        health_reason=reason,
        coverage=coverage(step),
        proxied_clients=_proxied(state),
    )
    if not always and row == state.last_row and not state.corrections:
        return
    state.last_row = row
    corrections, state.corrections = state.corrections, ()
    step.emit(
        GroupSnapshot(
            **step.next_row(),
            corrections=corrections,
            **msgspec.structs.asdict(row),
        )
    )


def _subscriptions(state: GroupState, info: ConsumerGroupInfo) -> tuple[str, ...]:
    """Return what the group subscribes: by a broker's table, or where none lists a member by those of proxies."""
    if not info.subscription_table and state.proxies:
        return tuple(sorted(f"{topic} {text}".rstrip() for topic, text in proxied.subscriptions(state).items()))
    return tuple(sorted([f"{s.topic} {s.sub_string}" for s in info.subscription_table.values()]))


def _proxied(state: GroupState) -> tuple[str, ...] | None:
    """Return the clients of proxies that a proxy lists, or whose heartbeats are seen; None: there are none."""
    return tuple(proxied.clients(state)[:PROXIED_MAX]) or None


def _snapshot_queue(step: GroupStep, q: QueueFacts, incidents: _OfQueues, *, always: bool) -> None:
    queue, ended = q.queue, q.queue.ended
    status, reason = _queue_health(step, q, incidents) if ended is None else ("UNKNOWN", WHY[ended.why])
    shared_by = step.facts.shared_by(q.mq) or None if step.facts.popped else None
    locked = is_locked(q.mq, queue, q.owner, q.view)
    row = LastQueueRow(queue.owner, queue.expected_owner, locked, status, reason, shared_by)
    if always or row != queue.last_row:
        queue.last_row = row
        step.emit(_queue_row(step, q, row))


def _queue_row(step: GroupStep, q: QueueFacts, row: LastQueueRow) -> QueueSnapshot:
    mq, held = q.mq, owners_queue(step, q)
    lock_at, pull_at, consume_at = _stamps(q, held) if held is not None else (None, None, None)
    return QueueSnapshot(
        **step.next_row(),
        topic=mq.topic,
        broker=mq.broker,
        queue_id=mq.queue_id,
        lock_at=lock_at if row.locked else None,
        pull_at=pull_at,
        consume_at=consume_at,
        **msgspec.structs.asdict(row),
    )


def _stamps(q: QueueFacts, process_queue: OwnersQueue) -> tuple[int | None, int | None, int | None]:
    """Return when the owner renewed its lock, pulled and consumed; of a silent one only what the hook saw."""
    if process_queue.client.silent:
        return process_queue.last_lock_timestamp if process_queue.lock_is_exact else None, q.owner_pulled_at, None
    return process_queue.last_lock_timestamp, process_queue.last_pull_timestamp, process_queue.last_consume_timestamp
