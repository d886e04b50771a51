"""Describe the columns that people see of each result type, for the command line's grids and the pages' tables.

To add a column to a table: declare it here, and name it in `grid` (command line), `page`, or both.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from streaming.base.language import gettext, marked
from streaming.queries import labels
from streaming.queries.column import (
    SHORT_ID,
    Column,
    Context,
    Table,
    Tone,
    Value,
    client_or_none,
    counted,
    observed,
    plain,
    queue_column,
)
from streaming.queries.results import (
    BY_PERSON,
    Client,
    FailedMessages,
    Group,
    Incident,
    Interval,
    Member,
    Move,
    OwnerChange,
    QualityCheck,
    Queue,
    QueueObservation,
    Rebalance,
    RecordedAction,
    Transition,
)  # fmt: skip
from streaming.queries.without_owner import WithoutOwner


def _owner(queue: Queue, context: Context) -> Value:
    if queue.owner is not None:
        return Value(queue.owner)
    if queue.shared_by:
        return Value(WithoutOwner.SHARED.label, "quiet", labels.some(queue.shared_by))
    without = context.without_owner
    if queue.is_stale and without is not WithoutOwner.UNKNOWN:
        return Value(without.label, "stale", gettext("last known"))
    return Value(without.label, "unassigned" if without is WithoutOwner.UNASSIGNED else "quiet")


def _expected(queue: Queue, _: Context) -> Value:
    if queue.owner is not None and queue.owner == queue.expected_owner:
        return Value(gettext("as expected"), "quiet")
    return Value(queue.expected_owner or labels.NOT_KNOWN, "attention" if queue.is_elsewhere else "")


def _lag(queue: Queue, _: Context) -> Value:
    bound: Literal["≥", ""] = "≥" if queue.lag_is_at_least else ""
    shown = observed(labels.number(queue.lag), queue.lag_age_ms, is_stale=queue.lag_is_stale, bound=bound)
    if queue.in_flight_age_ms is None:
        return shown
    held = gettext(
        "{count} in flight, the oldest for {duration} or longer",
        count=labels.number(queue.in_flight),
        duration=labels.duration(queue.in_flight_age_ms),
    )
    return shown._replace(note="; ".join(filter(None, (held, shown.note))))


def _given_up(failed: FailedMessages, _: Context) -> Value:
    return Value(gettext("dead letters") if failed.given_up else gettext("to be tried again"))


def _failed(failed: FailedMessages, _: Context) -> Value:
    return observed(labels.number(failed.messages), failed.age_ms, is_stale=failed.is_stale)


def _added(failed: FailedMessages, _: Context) -> Value:
    if failed.added is None:
        return Value(labels.NOT_KNOWN)
    tone: Tone = "attention" if failed.added and failed.given_up else ""
    return Value(
        labels.number(failed.added),
        tone,
        gettext("in {duration}", duration=labels.duration(failed.added_ms)) if failed.added else "",
    )


def _waiting(queue: Queue, _: Context) -> Value:
    bound: Literal["≤", ""] = "≤" if queue.waiting_is_at_most else ""
    shown = labels.duration(queue.waiting_ms)
    return observed(shown, queue.waiting_age_ms, is_stale=queue.waiting_is_stale, bound=bound)


def _cached(queue: Queue, _: Context) -> Value:
    return observed(labels.number(queue.cached_count), queue.cached_age_ms, is_stale=queue.cached_is_stale)


def _lock(queue: Queue, _: Context) -> Value:
    if queue.locked is False:
        return Value(gettext("not locked"), "attention")
    return _reported(labels.duration(queue.lock_age_ms), is_stale=queue.lock_is_stale)


def _reported(text: str, *, is_stale: bool) -> Value:
    """Show an age, and whether what it counts from may be out of date."""
    return Value(text, "stale", gettext("stale")) if is_stale and text != labels.NOT_KNOWN else Value(text)


def _pulled(queue: Queue, _: Context) -> Value:
    return _reported(labels.ago(queue.pull_age_ms), is_stale=queue.pull_is_stale)


def _consumed(queue: Queue, _: Context) -> Value:
    return _reported(labels.ago(queue.consume_age_ms), is_stale=queue.consume_is_stale)


def _status(queue: Queue, _: Context) -> Value:
    text = f"{queue.status} {labels.reason(queue.status_reason)}".rstrip()
    if queue.is_stale and queue.status != "UNKNOWN":
        return Value(text, "stale" if queue.status == "OK" else queue.status, gettext("stale"))
    return Value(text, queue.status)


QUEUE = Table(
    queue_column(Queue),
    Column(Queue, "owner", "client", _owner, wide=True),
    Column(Queue, "since", "time", spare=True),
    Column(Queue, "expected_owner", "client", _expected),
    Column(Queue, "lag", "count", _lag),
    Column(Queue, "lag_age_ms", "duration"),
    Column(Queue, "waiting_ms", "duration", _waiting, spare=True),
    Column(Queue, "lock_age_ms", "duration", _lock, spare=True),
    Column(Queue, "pull_age_ms", "duration", _pulled, spare=True),
    Column(Queue, "consume_age_ms", "duration", _consumed, spare=True),
    Column(Queue, "cached_count", "count", _cached, spare=True),
    Column(Queue, "status", show=_status, wide=True),
    Column(Queue, "time", "time"),
    grid="queue owner since expected_owner lag lag_age_ms waiting_ms lock_age_ms pull_age_ms consume_age_ms status",
    page="queue status owner since expected_owner lag waiting_ms lock_age_ms pull_age_ms consume_age_ms cached_count"
    " time",
)


def _kind(group: Group, _: Context) -> str:
    return group.kind


def _unowned(group: Group, _: Context) -> Value:
    if group.unowned is None:
        return Value(gettext("n/a") if group.coverage.owners_known else labels.NOT_KNOWN, "quiet")
    return counted(group.unowned)


def _health(group: Group, _: Context) -> Value:
    if not group.is_stale or group.health == "UNKNOWN":
        return Value(group.health, group.health)
    age = labels.duration(group.telemetry_age_ms)
    return Value(group.health, "stale" if group.health == "OK" else group.health, gettext("stale, {age} old", age=age))


def _lag_sum(group: Group, _: Context) -> Value:
    text = labels.total(group.lag, group.lag_unknown, at_least=group.lag_is_at_least)
    return Value(
        text,
        hint="" if group.lag is None else gettext("observed up to {age} ago", age=labels.duration(group.lag_age_ms)),
    )


def _last_rebalance(group: Group, context: Context) -> Value:
    known = group.last_rebalance
    return Value(gettext("none"), "quiet") if known is None else plain("time", known, context)


GROUP = Table(
    Column(Group, "health", show=_health, wide=True),
    Column(Group, "cluster"),
    Column(Group, "group"),
    Column(Group, "kind", "text", _kind, "Kind", ("orderly", "message_model", "consume_type"), spare=True),
    Column(Group, "members", "count", lambda g, _: labels.number(len(g.members))),
    Column(Group, "queues", "count"),
    Column(Group, "unowned", "count", _unowned),
    Column(Group, "lag", "count", _lag_sum),
    Column(Group, "lag_age_ms", "duration", spare=True),
    Column(Group, "lag_unknown", "count", lambda g, _: counted(g.lag_unknown), spare=True),
    Column(Group, "last_rebalance", "time", _last_rebalance, spare=True),
    Column(Group, "time", "time", spare=True),
    Column(Group, "incidents", "line", lambda g, _: labels.open_incidents(**g.incidents.model_dump())),
    Column(Group, "health_reason", show=lambda g, _: labels.reason(g.health_reason)),
    grid="health cluster group kind members queues unowned lag lag_age_ms lag_unknown last_rebalance time incidents"
    " health_reason",
    page="group health incidents lag members queues unowned last_rebalance",
)


def _paused(milliseconds: int | None, *, at_most: bool) -> Value:
    hint = gettext("upper bound: polls give no exact times") if at_most else ""
    return Value(labels.pause(milliseconds, at_most=at_most), hint=hint)


def _duplicates(row: Move | Rebalance, _: Context) -> str:
    return labels.estimate(row.reconsumed, row.reconsumed_min, row.reconsumed_max)


def _pause(move: Move, _: Context) -> Value:
    if move.to_client is None:
        return Value(gettext("ongoing"), "quiet")
    if move.pause_ms is None and move.from_client is None:
        return Value(gettext("first owner"), "quiet")
    return _paused(move.pause_ms, at_most=move.pause_is_at_most)


MOVE = Table(
    queue_column(Move),
    Column(Move, "kind", show=lambda m, _: labels.move_kind(m.kind)),
    Column(Move, "from_client", "client", lambda m, _: client_or_none(m.from_client)),
    Column(Move, "to_client", "client", lambda m, _: client_or_none(m.to_client)),
    Column(Move, "pause_ms", "duration", _pause),
    Column(Move, "reconsumed", "count", _duplicates),
    grid="queue kind from_client to_client pause_ms reconsumed",
    page="queue kind from_client to_client pause_ms reconsumed",
)


def _cause(rebalance: Rebalance, _: Context) -> Value:
    more = len(rebalance.causes) - 1
    return Value(labels.trigger(rebalance.trigger, None, 0), note=f"+{more}" if more > 0 else "")


def _trigger(rebalance: Rebalance, _: Context) -> Value:
    client = rebalance.trigger_client
    return Value(gettext("no client"), "quiet") if client is None else Value(client)


def _moved(rebalance: Rebalance, _: Context) -> Value:
    more = rebalance.queues_moved > rebalance.queues_moved_min
    return Value(labels.number(rebalance.queues_moved), "attention" if more else "")


def _paused_nothing(rebalance: Rebalance) -> bool:
    """Return whether it is known that no queue had an owner before; a list of rebalances may come without moves."""
    changed = rebalance.queues_moved or rebalance.queues_interrupted or rebalance.queues_unassigned
    return bool(rebalance.moves or not changed) and not any(move.from_client for move in rebalance.moves)


def _longest_pause(rebalance: Rebalance, _: Context) -> Value:
    """Show the longest pause; there is none if no queue had an owner before."""
    if rebalance.pause_ms_max is None and _paused_nothing(rebalance):
        return Value(gettext("none"), "quiet")
    return _paused(rebalance.pause_ms_max, at_most=rebalance.pause_is_at_most)


def _total_pause(rebalance: Rebalance, _: Context) -> Value:
    """Show the sum of the known pauses, and of how many queues it is unknown."""
    if rebalance.pause_ms_sum is None:
        return Value(gettext("none"), "quiet") if _paused_nothing(rebalance) else Value(labels.NOT_KNOWN)
    at_most = any(move.pause_is_at_most for move in rebalance.moves if move.pause_ms is not None)
    shown = _paused(rebalance.pause_ms_sum, at_most=at_most)
    unknown = sum(move.pause_ms is None and move.from_client is not None for move in rebalance.moves)
    return shown._replace(note=gettext("unknown of {n}", n=f"{unknown:,}")) if unknown else shown


DURATION_MEANING = marked("From the first cause until the last queue changed its owner.")
LONGEST_MEANING = marked("How long the queue that stood still longest was not consumed while it changed its owner.")
TOTAL_MEANING = marked("The sum of the pauses of all its queues.")
REBALANCE = Table(
    Column(Rebalance, "start_time", "time"),
    Column(Rebalance, "duration", "duration", lambda r, _: labels.duration(r.end_time - r.start_time), "Duration",
           ("start_time", "end_time"), meaning=DURATION_MEANING, spare=True),
    Column(Rebalance, "trigger", show=_cause, wide=True),
    Column(Rebalance, "trigger_client", "client", _trigger, wide=True),
    Column(Rebalance, "members", "line", lambda r, _: f"{len(r.members_before)} → {len(r.members_after)}", "Members",
           ("members_before", "members_after")),
    Column(Rebalance, "queues_moved", "count", _moved),
    Column(Rebalance, "queues_moved_min", "count", spare=True),
    Column(Rebalance, "queues_interrupted", "count", spare=True),
    Column(Rebalance, "queues_unassigned", "count", lambda r, _: counted(r.queues_unassigned)),
    Column(Rebalance, "pause_ms_max", "duration", _longest_pause, meaning=LONGEST_MEANING),
    Column(Rebalance, "pause_ms_sum", "duration", _total_pause, "Total pause", ("moves",), meaning=TOTAL_MEANING,
           spare=True),
    Column(Rebalance, "pause_ms_p50", "duration", lambda r, _: _paused(r.pause_ms_p50, at_most=r.pause_is_at_most)),
    Column(Rebalance, "reconsumed", "count", _duplicates, spare=True, wide=True),
    Column(Rebalance, "converged", show=lambda r, _: Value(
        labels.yes_no(r.converged), "attention" if r.converged is False else ""), spare=True),
    Column(Rebalance, "rebalance_id", show=lambda r, _: Value(r.rebalance_id[:SHORT_ID], "quiet")),
    grid="start_time trigger trigger_client members queues_moved queues_moved_min queues_interrupted queues_unassigned"
    " duration pause_ms_max pause_ms_sum reconsumed converged rebalance_id",
    page="start_time duration trigger trigger_client members queues_moved queues_moved_min queues_interrupted"
    " queues_unassigned pause_ms_max pause_ms_sum reconsumed converged",
)  # fmt: skip


def _incident_duration(incident: Incident, _: Context) -> str:
    ended = incident.resolved_at
    return gettext("open") if ended is None else labels.duration(ended - incident.opened_at)


def _resolved(incident: Incident, context: Context) -> Value:
    return Value(gettext("open")) if incident.resolved_at is None else plain("time", incident.resolved_at, context)


def _other_client(incident: Incident, _: Context) -> str:
    """Return the client, if it is not the subject itself."""
    client = incident.main_client_id
    return labels.NOT_KNOWN if client is None or client == incident.subject else client


INCIDENT = Table(
    Column(Incident, "incident_id", show=lambda i, _: Value(i.incident_id[:SHORT_ID], "quiet")),
    Column(Incident, "severity", show=lambda i, _: Value(gettext(i.severity), i.severity), spare=True, wide=True),
    Column(Incident, "opened_at", "time"),
    Column(Incident, "resolved_at", "time", _resolved),
    Column(Incident, "duration", "duration", _incident_duration, "Duration", ("opened_at", "resolved_at")),
    Column(Incident, "cluster"),
    Column(Incident, "group", show=lambda i, _: i.group or gettext("(cluster)")),
    Column(Incident, "title", "text", lambda i, _: Value(i.title, i.severity), "Incident", ("code", "main_cause")),
    Column(Incident, "subject", "name", lambda i, _: i.subject or gettext("the group"), wide=True),
    Column(Incident, "main_client_id", show=_other_client, spare=True),
    Column(Incident, "parent", show=lambda i, _: (i.parent or labels.NOT_KNOWN)[:SHORT_ID], spare=True),
    Column(Incident, "consequences", "count", lambda i, _: str(i.consequences or "")),
    Column(Incident, "resolution", show=lambda i, _: labels.reason(i.resolution or ""), spare=True),
    grid="incident_id severity opened_at duration cluster group title subject main_client_id parent consequences"
    " resolution",
    page="title severity subject opened_at resolved_at duration",
)


def _transition_cause(step: Transition, _: Context) -> str:
    if step.transition in BY_PERSON:
        return step.explanation
    parent = f"explained by {step.parent[:SHORT_ID]}" if step.parent is not None else ""
    return ", ".join(filter(None, (step.sub_cause, parent)))


TRANSITION = Table(
    Column(Transition, "time", "time"),
    Column(Transition, "transition"),
    Column(Transition, "severity", show=lambda s, _: Value(s.severity, s.severity)),
    Column(Transition, "sub_cause", "text", _transition_cause, "Cause", ("sub_cause", "parent")),
    Column(Transition, "cause", heading="Event", spare=True),
    grid="time transition severity sub_cause cause",
)


def _membership(row: Any, _: Context) -> Value:
    return Value("") if row.is_member else Value(gettext("not a member"), "attention")


def _heartbeat(client: Client, context: Context) -> str:
    known = client.last_heartbeat
    return labels.NOT_KNOWN if known is None else labels.ago(max(0, context.now - known))


def _subscribed(client: Client, _: Context) -> str:
    return labels.NOT_KNOWN if client.subscriptions is None else ", ".join(client.subscriptions)


def _client_health(client: Client, _: Context) -> Value:
    return Value(f"{client.health} {gettext(client.health_reason)}".rstrip(), client.health)


CLIENT = Table(
    Column(Client, "client_id", "client"),
    Column(Client, "health", show=_client_health, wide=True),
    Column(Client, "cluster"),
    Column(Client, "group"),
    Column(Client, "is_member", show=_membership),
    Column(Client, "queues", "count"),
    Column(Client, "version"),
    Column(Client, "language", spare=True),
    Column(Client, "address", "name", spare=True),
    Column(Client, "proxy", "name", spare=True),
    Column(Client, "last_heartbeat", "duration", _heartbeat, spare=True),
    Column(Client, "seen_at", "time", spare=True),
    Column(Client, "started_at", "time", spare=True),
    Column(Client, "subscriptions", show=_subscribed, spare=True, wide=True),
    Column(Client, "open_incidents", "count", lambda c, _: counted(c.open_incidents)),
    grid="client_id health cluster group is_member queues version language address proxy last_heartbeat seen_at"
    " subscriptions open_incidents",
    page="client_id health group is_member queues version language address proxy last_heartbeat seen_at subscriptions"
    " open_incidents",
)
PROXIED_COLUMNS = tuple(
    CLIENT[name] for name in ("client_id", "proxy", "language", "version", "address", "seen_at", "last_heartbeat")
)
"""Of a client behind a proxy, where its group is known."""


def shown_columns(columns: Sequence[Column[Client]], clients: Iterable[Client]) -> list[Column[Client]]:
    """Return the columns without the proxy, if none of the clients is behind one."""
    has_proxies = any(one.proxy is not None for one in clients)
    return [column for column in columns if has_proxies or column.name != "proxy"]


INTERVAL = Table(
    Column(Interval, "group"),
    Column(Interval, "client_id", "client", heading="Owner"),
    queue_column(Interval),
    Column(Interval, "from_time", "time", heading="From"),
    Column(Interval, "to_time", "time", lambda i, c: (
        Value(gettext("now"), "quiet") if i.to_time is None else plain("time", i.to_time, c)), "To"),
    Column(Interval, "duration_ms", "duration", lambda i, c: labels.duration(
        (c.now if i.to_time is None else i.to_time) - i.from_time), "Duration"),
    Column(Interval, "evidence", show=lambda i, _: labels.gained(i.evidence), heading="Acquired"),
    Column(Interval, "end_evidence", show=lambda i, _: (
        "" if i.end_evidence is None else labels.lost(i.end_evidence)), heading="Lost"),
    grid="group queue from_time to_time duration_ms evidence end_evidence",
    page="queue group from_time to_time duration_ms evidence end_evidence",
)  # fmt: skip


def _observed_lag(one: QueueObservation, _: Context) -> str:
    bound = "≥" if one.lag_is_at_least and one.lag is not None else ""
    return f"{bound}{labels.number(one.lag)}"


def _observed_waiting(one: QueueObservation, _: Context) -> str:
    return f"{'≤' if one.waiting_is_at_most else ''}{labels.duration(one.waiting_ms)}"


def _observed_by(one: QueueObservation, _: Context) -> str:
    return "hook" if one.source == "HOOK" else f"answer of {one.client_id or 'the broker'}"


OBSERVATION = Table(
    Column(QueueObservation, "time", "time"),
    Column(QueueObservation, "source", show=_observed_by),
    Column(QueueObservation, "broker_offset", "count"),
    Column(QueueObservation, "commit_offset", "count"),
    Column(QueueObservation, "lag", "count", _observed_lag),
    Column(QueueObservation, "waiting_ms", "duration", _observed_waiting, spare=True),
    Column(QueueObservation, "lock_at", "time", spare=True),
    grid="time source broker_offset commit_offset lag waiting_ms lock_at",
)
FAILED_MESSAGES = Table(
    Column(FailedMessages, "given_up", "text", _given_up),
    Column(FailedMessages, "broker", "name"),
    Column(FailedMessages, "messages", "count", _failed),
    Column(FailedMessages, "added", "count", _added),
    Column(FailedMessages, "newest_at", "time", spare=True),
    Column(FailedMessages, "topic", "name", wide=True),
    grid="given_up broker messages added newest_at",
    page="given_up broker messages added newest_at topic",
)
MEMBER = Table(
    Column(Member, "client_id", "client"),
    Column(Member, "queues", "count"),
    Column(Member, "is_member", show=_membership),
    grid="client_id queues is_member",
)
OWNER_CHANGE = Table(
    queue_column(OwnerChange),
    Column(OwnerChange, "from_client", "client", lambda c, _: (
        Value("did not exist", "quiet") if c.is_new and c.from_client is None else client_or_none(c.from_client))),
    Column(OwnerChange, "to_client", "client", lambda c, _: client_or_none(c.to_client)),
    grid="queue from_client to_client",
)  # fmt: skip


def _result(check: QualityCheck, _: Context) -> Value:
    if check.success:
        return Value("ok", "OK") if check.row_count else Value("nothing to check", "quiet")
    return Value("FAILED, stops the job" if check.stops_job else "FAILED", "BAD")


QUALITY = Table(
    Column(QualityCheck, "suite"),
    Column(QualityCheck, "column", show=lambda c, _: labels.checked(c.column, c.expectation)),
    Column(QualityCheck, "success", show=_result),
    Column(QualityCheck, "unexpected_count", "count"),
    Column(QualityCheck, "row_count", "count"),
    Column(QualityCheck, "checked_at", "time", lambda c, x: labels.moment_in_zone(c.checked_at or c.time, x.now),
           made_from=("checked_at", "time")),
    Column(QualityCheck, "observed", show=lambda c, _: "" if c.success else c.observed or "", spare=True, wide=True),
    grid="suite column success unexpected_count row_count checked_at observed",
)  # fmt: skip


_ACTIONS = {
    "ACKNOWLEDGE": marked("acknowledged"), "SILENCE": marked("silenced"), "UNSILENCE": marked("ended the silence"),
    "CLOSE": marked("closed"), "REOPEN": marked("reopened"),
}  # fmt: skip
_ACTION_RESULTS: dict[str, tuple[str, Tone]] = {
    "DONE": (marked("done"), ""),
    "REFUSED": (marked("not allowed"), "attention"),
    "FAILED": (marked("failed"), "attention"),
}  # fmt: skip


def _action_result(row: RecordedAction, _: Context) -> Value:
    text, tone = _ACTION_RESULTS[row.result]
    return Value(gettext(text), tone, row.message or "")


def _who(row: RecordedAction, _: Context) -> Value:
    """Show who did it, with what identifies the person if that says more."""
    name = row.name or row.subject
    return Value(name or gettext("someone on this machine"), "" if name else "quiet", hint=row.subject)


RECORDED_ACTION = Table(
    Column(RecordedAction, "time", "time"),
    Column(RecordedAction, "name", show=_who),
    Column(RecordedAction, "source"),
    Column(RecordedAction, "action", show=lambda a, _: gettext(_ACTIONS[a.action])),
    Column(RecordedAction, "target", wide=True),
    Column(RecordedAction, "result", show=_action_result),
    Column(RecordedAction, "detail", wide=True),
    page="time name action result source target detail",
)
