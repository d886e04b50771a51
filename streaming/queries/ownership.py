"""Queries of current and past queue owners."""

from rebalance_model.entities import MessageQueue
from streaming.base.errors import UserError
from streaming.base.language import gettext
from streaming.base.statements import statements_of, with_parts
from streaming.base.times import written
from streaming.queries import labels
from streaming.queries.group_at import GroupAt, instant_of
from streaming.queries.groups import last_group_state
from streaming.queries.known_queues import check_existed, check_known
from streaming.queries.present import Freshness, last_known, present
from streaming.queries.results import Interval, OwnerChange, Queue
from streaming.tables.observations import LOOK_BACK_MS
from streaming.tables.reader import ReadModel

_SQL = statements_of(__name__)


def find_owned(model: ReadModel, text: str, since: int, until: int, last: int) -> list[Interval]:
    """Return who owned which queue in a period, where the queue's name or the client's id contains a text.

    Those that had not ended by the end of the period come first. Retry queues are omitted.

    Args:
        model: the tables.
        text: a part of the name or id, in any case.
        since: the begin of the period, epoch milliseconds.
        until: its end, epoch milliseconds.
        last: the maximum number of intervals.
    """
    parameters = {"text": text.lower(), "since": since, "until": until, "last": last}
    return [Interval(**row) for row in model.rows(_SQL["owned"], parameters)]


_STALE_MS = 120_000
"""A time is stale if no row has shown it for two of the series' own intervals."""
_SILENT_MS = 30_000
"""A hook reports the locks of a queue every 20 s, within 10 s; if it reports none for longer, it may have stopped."""
LOCK_LIMITS = {"row_valid_ms": LOOK_BACK_MS, "row_stale_ms": _STALE_MS, "hook_silent_ms": _SILENT_MS}
"""The parameters of `LOCK_AGE` and `LOCK_IS_STALE`, beside ``$now``."""

OWNED_QUEUES, LOCK_AGE, LOCK_IS_STALE = _SQL["owned_queues"], _SQL["lock_age"], _SQL["lock_is_stale"]
"""Parts of queries about queues; see `ownership.sql`."""
_QUEUES = with_parts(
    _SQL["queues"], owned_queues=OWNED_QUEUES, lock_age=LOCK_AGE, lock_is_stale=LOCK_IS_STALE
)  # fmt: skip


def queues(model: ReadModel, group_at: GroupAt, topic: str | None = None, *, retry: bool = False) -> list[Queue]:
    """List the queues of a group with owner, expected owner and status; ``retry`` includes its retry topic.

    Raises:
        NotFoundError: the group has no such topic.
    """
    parameters = {**group_at._asdict(), **LOCK_LIMITS, "now": present(model, group_at.at)}
    rows = model.rows(_QUEUES, parameters | {"topic": topic, "retry": retry})
    if not rows and topic is not None:
        check_known(model, group_at, topic)
    if not rows:
        return []
    freshness = last_group_state(model, group_at).freshness
    return [_as_heard(Queue(**row), freshness) for row in rows]


def _as_heard(queue: Queue, freshness: Freshness) -> Queue:
    """Return the queue as it is shown by what had been heard of its group."""
    if not freshness.is_stale:
        return queue
    changes: dict[str, object] = {"is_stale": True}
    if freshness.silent_since is not None:
        changes |= {"status": "UNKNOWN", "status_reason": last_known(freshness.silent_since, queue.status)}
    return queue.model_copy(update=changes)


def who_owned(model: ReadModel, group_at: GroupAt, queue: MessageQueue) -> Interval | None:
    """Return the ownership interval of a queue at an instant; None if it was unassigned.

    Raises:
        NotFoundError: the group has no such queue, or did not have it yet.
        UserError: the group is broadcasting, or telemetry had stopped by the instant.
    """
    last = last_group_state(model, group_at)
    refuse_broadcasting(last.message_model, group_at)
    _refuse_unheard(last.freshness, group_at)
    rows = model.rows(_SQL["owner"], _of_queue(group_at, queue))
    if not rows:
        check_known(model, group_at, queue.topic, queue)
        check_existed(model, group_at, queue)
    return Interval(**rows[0]) if rows else None


def owners(model: ReadModel, group_at: GroupAt, topic: str | None = None, *, retry: bool = False) -> list[Interval]:
    """Return the ownership interval of each queue of a group; unassigned queues are omitted.

    Raises:
        NotFoundError: the group has no such topic.
        UserError: telemetry had stopped by the instant.
    """
    _refuse_unheard(last_group_state(model, group_at).freshness, group_at)
    rows = model.rows(_SQL["owners"], {**group_at._asdict(), "topic": topic, "retry": retry})
    if not rows and topic is not None:
        check_known(model, group_at, topic)
    return [Interval(**row) for row in rows]


def last_owner(model: ReadModel, group_at: GroupAt, queue: MessageQueue) -> Interval | None:
    """Return the last ownership interval of an unassigned queue."""
    rows = model.rows(_SQL["last_owner"], _of_queue(group_at, queue))
    return Interval(**rows[0]) if rows else None


def refuse_broadcasting(message_model: str, group_at: GroupAt) -> None:
    """Reject broadcasting groups: each of their clients reads every queue.

    Raises:
        UserError: the group is broadcasting.
    """
    if message_model == "BROADCASTING":
        raise UserError(
            gettext(
                "{group} is broadcasting: every client reads every queue, so queues have no owner.",
                group=group_at.group,
            )
        )


def _refuse_unheard(freshness: Freshness, group_at: GroupAt) -> None:
    """Reject an instant of which nothing is known: neither an owner nor "unassigned" is an answer.

    Raises:
        UserError: telemetry had stopped by the instant.
    """
    if group_at.at is None or freshness.silent_since is None:
        return
    raise UserError(
        gettext(
            "The owners in {group} at {time} are unknown: that is {age} after the last telemetry ({last}). Choose an "
            "earlier time.",
            group=group_at.group, time=written(group_at.at),
            age=labels.duration(group_at.at - freshness.silent_since), last=written(freshness.silent_since),
        )
    )  # fmt: skip


def unassigned(model: ReadModel, group_at: GroupAt) -> frozenset[tuple[str, str, int]]:
    """Return the queues (topic, broker, id) of a group that had an owner before and had none at the instant.

    Retry queues are omitted.
    """
    rows = model.rows(_SQL["unassigned"], group_at._asdict())
    return frozenset((row["topic"], row["broker"], row["queue_id"]) for row in rows)


def intervals(
    model: ReadModel, group_at: GroupAt, since: int, until: int, topic: str | None = None, *, retry: bool = False
) -> list[Interval]:
    """Return the ownership intervals of a group's queues within a period, ordered by queue and time.

    Raises:
        NotFoundError: the group has no such topic.
    """
    of_group = {"cluster": group_at.cluster, "group": group_at.group}
    parameters = of_group | {"since": since, "until": until, "topic": topic, "retry": retry}
    rows = model.rows(_SQL["intervals"], parameters)
    if not rows and topic is not None:
        check_known(model, group_at, topic)
    return [Interval(**row) for row in rows]


def diff(
    model: ReadModel, group_at: GroupAt, later: int | None = None, topic: str | None = None, *, retry: bool = False
) -> list[OwnerChange]:
    """List the queues of a group whose owner differs between its instant and a later one; by default now.

    Raises:
        NotFoundError: the group has no such topic.
        UserError: the later instant is the earlier one, the group is broadcasting, or telemetry had stopped by one of
            the instants.
    """
    first = last_group_state(model, group_at)
    refuse_broadcasting(first.message_model, group_at)
    if instant_of(later) < group_at.instant:
        raise UserError(gettext("--from must be before --to: swap them."))
    _refuse_unheard(first.freshness, group_at)
    if later is not None:
        until = group_at._replace(instant=later)
        _refuse_unheard(last_group_state(model, until).freshness, until)
    of_group = {"cluster": group_at.cluster, "group": group_at.group}
    period = {"earlier": group_at.instant, "later": instant_of(later)}
    rows = model.rows(_SQL["owner_changes"], of_group | period | {"topic": topic, "retry": retry})
    if not rows and topic is not None:
        check_known(model, group_at, topic)
    return [OwnerChange(**row) for row in rows]


def _of_queue(group_at: GroupAt, queue: MessageQueue) -> dict[str, object]:
    return {**group_at._asdict(), "topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}
