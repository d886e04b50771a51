"""Queries of current and past queue owners."""

from rebalance_model.entities import MessageQueue
from streaming.base.errors import NotFoundError, UserError
from streaming.base.language import gettext
from streaming.base.times import written
from streaming.queries import labels
from streaming.queries.group_at import GroupAt, find_group, instant_of
from streaming.queries.groups import last_group_state
from streaming.queries.present import Freshness, last_known, present
from streaming.queries.results import Interval, OwnerChange, Queue
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

_OF_GROUP = "t.cluster = $cluster AND t.group = $group"
_OF_TOPIC = "($topic IS NULL OR t.topic = $topic) AND ($retry OR NOT starts_with(t.topic, '%RETRY%'))"
_IN_ORDER = "ORDER BY t.topic, t.broker, t.queue_id"


def _age(stamp: str) -> str:
    """Return SQL for the age of a timestamp at the instant; one in the future (clock skew) has age 0."""
    return f"CASE WHEN {stamp} IS NOT NULL THEN greatest(0, $now - epoch_ms({stamp})) END"


_ROW_AGE = "$now - epoch_ms(t.time)"
_STALE_MS = 120_000
"""A timestamp is stale if no row has shown it for two of the series' own intervals."""
_SILENT_MS = 30_000
"""A hook reports the locks of a queue every 20 s, within 10 s; if it reports none for longer, it may have stopped."""


def _of_row(stamp: str) -> str:
    """Return SQL for a timestamp of the queue's state; one that no later row has shown is unknown, not that old."""
    return f"CASE WHEN {_ROW_AGE} <= {LOOK_BACK_MS} THEN t.{stamp} END"


def _is_stale(stamp: str, *sources: str) -> str:
    """Return SQL for whether neither the queue's state nor these sources have shown a timestamp recently."""
    of_row = f"(t.{stamp} IS NULL OR {_ROW_AGE} > {_STALE_MS})"
    return " AND ".join([of_row, *(f"coalesce({source}, true)" for source in sources)])


_BY_HOOK, _BY_CLIENT = "p.hook_is_stale", "c.client_is_stale"
_LOCK_AT = f"""greatest(
        {_of_row("lock_at")}, p.lock_at,
        CASE WHEN p.lock_at IS NULL OR p.hook_age_ms > {_SILENT_MS} THEN c.lock_at END
    )"""
"""A hook reports when the broker granted the lock; a client's timestamp is the latest possible one."""
LOCK_AGE = f"CASE WHEN t.locked THEN {_age(_LOCK_AT)} END"
"""SQL for the time since the lock of a queue was renewed, by its row ``t`` of `queues_at`, ``p`` of `progress_at` and
``c`` of `client_progress_at` at ``$now``; milliseconds."""
LOCK_IS_STALE = _is_stale("lock_at", _BY_HOOK, _BY_CLIENT)
"""SQL for whether nothing has reported the queue for so long that its lock's age may be wrong."""

_QUEUES = f"""
SELECT
    t.cluster, t.group, t.topic, t.broker, t.queue_id,
    CASE WHEN o.since IS NULL THEN t.owner ELSE o.client_id END AS owner, o.since, t.expected_owner,
    t.locked,
    {LOCK_AGE} AS lock_age_ms,
    {LOCK_IS_STALE} AS lock_is_stale,
    {_age(f"greatest({_of_row('pull_at')}, p.pull_at, c.pull_at)")} AS pull_age_ms,
    {_is_stale("pull_at", _BY_HOOK, _BY_CLIENT)} AS pull_is_stale,
    {_age(f"greatest({_of_row('consume_at')}, c.consume_at)")} AS consume_age_ms,
    {_is_stale("consume_at", _BY_CLIENT)} AS consume_is_stale,
    {_age("p.commit_at")} AS commit_age_ms,
    coalesce(p.hook_is_stale, false) AS commit_is_stale,
    p.commit_offset, p.broker_offset,
    p.lag, coalesce(p.lag_is_at_least, false) AS lag_is_at_least, p.lag_time, p.lag_age_ms,
    coalesce(p.lag_is_stale, false) AS lag_is_stale, p.in_flight, p.in_flight_since,
    {_age("p.in_flight_since")} AS in_flight_age_ms, p.ready,
    p.waiting_ms, coalesce(p.waiting_is_at_most, false) AS waiting_is_at_most, p.waiting_age_ms,
    coalesce(p.waiting_is_stale, false) AS waiting_is_stale,
    c.cached_count, c.client_age_ms AS cached_age_ms, coalesce(c.client_is_stale, false) AS cached_is_stale,
    t.status, t.status_reason, coalesce(t.shared_by, []) AS shared_by, t.time
FROM queues_at(from_ms($instant)) t
LEFT JOIN owners_at(from_ms($instant)) o
    ON o.cluster = t.cluster AND o.group = t.group AND o.topic = t.topic AND o.broker = t.broker
    AND o.queue_id = t.queue_id
LEFT JOIN progress_at(from_ms($now)) p
    ON p.cluster = t.cluster AND p.group = t.group AND p.topic = t.topic AND p.broker = t.broker
    AND p.queue_id = t.queue_id
LEFT JOIN client_progress_at(from_ms($now)) c
    ON c.cluster = t.cluster AND c.group = t.group AND c.topic = t.topic AND c.broker = t.broker
    AND c.queue_id = t.queue_id AND c.client_id = CASE WHEN o.since IS NULL THEN t.owner ELSE o.client_id END
WHERE {_OF_GROUP} AND {_OF_TOPIC}
{_IN_ORDER}
"""  # noqa: S608  parts of ours


def queues(  # noqa: PLR0913  filters
    model: ReadModel,
    group: str,
    *,
    cluster: str | None = None,
    topic: str | None = None,
    at: int | None = None,
    retry: bool = False,
) -> list[Queue]:
    """List the queues of a group with owner, expected owner and status; ``retry`` includes its retry topic.

    Raises:
        NotFoundError: the group has no such topic.
        UserError: see `find_group`.
    """
    return queues_of(model, find_group(model, group, cluster, at), topic, retry=retry)


def queues_of(model: ReadModel, of: GroupAt, topic: str | None = None, *, retry: bool = False) -> list[Queue]:
    """List the queues of a group; see `queues`."""
    wanted = {**of._asdict(), "now": present(model, of.at), "topic": topic, "retry": retry}
    found = model.rows(_QUEUES, wanted)
    if not found and topic is not None:
        _check_known(model, of, topic)
    if not found:
        return []
    freshness = last_group_state(model, of).freshness
    return [_as_heard(Queue(**row), freshness) for row in found]


def _as_heard(queue: Queue, freshness: Freshness) -> Queue:
    """Return the queue as it is shown by what had been heard of its group."""
    if not freshness.is_stale:
        return queue
    known: dict[str, object] = {"is_stale": True}
    if freshness.silent_since is not None:
        known |= {"status": "UNKNOWN", "status_reason": last_known(freshness.silent_since, queue.status)}
    return queue.model_copy(update=known)


def who_owned(  # noqa: PLR0913  a queue has four names
    model: ReadModel,
    group: str,
    topic: str,
    broker: str,
    queue_id: int,
    *,
    cluster: str | None = None,
    at: int | None = None,
) -> Interval | None:
    """Return the ownership interval of a queue at an instant; None if it was unassigned.

    Raises:
        NotFoundError: the group has no such queue, or did not have it yet.
        UserError: the group is broadcasting; telemetry had stopped by the instant; or see `find_group`.
    """
    return owner_of(model, find_group(model, group, cluster, at), MessageQueue(topic, broker, queue_id))


def owner_of(model: ReadModel, of: GroupAt, queue: MessageQueue) -> Interval | None:
    """Return the ownership interval of a queue; see `who_owned`."""
    last = last_group_state(model, of)
    refuse_broadcasting(last.message_model, of)
    _refuse_unheard(last.freshness, of)
    query = f"""
        SELECT t.* FROM who_owned_at(from_ms($instant)) t
        WHERE {_OF_GROUP} AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id
    """  # noqa: S608  parts of ours
    wanted = {"topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}
    found = model.rows(query, {**of._asdict(), **wanted})
    if not found:
        _check_known(model, of, queue.topic, queue)
        _check_existed(model, of, queue)
    return Interval(**found[0]) if found else None


def owners_of(model: ReadModel, of: GroupAt, topic: str | None = None, *, retry: bool = False) -> list[Interval]:
    """Return the ownership interval of each queue of a group; unassigned queues are omitted.

    Raises:
        UserError: telemetry had stopped by the instant.
    """
    _refuse_unheard(last_group_state(model, of).freshness, of)
    query = f"SELECT t.* FROM who_owned_at(from_ms($instant)) t WHERE {_OF_GROUP} AND {_OF_TOPIC} {_IN_ORDER}"  # noqa: S608  ours
    return [Interval(**row) for row in model.rows(query, {**of._asdict(), "topic": topic, "retry": retry})]


def last_owner(model: ReadModel, of: GroupAt, queue: MessageQueue) -> Interval | None:
    """Return the last ownership interval of an unassigned queue."""
    query = f"""
        SELECT t.* FROM ownership_intervals t
        WHERE {_OF_GROUP} AND t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id
            AND t.to_time <= from_ms($instant)
        ORDER BY t.to_time DESC, t.from_time DESC LIMIT 1
    """  # noqa: S608  parts of ours
    wanted = {"topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}
    found = model.rows(query, {**of._asdict(), **wanted})
    return Interval(**found[0]) if found else None


def refuse_broadcasting(message_model: str, of: GroupAt) -> None:
    """Reject broadcasting groups: each of their clients reads every queue.

    Raises:
        UserError: the group is broadcasting.
    """
    if message_model == "BROADCASTING":
        raise UserError(
            gettext("{group} is broadcasting: every client reads every queue, so queues have no owner.", group=of.group)
        )


def _refuse_unheard(freshness: Freshness, of: GroupAt) -> None:
    """Reject an instant of which nothing is known: neither an owner nor "unassigned" is an answer.

    Raises:
        UserError: telemetry had stopped by the instant.
    """
    if of.at is None or freshness.silent_since is None:
        return
    raise UserError(
        gettext(
            "The owners in {group} at {time} are unknown: that is {age} after the last telemetry ({last}). Choose an "
            "earlier time.",
            group=of.group, time=written(of.at), age=labels.duration(of.at - freshness.silent_since),
            last=written(freshness.silent_since),
        )
    )  # fmt: skip


def find_queue(model: ReadModel, of: GroupAt, topic: str, queue_id: int) -> MessageQueue:
    """Return the queue of a topic by its number, where only one broker has one of that number.

    Raises:
        NotFoundError: the topic or the queue is unknown.
        UserError: several brokers have a queue of that number.
    """
    found = [mq for mq in _known_queues(model, of) if (mq.topic, mq.queue_id) == (topic, queue_id)]
    if not found:
        _check_known(model, of, topic)
        raise NotFoundError(
            gettext("Unknown queue {queue_id} of {topic} in {group}.", queue_id=queue_id, topic=topic, group=of.group)
        )
    if len(found) > 1:
        names = ", ".join(sorted(map(str, found)))
        raise UserError(
            gettext(
                "Several brokers have a queue {queue_id} of {topic}: specify one of {names}.",
                queue_id=queue_id,
                topic=topic,
                names=names,
            )
        )
    return found[0]


def _known_queues(model: ReadModel, of: GroupAt) -> set[MessageQueue]:
    return {
        MessageQueue(row["topic"], row["broker"], row["queue_id"])
        for row in model.rows(
            f"SELECT DISTINCT t.topic, t.broker, t.queue_id FROM queue_state t WHERE {_OF_GROUP}",  # noqa: S608  ours
            {"cluster": of.cluster, "group": of.group},
        )
    }


def _check_known(model: ReadModel, of: GroupAt, topic: str, queue: MessageQueue | None = None) -> None:
    known = _known_queues(model, of)
    topics = {mq.topic for mq in known}
    if topic not in topics:
        names = ", ".join(sorted(topics)) or "none"
        raise NotFoundError(
            gettext(
                "Unknown topic {topic} of {group}. Known topics: {names}.", topic=topic, group=of.group, names=names
            )
        )
    if queue is not None and queue not in known:
        brokers = sorted({mq.broker for mq in known if mq.topic == topic})
        ids = [mq.queue_id for mq in known if mq.topic == topic]
        raise NotFoundError(
            gettext(
                "Unknown queue {queue} of {group}: {topic} has queues {first} to {last} on {brokers}.",
                queue=queue,
                group=of.group,
                topic=topic,
                first=min(ids),
                last=max(ids),
                brokers=", ".join(brokers),
            )
        )


def _check_existed(model: ReadModel, of: GroupAt, queue: MessageQueue) -> None:
    """Check that the queue was known at the instant: one that did not exist yet was not unassigned.

    Raises:
        NotFoundError: the queue was first seen later.
    """
    its = "t.topic = $topic AND t.broker = $broker AND t.queue_id = $queue_id"
    wanted = {**of._asdict(), "topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}
    query = f"SELECT min(t.time) AS first FROM queue_state t WHERE {_OF_GROUP} AND {its} AND t.time > from_ms($instant)"  # noqa: S608
    if model.rows(f"SELECT 1 FROM queues_at(from_ms($instant)) t WHERE {_OF_GROUP} AND {its}", wanted):  # noqa: S608  parts of ours
        return
    [row] = model.rows(query, wanted)
    if row["first"] is not None:
        raise NotFoundError(
            gettext(
                "{group} had no queue {queue} at that time: it was first seen at {time}.",
                group=of.group,
                queue=queue,
                time=written(row["first"]),
            )
        )


def unassigned(model: ReadModel, of: GroupAt) -> frozenset[tuple[str, str, int]]:
    """Return the queues (topic, broker, id) of a group that had an owner before and had none at the instant.

    Retry queues are omitted.
    """
    query = f"""
        SELECT t.topic, t.broker, t.queue_id FROM owners_at(from_ms($instant)) t
        WHERE {_OF_GROUP} AND {_OF_TOPIC} AND t.client_id IS NULL
    """  # noqa: S608  parts of ours
    rows = model.rows(query, {**of._asdict(), "topic": None, "retry": False})
    return frozenset((row["topic"], row["broker"], row["queue_id"]) for row in rows)


def intervals(  # noqa: PLR0913, PLR0917  filters
    model: ReadModel,
    of: GroupAt,
    since: int,
    until: int,
    topic: str | None = None,
    retry: bool = False,  # noqa: FBT001, FBT002  as `queues`
) -> list[Interval]:
    """Return the ownership intervals of a group's queues within a period, ordered by queue and time."""
    query = f"""
        SELECT t.* FROM ownership_intervals t
        WHERE {_OF_GROUP} AND {_OF_TOPIC}
            AND t.from_time <= from_ms($until) AND (t.to_time IS NULL OR t.to_time >= from_ms($since))
        {_IN_ORDER}, t.from_time
    """  # noqa: S608  parts of ours
    wanted = {
        "cluster": of.cluster,
        "group": of.group,
        "topic": topic,
        "retry": retry,
        "since": since,
        "until": until,
    }
    return [Interval(**row) for row in model.rows(query, wanted)]


def diff(  # noqa: PLR0913  filters
    model: ReadModel,
    group: str,
    earlier: int,
    later: int | None = None,
    *,
    cluster: str | None = None,
    topic: str | None = None,
    retry: bool = False,
) -> list[OwnerChange]:
    """List the queues of a group whose owner differs between two instants; ``later`` is now by default.

    Raises:
        NotFoundError: the group has no such topic.
        UserError: ``later`` is before ``earlier``; the group is broadcasting; or see `find_group`.
    """
    of = find_group(model, group, cluster, earlier)
    refuse_broadcasting(last_group_state(model, of).message_model, of)
    if instant_of(later) < earlier:
        raise UserError(gettext("--from must be before --to: swap them."))
    query = f"""
        SELECT t.*, q.queue_id IS NULL AND t.from_client IS NULL AS is_new
        FROM owner_changes(from_ms($earlier), from_ms($later)) t
        LEFT JOIN queues_at(from_ms($earlier)) q
            ON q.cluster = t.cluster AND q.group = t.group AND q.topic = t.topic AND q.broker = t.broker
            AND q.queue_id = t.queue_id
        WHERE {_OF_GROUP} AND {_OF_TOPIC}
        {_IN_ORDER}
    """  # noqa: S608  parts of ours
    wanted = {
        "cluster": of.cluster,
        "group": of.group,
        "topic": topic,
        "retry": retry,
        "earlier": earlier,
        "later": instant_of(later),
    }
    found = [OwnerChange(**row) for row in model.rows(query, wanted)]
    if not found and topic is not None:
        _check_known(model, of, topic)
    return found
