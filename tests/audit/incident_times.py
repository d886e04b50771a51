"""Begins and ends of incidents by the raw telemetry, for the kinds whose limits are simple.

A limit is exceeded one millisecond after it is reached. A kind that several sources show has an instant for each.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.audit.answers import ShownIncident
from tests.audit.owners import Activity, Commit, QueueHistory
from tests.audit.reading import Reading
from tests.audit.telemetry import Event, queue_of

LOCK_LIVES_MS = 30_000
BROKER_LOCK_LIVES_MS = 60_000
PULL_IDLE_MS = 120_000
REFUSED_MS = 5_000
REQUESTS_AGAIN_MS = 30_000
"""A client that requests a lock does so every 20 s: one that has not for longer requests it no more."""
STUCK_MS = 60_000
HEARTBEATS_MS = 60_000
TICKS_MS = 15_000
SOURCE_BACK_MS = 60_000
ANSWERS_AGAIN_MS = 60_000
UNREACHABLE_HOOK_MS = 2_000
RECOVERS_MS = 30_000
"""An incident that is over waits at most so long for the end of those that are shown under it."""


def expected(reading: Reading, incident: ShownIncident, part: str, time: int) -> list[int] | None:
    """Return the instants at which raw telemetry lets an incident begin or end; None: not evaluated."""
    evaluate = _BY_KIND.get((incident.code, part))
    return None if evaluate is None else evaluate(reading, incident, time)


def _lock_expires(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    granted = _of_client(reading, incident).last_grant(begin)
    return [] if granted is None else [granted + LOCK_LIVES_MS]


def _lock_is_renewed_or_released(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    return _first([*_grants(reading, incident), *_owner_changes(reading, incident)], incident.begin, end)


def _refused_for_one_that_is_gone(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    granted = max((at for at in _grants(reading, incident) if at <= begin), default=0)
    refused = _first([at for at in _refusals(reading, incident) if at > granted], 0, begin)
    gone = [at for at in _leaves(reading, incident) if at <= begin][-1:]
    return [max(refused[0], gone[0]) + REFUSED_MS] if refused and gone else []


def _lock_is_granted_or_free(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    granted = _of_client(reading, incident).last_grant(incident.begin) or 0
    asked = max((at for at in _refusals(reading, incident) if at <= end), default=0)
    over = [granted + BROKER_LOCK_LIVES_MS, asked + REQUESTS_AGAIN_MS]
    return _first([*_grants(reading, incident), *over], incident.begin, end)


def _pulls_stop(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    """Return when the limit is reached by the hook, or with the first answer that shows it."""
    pulls = _of_client(reading, incident).pulls
    pulled = max((pull.last_time for pull in pulls if pull.seen <= begin), default=0)
    answered = [event.time for event in _answers(reading, incident) if _pull_age(event, incident) > PULL_IDLE_MS]
    return _first([pulled + PULL_IDLE_MS, *answered], pulled, begin)


def _pulls_continue(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    """Return when it is pulled again or given up, and when the commits continue that are shown under this incident."""
    pulls = [pull.seen for client in _history(reading, incident).by_client.values() for pull in client.pulls]
    over = _first([*pulls, *_owner_changes(reading, incident)], incident.begin, end)
    return [*over, *_recoveries(_history(reading, incident), over)]


def _commits_stop(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    """Return when the limit is reached, by each sign that a message waits, and with the first answer after that.

    The signs are the last commit that advanced, the first pull after it of what is not committed, and the first answer
    with lag since it, or since the last one without lag.
    """
    commits = [one for one in _advances(_history(reading, incident)) if one.seen <= begin]
    if not commits or incident.queue is None:
        return []
    last = commits[-1]
    clients = _history(reading, incident).by_client.values()
    pulled = [one for client in clients for one in client.pulls if one.last_offset > last.offset and one.seen <= begin]
    signs = [last.time, *_first([one.last_time for one in pulled], last.time, begin)]
    lags = [one for one in reading.quantities.lags[incident.place, incident.queue] if last.time < one.time <= begin]
    empty = max((one.time for one in lags if one.value == 0), default=last.time)
    signs += _first([one.time for one in lags if one.value], empty, begin)
    limits = [sign + STUCK_MS for sign in signs]
    return [*limits, *(at for limit in limits for at in _first([one.time for one in lags], limit, begin))]


def _commits_continue(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    return _first([one.seen for one in _advances(_history(reading, incident))], incident.begin, end)


def _client_fails_twice(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    return _failures([event for event in _answers(reading, incident) if event.time <= begin])[1:2]


def _client_answers_or_leaves(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    answered = [event.time for event in _answers(reading, incident) if not _fails(event)]
    return _with_recovery(reading, incident, _first([*answered, *_leaves(reading, incident)], incident.begin, end))


def _with_recovery(reading: Reading, incident: ShownIncident, over: list[int]) -> list[int]:
    """Add when the last of the client's queues is committed again, if it is soon: it is shown under this incident."""
    commits = [
        _recoveries(history, over)
        for history in reading.owners[incident.place].queues.values()
        if (held := history.owners().at(incident.begin)) is not None and held.value == incident.client
    ]
    return [*over, *max(commits, default=[])]


def _recoveries(history: QueueHistory, over: list[int]) -> list[int]:
    """Return when a queue is first committed again after an incident is over, if it is soon, as a list."""
    return [one.seen for one in _advances(history) if over and over[0] < one.seen <= over[0] + RECOVERS_MS][:1]


def _broker_fails(reading: Reading, _: ShownIncident, begin: int) -> list[int]:
    """Return the second failure; or the first if the broker's hook is silent, too."""
    failed = _failures(_statuses(reading, begin))
    ticks = max((one.time for one in reading.events if one.source == "hook" and one.time <= begin), default=begin)
    return failed[:2] if begin - ticks > UNREACHABLE_HOOK_MS else failed[1:2]


def _broker_answers(reading: Reading, _: ShownIncident, end: int) -> list[int]:
    statuses = _statuses(reading, end)
    failed = max((event.time for event in statuses if _fails(event)), default=0)
    return [event.time + ANSWERS_AGAIN_MS for event in statuses if event.time > failed][:1]


def _heartbeats_stop(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    beats = [at for at in _beats(reading, incident) if at <= begin]
    return [at + HEARTBEATS_MS for at in beats[-1:]]


def _heartbeat_or_leave(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    return _first([*_beats(reading, incident), *_leaves(reading, incident)], incident.begin, end)


def _commit_goes_back(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    """Return when a commit was below the one before it."""
    commits = sorted(one for client in _history(reading, incident).by_client.values() for one in client.commits)
    return [after.seen for before, after in pairwise(commits) if after.offset < before.offset and after.seen <= begin]


def _broker_is_new(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    times = [at for of_broker in reading.owners[incident.place].restarts.values() for at in of_broker]
    return _first(times, 0, begin)[-1:]


def _hook_falls_silent(reading: Reading, _: ShownIncident, begin: int) -> list[int]:
    return [at + TICKS_MS for at in _hook_ticks(reading) if at <= begin][-1:]


def _hook_is_back(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    return [at + SOURCE_BACK_MS for at in _first(_hook_ticks(reading), incident.begin, end)]


_BY_KIND: dict[tuple[str, str], Callable[[Reading, ShownIncident, int], list[int]]] = {
    ("LOCK_EXPIRED", "begin"): _lock_expires,
    ("LOCK_EXPIRED", "end"): _lock_is_renewed_or_released,
    ("LOCK_ORPHANED", "begin"): _refused_for_one_that_is_gone,
    ("LOCK_ORPHANED", "end"): _lock_is_granted_or_free,
    ("PULL_EXPIRED", "begin"): _pulls_stop,
    ("PULL_EXPIRED", "end"): _pulls_continue,
    ("ORDERED_QUEUE_STUCK", "begin"): _commits_stop,
    ("ORDERED_QUEUE_STUCK", "end"): _commits_continue,
    ("CLIENT_UNRESPONSIVE", "begin"): _client_fails_twice,
    ("CLIENT_UNRESPONSIVE", "end"): _client_answers_or_leaves,
    ("BROKER_UNREACHABLE", "begin"): _broker_fails,
    ("BROKER_UNREACHABLE", "end"): _broker_answers,
    ("STALE_HEARTBEAT", "begin"): _heartbeats_stop,
    ("STALE_HEARTBEAT", "end"): _heartbeat_or_leave,
    ("OFFSET_REGRESSION", "begin"): _commit_goes_back,
    ("BROKER_LOCKS_LOST", "begin"): _broker_is_new,
    ("TELEMETRY_GAP", "begin"): _hook_falls_silent,
    ("TELEMETRY_GAP", "end"): _hook_is_back,
}


def _first(times: list[int], after: int, until: int) -> list[int]:
    """Return the first of these times that is in a period, as a list; none: an empty one."""
    return sorted(time for time in times if after < time <= until)[:1]


def _history(reading: Reading, incident: ShownIncident) -> QueueHistory:
    assert incident.queue is not None
    return reading.owners[incident.place].queues[incident.queue]


def _of_client(reading: Reading, incident: ShownIncident) -> Activity:
    assert incident.client is not None
    return _history(reading, incident).by_client[incident.client]


def _grants(reading: Reading, incident: ShownIncident) -> list[int]:
    return [at for client in _history(reading, incident).by_client.values() for at in client.grants]


def _refusals(reading: Reading, incident: ShownIncident) -> Iterator[int]:
    """Yield when the broker refused the queue's lock to a client, by its hook."""
    for event in reading.events:
        if event.type == "LOCK_BATCH_MQ" and event.place == incident.place and not event.get("code"):
            requested, granted = (map(queue_of, event[name]) for name in ("requested", "granted"))
            if incident.queue in requested and incident.queue not in granted:
                yield event.time


def _owner_changes(reading: Reading, incident: ShownIncident) -> list[int]:
    return [change.time for change in _history(reading, incident).changes]


def _leaves(reading: Reading, incident: ShownIncident) -> Iterator[int]:
    """Yield when the client ceased to be a member."""
    was = False
    for time, members in reading.owners[incident.place].members:
        if was and incident.client not in members:
            yield time
        was = incident.client in members


def _answers(reading: Reading, incident: ShownIncident) -> list[Event]:
    """Return what the client was asked for, with and without an answer."""
    asked = [one for one in reading.events if (one.type, one.place) == ("CONSUMER_RUNNING_INFO", incident.place)]
    return [one for one in asked if one["client_id"] == incident.client]


def _beats(reading: Reading, incident: ShownIncident) -> list[int]:
    """Return when the client sent heartbeats."""
    beats = [one for one in reading.events if (one.type, one.place) == ("HEART_BEAT", incident.place)]
    return [one.time for one in beats if one["client_id"] == incident.client]


def _hook_ticks(reading: Reading) -> list[int]:
    return [one.time for one in reading.events if (one.type, one.source) == ("TICK", "hook")]


def _failures(asked: list[Event]) -> list[int]:
    """Return when requests failed since the last answer."""
    answered = max((number for number, one in enumerate(asked) if not _fails(one)), default=-1)
    return [one.time for one in asked[answered + 1 :]]


def _fails(event: Event) -> bool:
    return bool(event.get("error"))


def _pull_age(answer: Event, incident: ShownIncident) -> int:
    """Return the age of the last pull of the queue in an answer, milliseconds; 0: it does not say."""
    stamps = [part["pull_time"] for part in answer.get("queues", ()) if queue_of(part["mq"]) == incident.queue]
    return answer.time - stamps[0] if stamps else 0


def _statuses(reading: Reading, until: int) -> list[Event]:
    return [one for one in reading.events if (one.type, one.source) == ("BROKER_STATUS", "poll") and one.time <= until]


def _advances(history: QueueHistory) -> list[Commit]:
    """Return the commits above all earlier ones, of any client."""
    highest, advances = -1, []
    for commit in sorted(one for client in history.by_client.values() for one in client.commits):
        if commit.offset > highest:
            highest = commit.offset
            advances.append(commit)
    return advances
