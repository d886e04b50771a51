"""Labels and formats for the codes, times and numbers of the tables."""

from collections import defaultdict
from collections.abc import Sequence

from rebalance_model.allocation import name_of_class
from streaming.base.zone import clock, zone_at

NOT_KNOWN = "-"
"""The text of an unknown value: never 0, never empty."""
NAME_SERVER = "mqadmin needs -n NAMESRV or the environment variable NAMESRV_ADDR."
"""What a reader adds to the commands of an incident: only the collector's settings have the name servers."""

TRIGGERS = {
    "CLIENT_JOINED": "joined",
    "CLIENT_LEFT": "left",
    "CLIENT_UNREGISTERED": "unregistered",
    "CONNECTION_CLOSED": "connection closed",
    "HEARTBEAT_EXPIRED": "dropped by the broker: no heartbeat for 120 s",
    "CLIENT_RESTARTED": "restarted",
    "STRATEGY_CHANGED": "changed its strategy",
    "CONNECTIONS_CHANGED": "changed its connections",
    "SUBSCRIPTION_CHANGED": "subscription changed",
    "ROUTE_CHANGED": "queues of the topic changed",
    "BROKER_LOST": "broker lost",
    "BROKER_BACK": "broker returned",
    "BROKER_RESTARTED": "broker restarted",
    "LOCK_RETRY": "acquired a lock that was refused before",
    "PULL_EXPIRED_REPAIR": "dropped and re-acquired the queue (pull expired)",
    "UNEXPLAINED": "queues moved, cause unknown",
}
"""The cause of a rebalance, printed after the client that triggered it, if any."""

GAINED = {
    "FIRST_SEEN": "owner when observation began",
    "LOCK_GRANTED": "lock granted by the broker",
    "OFFSET_ASKED": "queried the queue's offset",
    "PULLED": "pulled from the queue",
    "ANSWER": "reported by the client",
}
"""The evidence that a client owns a queue."""

LOST = {
    "UNLOCKED": "unlocked the queue",
    "LEFT": "left the group",
    "GONE": "no longer found by the broker",
    "ANSWER_WITHOUT": "no longer reported by the client",
    "DROPPED": "dropped the queue",
    "TAKEN_OVER": "taken over by another client",
}
"""The evidence that a client no longer owns a queue."""


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


_SCALES = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
"""The seconds and the name of a unit, then those of the next smaller one."""


def duration(milliseconds: int | None) -> str:
    """Format a duration in its two largest units: ``250 ms``, ``1.5 s``, ``3 min 20 s``, ``2 d 4 h``."""
    if milliseconds is None:
        return NOT_KNOWN
    if 0 < milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds // 100 / 10:g} s"
    seconds = milliseconds // 1_000
    size, unit, smaller, smaller_unit = next(scale for scale in _SCALES if seconds >= scale[0])
    rest = seconds % size // smaller
    return f"{seconds // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")


def ago(milliseconds: int | None) -> str:
    """Format the age of an event."""
    if milliseconds is None:
        return NOT_KNOWN
    return "just now" if milliseconds < 1_000 else f"{duration(milliseconds)} ago"


def pause(milliseconds: int | None, *, at_most: bool) -> str:
    """Format the time during which a queue was not consumed; with polls alone it is an upper bound."""
    return f"≤ {duration(milliseconds)}" if at_most and milliseconds is not None else duration(milliseconds)


def move_kind(kind: str) -> str:
    """Return the label of the effect of a rebalance on a queue."""
    return {"MOVED": "moved", "INTERRUPTED": "interrupted", "UNASSIGNED": "left unassigned"}[kind]


def number(value: int | None) -> str:
    """Format a count."""
    return NOT_KNOWN if value is None else f"{value:,}"


def total(known: int | None, unknown: int, *, at_least: bool = False) -> str:
    """Format a sum; it is a lower bound if parts are unknown or lower bounds."""
    return NOT_KNOWN if known is None else f"{'≥' if unknown or at_least else ''}{known:,}"


def estimate(value: int | None, least: int | None, most: int | None) -> str:
    """Format an estimate with its bounds, each of which may be unknown."""
    if value is None and most is None:
        return f"at least {least:,}" if least else NOT_KNOWN
    bounds = f"{least or 0:,} to {'?' if most is None else f'{most:,}'}"
    if value is None:
        return bounds
    return f"{value:,}" if least == most else f"{value:,} ({bounds})"


def open_incidents(critical: int, warning: int, info: int) -> str:
    """Format the number of open incidents by severity."""
    counts = (("critical", critical), ("warning", warning), ("info", info))
    return ", ".join(f"{count} {name}" for name, count in counts if count)


def yes_no(value: bool | None) -> str:  # noqa: FBT001  the value to format
    """Format a truth value that may be unknown."""
    return NOT_KNOWN if value is None else "yes" if value else "no"


def kind(*, orderly: bool | None, message_model: str, consume_type: str) -> str:
    """Return how the clients of a group consume."""
    if message_model == "BROADCASTING":
        return "broadcasting"
    if consume_type == "CONSUME_ACTIVELY":
        return "pull consumer"
    return {True: "ordered", False: "concurrent", None: "unknown kind"}[orderly]


def without_owner(*, message_model: str, consume_type: str, sharing: str) -> str:
    """Return the label of a queue without a known owner, by how the clients of its group share queues.

    Args:
        message_model: the message model of the group.
        consume_type: the consume type of the group.
        sharing: `Coverage.sharing` of the group, see `expectation.division`.
    """
    if message_model == "BROADCASTING":
        return "every client"
    if sharing == "POPPED":
        return "shared"
    if consume_type == "CONSUME_ACTIVELY" or sharing in {"PROXIED", "UNLISTED"}:
        return NOT_KNOWN
    return "unassigned"


def strategy_name(java_class: str | None) -> str:
    """Return the name of an allocation strategy by its Java class."""
    return name_of_class(java_class or "") or java_class or "unknown strategy"


def trigger(code: str, client: str | None, causes: int) -> str:
    """Format the trigger of a rebalance and the number of further causes."""
    more = f" (+{causes - 1})" if causes > 1 else ""
    return f"{client or ''} {TRIGGERS.get(code, code)}".strip() + more


def cause(text: str) -> str:
    """Format a cause in the form of a row, ``CODE subject``."""
    code, _, subject = text.partition(" ")
    label = TRIGGERS.get(code, code)
    return f"{label}: {subject}" if subject else label


_BROKERS, _SPANS = 4, 8
"""Maximum brokers, and ranges of queue ids a broker, that `queue_ranges` names."""


def queue_ranges(queues: Sequence[str]) -> str:
    """Format queues (``topic@broker:id``, sorted) as ranges of ids by broker, such as ``broker-a:0-3``."""
    brokers: dict[str, list[int]] = defaultdict(list)
    for queue in queues:
        broker, _, queue_id = queue.partition("@")[2].rpartition(":")
        brokers[broker].append(int(queue_id))
    named = [f"{broker}:{_ranges(ids)}" for broker, ids in brokers.items()]
    more = f" and {len(named) - _BROKERS:,} more brokers" if len(named) > _BROKERS else ""
    return f"{', '.join(named[:_BROKERS])}{more}"


def _ranges(ids: Sequence[int]) -> str:
    spans: list[tuple[int, int]] = []
    for one in ids:
        if spans and spans[-1][1] + 1 == one:
            spans[-1] = spans[-1][0], one
        else:
            spans.append((one, one))
    named = [f"{first}" if first == last else f"{first}-{last}" for first, last in spans]
    return ",".join(named[:_SPANS]) + (",…" if len(named) > _SPANS else "")


def measured_moves(moves: int, rebalances: int, longest_ms: int | None = None) -> str:
    """Say what the expected pauses and duplicates of a prediction come from, and the longest of the pauses."""
    if not moves:
        return "No queue moved in the last 7 days: pauses and duplicates are unknown."
    one, two = ("" if number == 1 else "s" for number in (moves, rebalances))
    longest = "" if longest_ms is None else f"; the longest pause was {duration(longest_ms)}"
    return (
        f"Pauses and duplicates are as measured: {moves:,} move{one} in the group's last {rebalances:,} rebalance{two}"
        f"{longest}."
    )


def queues_per_client(sizes: Sequence[int], unassigned: int = 0) -> str:
    """Format how many queues the clients of a plan get, such as ``2 to 3; 1 idle``, and how many nobody gets."""
    span = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
    idle = sizes.count(0)
    parts = [span, *([f"{idle} idle"] if idle else []), *([f"{unassigned:,} unassigned"] if unassigned else [])]
    return "; ".join(parts)
