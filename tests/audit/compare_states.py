"""Compare owners, quantities, members and incidents, asked by REST, command line and SQL, with the raw telemetry."""

from tests.audit.answers import Api, Members, Queues, ShownIncident
from tests.audit.command_line import CommandLine
from tests.audit.compare_queue import compare_queue
from tests.audit.differences import Difference, Result
from tests.audit.incident_times import expected
from tests.audit.reading import Reading
from tests.audit.telemetry import Place

NOT_BY_SQL = frozenset({"lock age"})
"""No function of SQL has it: it is made of the rows of queue, hook and client."""
EXCEEDED_MS = 1
"""A limit is exceeded one millisecond after it is reached."""


def compare_queues(
    result: Result, reading: Reading, api: Api, line: CommandLine, asked: list[tuple[int, Place]]
) -> None:
    """Compare owner, lag and waiting time of each queue of a group at these instants."""
    ways: dict[str, Queues] = {"REST": api.queues, "CLI": line.queues, "SQL": line.queues_by_sql}
    for instant, place in asked:
        for way, ask in ways.items():
            shown, of_way = ask(place, instant), result.by(way, NOT_BY_SQL if way == "SQL" else frozenset())
            for queue in reading.queues(place, instant):
                compare_queue(of_way, reading, place, queue, instant, shown.get(queue))


def compare_members(result: Result, reading: Reading, ways: dict[str, Members], asked: list[tuple[int, Place]]) -> None:
    """Compare the members at these instants."""
    for instant, place in asked:
        held = reading.owners[place].members.at(instant)
        raw = held.value if held is not None else frozenset()
        for way, ask in ways.items():
            answer = ask(place, instant)
            fits = (answer or frozenset()) == raw
            result.by(way).check(fits, Difference("members", instant, place, "", _named(answer), _named(raw)))


def members_by_sql(line: CommandLine) -> Members:
    """Return how SQL is asked for the members at an instant: for all rows, once."""
    by_place = line.members_by_sql()

    def members(place: Place, instant: int) -> frozenset[str] | None:
        row = by_place[place].at(instant)
        return row.value if row else None

    return members


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
    compare_with_events(result, reading, by_rest)


def _ends(incident: ShownIncident | None) -> tuple[object, object]:
    return ("none", "none") if incident is None else (incident.begin, incident.end)


def compare_with_events(result: Result, reading: Reading, incidents: dict[str, ShownIncident]) -> None:
    """Compare the begin and the end of incidents with the events that lead to them."""
    for name, incident in incidents.items():
        _compare_raw(result, reading, name, incident)


def _compare_raw(result: Result, reading: Reading, name: str, incident: ShownIncident) -> None:
    for part, time in (("begin", incident.begin), ("end", incident.end)):
        instants = None if time is None else expected(reading, incident, part, time)
        if time is not None and instants is not None:
            fits = any(0 <= time - one <= EXCEEDED_MS for one in instants)
            nearest = min(instants, key=lambda one: abs(time - one), default=None)
            kind = f"{incident.code}'s {part} by raw events"
            result.check(fits, Difference(kind, time, incident.place, name, time, nearest))
