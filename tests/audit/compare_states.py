"""Compare members and incidents, asked by REST, command line and SQL.

The begin and the end of an incident are compared between the three; of the kinds below also with the raw telemetry.
A rule is evaluated with the next event or tick, so a deadline may be reported one interval of the polls late.
"""

from collections.abc import Callable

from tests.audit.answers import Api, CommandLine, ShownIncident
from tests.audit.differences import Difference, Result
from tests.audit.owners import Commit
from tests.audit.reading import Reading
from tests.audit.telemetry import Event, Place

LOCK_LIVES_MS = 30_000
STUCK_MS = 60_000
ANSWERS_AGAIN_MS = 60_000


def compare_members(
    result: Result, reading: Reading, api: Api, line: CommandLine, asked: list[tuple[int, Place]]
) -> None:
    """Compare the members at these instants; the command line, a process each, is asked about the first few."""
    by_sql = line.members_by_sql()
    for number, (instant, place) in enumerate(asked):
        row = by_sql[place].at(instant)
        answers = {"REST": api.members(place, instant), "SQL": row.value if row else None}
        if number < COMMANDS and answers["REST"] is not None:
            answers["CLI"] = line.members(place, instant)
        held = reading.owners[place].members.at(instant)
        raw = held.value if held is not None else frozenset()
        for way, answer in answers.items():
            fits = (answer or frozenset()) == raw
            result.check(fits, Difference(f"members by {way}", instant, place, "", _named(answer), _named(raw)))


COMMANDS = 3


def _named(members: frozenset[str] | None) -> str:
    return ", ".join(sorted(members or ()))


def compare_incidents(result: Result, reading: Reading, api: Api, line: CommandLine) -> None:
    """Compare the begin and the end of every incident."""
    by_rest, by_line = api.incidents(), line.incidents()
    by_sql = line.incidents_by_sql()
    for name in sorted(by_rest.keys() | by_line.keys() | by_sql.keys()):
        known = by_rest.get(name) or by_line.get(name)
        place, begin = (known.place, known.begin) if known else (("", ""), by_sql[name][0])
        rest, command = (_ends(one.get(name)) for one in (by_rest, by_line))
        for way, answer in (("REST", rest), ("CLI", command)):
            for part, at in (("begin", 0), ("end", 1)):
                raw = by_sql.get(name, ("none", "none"))[at]
                found = answer[at]
                kind = f"incident's {part} by {way} and SQL"
                result.check(found == raw, Difference(kind, begin, place, name, found, raw))
    for name, incident in by_rest.items():
        _compare_raw(result, reading, name, incident)


def _ends(incident: ShownIncident | None) -> tuple[object, object]:
    return ("none", "none") if incident is None else (incident.begin, incident.end)


def _compare_raw(result: Result, reading: Reading, name: str, incident: ShownIncident) -> None:
    for part, time in (("begin", incident.begin), ("end", incident.end)):
        expected = None if time is None else _expected(reading, incident, part, time)
        if time is not None and expected is not None:
            fits = any(0 <= time - one <= reading.interval for one in expected)
            nearest = min(expected, key=lambda one: abs(time - one), default=None)
            kind = f"{incident.code}'s {part} by raw events"
            result.check(fits, Difference(kind, time, incident.place, name, time, nearest))


def _expected(reading: Reading, incident: ShownIncident, part: str, time: int) -> list[int] | None:
    """Return the instants at which raw telemetry lets an incident begin or end; None: not evaluated."""
    evaluate = _BY_KIND.get((incident.code, part))
    return None if evaluate is None else evaluate(reading, incident, time)


def _lock_expires(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    assert incident.queue is not None
    assert incident.client is not None
    granted = reading.owners[incident.place].queues[incident.queue].by_client[incident.client].last_grant(begin)
    return [] if granted is None else [granted + LOCK_LIVES_MS]


def _commits_stop(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    """Return when the limit is reached: counted from the last commit, or from the first answer with lag after it."""
    moved = max((one.time for one in _advances(reading, incident) if one.seen <= begin), default=None)
    if moved is None or incident.queue is None:
        return []
    answers = [one for one in reading.quantities.lags[incident.place, incident.queue] if moved < one.time <= begin]
    empty = max((answer.time for answer in answers if answer.value == 0), default=None)
    lagging = [answer.time for answer in answers if answer.value and empty is not None and answer.time > empty]
    return [(lagging[0] if lagging else moved) + STUCK_MS]


def _commits_continue(reading: Reading, incident: ShownIncident, end: int) -> list[int]:
    return [one.seen for one in _advances(reading, incident) if incident.begin < one.seen <= end][:1]


def _client_fails(reading: Reading, incident: ShownIncident, begin: int) -> list[int]:
    asked = [event for event in reading.events if event.type == "CONSUMER_RUNNING_INFO" and event.time <= begin]
    return [event.time for event in asked if event.get("error") and event["client_id"] == incident.client]


def _broker_fails(reading: Reading, _: ShownIncident, begin: int) -> list[int]:
    return [event.time for event in _statuses(reading, begin) if event.get("error")]


def _broker_answers(reading: Reading, _: ShownIncident, end: int) -> list[int]:
    statuses = _statuses(reading, end)
    failed = max((event.time for event in statuses if event.get("error")), default=0)
    return [event.time + ANSWERS_AGAIN_MS for event in statuses if event.time > failed][:1]


def _statuses(reading: Reading, until: int) -> list[Event]:
    return [one for one in reading.events if (one.type, one.source) == ("BROKER_STATUS", "poll") and one.time <= until]


_BY_KIND: dict[tuple[str, str], Callable[[Reading, ShownIncident, int], list[int]]] = {
    ("LOCK_EXPIRED", "begin"): _lock_expires,
    ("ORDERED_QUEUE_STUCK", "begin"): _commits_stop,
    ("ORDERED_QUEUE_STUCK", "end"): _commits_continue,
    ("CLIENT_UNRESPONSIVE", "begin"): _client_fails,
    ("BROKER_UNREACHABLE", "begin"): _broker_fails,
    ("BROKER_UNREACHABLE", "end"): _broker_answers,
}


def _advances(reading: Reading, incident: ShownIncident) -> list[Commit]:
    """Return the commits above all earlier ones, of any client."""
    assert incident.queue is not None
    clients = reading.owners[incident.place].queues[incident.queue].by_client.values()
    highest, advances = -1, []
    for commit in sorted(one for client in clients for one in client.commits):
        if commit.offset > highest:
            highest = commit.offset
            advances.append(commit)
    return advances
