"""Labels and formats for the codes, times and numbers of the tables, in the current language."""

import re
from collections import defaultdict
from collections.abc import Sequence

from rebalance_model.allocation import name_of_class
from schemas.rows import WHOLE_SUITE
from streaming.base.language import gettext, marked, ngettext, recognized
from streaming.base.times import clock, zone_at

NOT_KNOWN = "-"
"""The text of an unknown value: never 0, never empty."""
NAME_SERVER = marked("mqadmin needs -n NAMESRV or the environment variable NAMESRV_ADDR.")
"""The part that a reader adds to the commands of an incident: only the collector's settings have the name servers."""

TRIGGERS = {
    "CLIENT_JOINED": marked("joined"),
    "CLIENT_LEFT": marked("left"),
    "CLIENT_UNREGISTERED": marked("unregistered"),
    "CONNECTION_CLOSED": marked("connection closed"),
    "HEARTBEAT_EXPIRED": marked("dropped by the broker: no heartbeat for 120 s"),
    "CLIENT_RESTARTED": marked("restarted"),
    "STRATEGY_CHANGED": marked("changed its strategy"),
    "CONNECTIONS_CHANGED": marked("changed its connections"),
    "SUBSCRIPTION_CHANGED": marked("subscription changed"),
    "ROUTE_CHANGED": marked("queues of the topic changed"),
    "BROKER_LOST": marked("broker lost"),
    "BROKER_BACK": marked("broker returned"),
    "BROKER_RESTARTED": marked("broker restarted"),
    "LOCK_RETRY": marked("acquired a lock that was refused before"),
    "PULL_EXPIRED_REPAIR": marked("dropped and re-acquired the queue (pull expired)"),
    "UNEXPLAINED": marked("queues moved, cause unknown"),
}
"""The cause of a rebalance, printed after the client that triggered it, if any."""

GAINED = {
    "FIRST_SEEN": marked("owner when observation began"),
    "LOCK_GRANTED": marked("lock granted by the broker"),
    "OFFSET_ASKED": marked("queried the queue's offset"),
    "PULLED": marked("pulled from the queue"),
    "ANSWER": marked("reported by the client"),
}
"""The evidence that a client owns a queue."""

LOST = {
    "UNLOCKED": marked("unlocked the queue"),
    "LEFT": marked("left the group"),
    "GONE": marked("no longer found by the broker"),
    "ANSWER_WITHOUT": marked("no longer reported by the client"),
    "DROPPED": marked("dropped the queue"),
    "TAKEN_OVER": marked("taken over by another client"),
}
"""The evidence that a client no longer owns a queue."""


_MOVES = {
    "MOVED": marked("moved"),
    "INTERRUPTED": marked("interrupted"),
    "UNASSIGNED": marked("left unassigned"),
}
REASONS = (
    marked("every client reads it"),
    marked("shared: its clients pop it"),
    marked("shared: clients of a proxy pop it"),
    marked("its clients pull by themselves and do not report which queues"),
    marked("its clients are behind a proxy"),
    marked("its clients are behind a proxy and answer no request"),
    marked("no client that pops it answers"),
    marked("every client that pops it is full"),
    marked("its clients are behind a proxy, and only their calls are seen"),
    marked("its clients are behind a proxy that lists them"),
    marked("no source reports it"),
    marked("no client is seen at {broker}, which may have queues of its topics"),
    marked("no source reports {broker}"),
    marked("no broker answers"),
    marked("no known owner"),
    marked("the topic no longer exists"),
    marked("the topic no longer has this queue"),
    marked("no member subscribes to the topic any more"),
    marked("no name server lists the broker any more"),
    marked("its source has been silent for long, and was forgotten"),
    marked("no client reads this queue any more, though others of its topic are read"),
    marked("nothing reports the group any more"),
    marked("no broker has the group any more"),
    marked("closed by {author}: {reason}"),
    marked("no answer from {client} and {n} more"),
    marked("no list of clients from the proxy {proxy} and {n} more"),
    marked("no list of clients from the proxy {proxy}"),
    marked("no answer from {client}"),
    marked("no pull or commit is seen at {broker}"),
    marked("no readable answer from {client} and {n} more"),
    marked("no readable answer from {client}"),
    marked("commits advance, but no client is listed: they are behind a proxy"),
    marked("no client is listed, and it is unknown whether messages wait"),
    marked("no client is listed, and messages wait since {time} UTC or longer"),
    marked("no client is listed since {time} UTC, and no offsets are seen"),
    marked("the rule does not apply: the members share the queues in another way"),
)
"""The reasons of a health that `rebalance_model.observe.snapshots` writes beside codes of incidents, and of an end."""


def reason(text: str) -> str:
    """Return the reason of a health, as it is in a row, in the current language; codes of incidents stay."""
    return recognized(text, REASONS)


def gained(evidence: str) -> str:
    """Return the label of the evidence that a client owns a queue."""
    return gettext(GAINED.get(evidence, evidence))


def lost(evidence: str) -> str:
    """Return the label of the evidence that a client no longer owns a queue."""
    return gettext(LOST.get(evidence, evidence))


def queue_name(topic: str, broker: str, queue_id: int) -> str:
    """Return the name of a queue as it is printed everywhere."""
    return f"{topic}@{broker}:{queue_id}"


def moment(time_ms: int | None, now: int) -> str:
    """Format an instant in the zone of the command, with its date if that is not today."""
    if time_ms is None:
        return NOT_KNOWN
    time, today = clock(time_ms), clock(now)
    if time.date() == today.date():
        return time.strftime("%H:%M:%S")
    return time.strftime("%m-%d %H:%M:%S" if time.year == today.year else "%Y-%m-%d %H:%M:%S")


def moment_in_zone(time_ms: int, now: int) -> str:
    """Format an instant as `moment` does, with the zone's offset."""
    return f"{moment(time_ms, now)} {zone_at(time_ms)}"


_SCALES = (
    (86_400, marked("{n} d"), 3_600, marked("{n} h")),
    (3_600, marked("{n} h"), 60, marked("{n} min")),
    (60, marked("{n} min"), 1, marked("{n} s")),
)
"""The seconds and the form of a unit, then those of the next smaller one."""


def duration(milliseconds: int | None) -> str:
    """Format a duration in its two largest units: ``250 ms``, ``1.5 s``, ``3 min 20 s``, ``2 d 4 h``.

    One below zero, as by clocks that differ, is unknown.
    """
    if milliseconds is None or milliseconds < 0:
        return NOT_KNOWN
    if 0 < milliseconds < 1_000:
        return gettext("{n} ms", n=milliseconds)
    if milliseconds < 60_000:
        return gettext("{n} s", n=f"{milliseconds // 100 / 10:g}")
    seconds = milliseconds // 1_000
    size, unit, smaller, smaller_unit = next(scale for scale in _SCALES if seconds >= scale[0])
    rest = seconds % size // smaller
    return gettext(unit, n=seconds // size) + (f" {gettext(smaller_unit, n=rest)}" if rest else "")


_ISO_DURATION = re.compile(
    r"(-?)P(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?", re.ASCII
)


def iso_duration(text: str) -> str:
    """Format a duration by ISO 8601 in all its units: ``PT1H0.25S`` is ``1 h 0.25 s``; another text stays."""
    match = _ISO_DURATION.fullmatch(text)
    if match is None:
        return text
    units = ("{n} months", "{n} d", "{n} h", "{n} min", "{n} s")
    parts = [unit.replace("{n}", part) for unit, part in zip(units, match.groups()[1:], strict=True) if part]
    return f"{match[1]}{' '.join(parts)}"


def ago(milliseconds: int | None) -> str:
    """Format the age of an event."""
    if milliseconds is None:
        return NOT_KNOWN
    return gettext("just now") if milliseconds < 1_000 else gettext("{duration} ago", duration=duration(milliseconds))


def pause(milliseconds: int | None, *, at_most: bool) -> str:
    """Format the time during which a queue was not consumed; with polls alone it is an upper bound."""
    return f"≤ {duration(milliseconds)}" if at_most and milliseconds is not None else duration(milliseconds)


def move_kind(kind: str) -> str:
    """Return the label of the effect of a rebalance on a queue."""
    return gettext(_MOVES[kind])


def number(value: int | None) -> str:
    """Format a count."""
    return NOT_KNOWN if value is None else f"{value:,}"


def total(value: int | None, unknown: int, *, at_least: bool = False) -> str:
    """Format a sum; it is a lower bound if parts are unknown or lower bounds."""
    return NOT_KNOWN if value is None else f"{'≥' if unknown or at_least else ''}{value:,}"


def estimate(value: int | None, least: int | None, most: int | None) -> str:
    """Format an estimate with its bounds, each of which may be unknown."""
    if value is None and most is None:
        return gettext("at least {number}", number=f"{least:,}") if least else NOT_KNOWN
    bounds = gettext("{least} to {most}", least=f"{least or 0:,}", most="?" if most is None else f"{most:,}")
    if value is None:
        return bounds
    return f"{value:,}" if least == most else f"{value:,} ({bounds})"


def open_incidents(critical: int, warning: int, info: int, closed: int = 0) -> str:
    """Format the number of open incidents by severity, and of those that a person has closed while they hold."""
    counts = (
        (critical, gettext("{n} critical", n=critical)),
        (warning, gettext("{n} warning", n=warning)),
        (info, gettext("{n} info", n=info)),
        (closed, gettext("{n} closed", n=closed)),
    )
    return gettext(", ").join(text for count, text in counts if count)


def yes_no(value: bool | None) -> str:  # noqa: FBT001  the value to format
    """Format a truth value that may be unknown."""
    return NOT_KNOWN if value is None else gettext("yes") if value else gettext("no")


def kind(*, orderly: bool | None, message_model: str, consume_type: str, sharing: str = "") -> str:
    """Return how the clients of a group consume, as far as it is known.

    Args:
        orderly: whether they lock their queues; None: no client has answered.
        message_model: of the group; empty: unknown.
        consume_type: the same.
        sharing: how they share the queues (`Group.sharing`); empty: unknown.
    """
    if message_model == "BROADCASTING":
        return gettext("broadcasting")
    if consume_type == "CONSUME_ACTIVELY":
        return gettext("pull consumer")
    if orderly is None:
        return _shared_kind(sharing)
    return gettext("ordered") if orderly else gettext("concurrent")


def _shared_kind(sharing: str) -> str:
    """Return how clients consume that answer no request about themselves."""
    if sharing in {"PROXIED", "UNLISTED"}:
        return gettext("behind a proxy: shared")
    if sharing == "POPPED":
        return gettext("POP: shared")
    return gettext("POP and pull") if sharing == "MIXED" else gettext("unknown kind")


def some(names: Sequence[str], most: int = 3) -> str:
    """Return the first names of several, and how many more there are."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else gettext("{names} and {n} more", names=", ".join(names[:most]), n=more)


def strategy_name(java_class: str | None) -> str:
    """Return the name of an allocation strategy by its Java class."""
    return name_of_class(java_class or "") or java_class or gettext("unknown strategy")


def trigger(code: str, client: str | None, causes: int) -> str:
    """Format the trigger of a rebalance and the number of further causes."""
    more = f" (+{causes - 1})" if causes > 1 else ""
    return f"{client or ''} {gettext(TRIGGERS.get(code, code))}".strip() + more


def cause(text: str) -> str:
    """Format a cause in the form of a row, ``CODE subject``."""
    code, _, subject = text.partition(" ")
    label = gettext(TRIGGERS.get(code, code))
    return gettext("{what}: {subject}", what=label, subject=subject) if subject else label


_BROKERS, _SPANS = 4, 8
"""Maximum brokers, and ranges of queue ids a broker, that `queue_ranges` names."""


def queue_ranges(queues: Sequence[str]) -> str:
    """Format queues (``topic@broker:id``, sorted) as ranges of ids by broker, such as ``broker-a:0-3``."""
    brokers: dict[str, list[int]] = defaultdict(list)
    for queue in queues:
        broker, _, queue_id = queue.partition("@")[2].rpartition(":")
        brokers[broker].append(int(queue_id))
    ranges = [f"{broker}:{_ranges(ids)}" for broker, ids in brokers.items()]
    first, more = ", ".join(ranges[:_BROKERS]), len(ranges) - _BROKERS
    if more <= 0:
        return first
    return ngettext("{shown} and {n} more broker", "{shown} and {n} more brokers", more, shown=first)


def _ranges(ids: Sequence[int]) -> str:
    spans: list[tuple[int, int]] = []
    for queue_id in ids:
        if spans and spans[-1][1] + 1 == queue_id:
            spans[-1] = spans[-1][0], queue_id
        else:
            spans.append((queue_id, queue_id))
    named = [f"{first}" if first == last else f"{first}-{last}" for first, last in spans]
    return ",".join(named[:_SPANS]) + (",…" if len(named) > _SPANS else "")


def measured_moves(moves: int, rebalances: int, longest_ms: int | None = None) -> str:
    """Say what the expected pauses and duplicates of a prediction come from, and the longest of the pauses."""
    if not moves:
        return gettext("No queue moved in the last 7 days: pauses and duplicates are unknown.")
    measured = gettext(
        "{moves} in the group's last {rebalances}",
        moves=ngettext("{n} move", "{n} moves", moves, n=f"{moves:,}"),
        rebalances=ngettext("{n} rebalance", "{n} rebalances", rebalances, n=f"{rebalances:,}"),
    )
    if longest_ms is None:
        return gettext("Pauses and duplicates are as measured: {moves}.", moves=measured)
    return gettext(
        "Pauses and duplicates are as measured: {moves}; the longest pause was {duration}.",
        moves=measured,
        duration=duration(longest_ms),
    )


def measured_pauses(moves: int, median_ms: int | None) -> str:
    """Format the pauses of moves that were measured: their median and number; none: unknown."""
    if median_ms is None:
        return NOT_KNOWN
    return gettext("{duration} ({moves})", duration=duration(median_ms), moves=ngettext("{n} move", "{n} moves", moves))


def queues_per_client(sizes: Sequence[int], unassigned: int = 0) -> str:
    """Format how many queues the clients of a plan get, such as ``2 to 3; 1 idle``, and how many stay unassigned."""
    least, most, idle = min(sizes), max(sizes), sizes.count(0)
    parts = [gettext("{least} to {most}", least=least, most=most) if least < most else str(least)]
    if idle:
        parts.append(gettext("{n} idle", n=idle))
    if unassigned:
        parts.append(gettext("{n} unassigned", n=f"{unassigned:,}"))
    return gettext("; ").join(parts)


def checked(column: str | None, expectation: str) -> str:
    """Describe a check of the data: its columns, or the rows as a whole, and the expectation.

    Of a suite that can't be run: "suite".
    """
    if expectation == WHOLE_SUITE:
        return "suite"
    said = expectation.removeprefix("expect_").removeprefix("column_").removeprefix("values_")
    return f"{column or 'rows'}: {said.replace('_', ' ')}"
