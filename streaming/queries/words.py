"""What the tables' codes, times and numbers are called on a screen."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from rebalance_model.allocation import strategy_of_class

NOT_KNOWN = "-"
"""Never 0, never empty."""

TRIGGERS = {
    "CLIENT_JOINED": "joined",
    "CLIENT_LEFT": "left",
    "CLIENT_UNREGISTERED": "unregistered",
    "CONNECTION_CLOSED": "connection closed",
    "HEARTBEAT_EXPIRED": "dropped by the broker: no heartbeat for 120 s",
    "CLIENT_RESTARTED": "restarted",
    "STRATEGY_CHANGED": "declares another strategy",
    "CONNECTIONS_CHANGED": "changed its connections",
    "SUBSCRIPTION_CHANGED": "the subscribed topics changed",
    "ROUTE_CHANGED": "the topic's queues changed",
    "BROKER_LOST": "a broker went",
    "BROKER_BACK": "a broker came back",
    "BROKER_RESTARTED": "a broker restarted",
    "LOCK_RETRY": "was granted a lock that it had been refused",
    "PULL_EXPIRED_REPAIR": "dropped and re-acquired the queue (pull expired)",
    "UNEXPLAINED": "queues moved, no cause seen",
}
"""Why a rebalance began; after the name of the client that did it, if one did."""

GAINED = {
    "FIRST_SEEN": "it had it when observation began",
    "LOCK_GRANTED": "the broker granted it the lock",
    "OFFSET_ASKED": "it asked for the queue's offset",
    "PULLED": "it pulled from the queue",
    "ANSWER": "it says so",
}
"""What showed that a client has a queue."""

LOST = {
    "UNLOCKED": "it unlocked the queue",
    "LEFT": "it is no member any more",
    "GONE": "the broker finds it no more",
    "ANSWER_WITHOUT": "it gave the queue up",
    "DROPPED": "it dropped the queue",
    "TAKEN_OVER": "another holds it",
}
"""What showed that a client has a queue no more."""

_EARLIEST_STAMP = 1_000_000_000_000
"""A number in evidence that is as large is a time."""


def queue_name(topic: str, broker: str, queue_id: int) -> str:
    """A queue as everything here names it."""
    return f"{topic}@{broker}:{queue_id}"


def clock(time_ms: int | None) -> str:
    """A time of day, UTC."""
    return NOT_KNOWN if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%H:%M:%S")


def moment(time_ms: int | None, now: int) -> str:
    """An instant, UTC: with its date where that is not today's."""
    if time_ms is None:
        return NOT_KNOWN
    said, today = datetime.fromtimestamp(time_ms / 1000, UTC), datetime.fromtimestamp(now / 1000, UTC)
    if said.date() == today.date():
        return said.strftime("%H:%M:%S")
    return said.strftime("%m-%d %H:%M:%S" if said.year == today.year else "%Y-%m-%d %H:%M:%S")


def duration(milliseconds: int | None) -> str:
    """A span in the unit that fits."""
    if milliseconds is None:
        return NOT_KNOWN
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3_600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"


def pause(milliseconds: int | None, *, at_most: bool) -> str:
    """How long a queue was not consumed; by polls alone that is a bound."""
    return f"≤ {duration(milliseconds)}" if at_most and milliseconds is not None else duration(milliseconds)


def move_kind(kind: str) -> str:
    """What a rebalance did to a queue."""
    return {"MOVED": "moved", "INTERRUPTED": "interrupted", "UNASSIGNED": "left unassigned"}[kind]


def number(value: int | None) -> str:
    """A count."""
    return NOT_KNOWN if value is None else f"{value:,}"


def total(known: int | None, unknown: int, *, at_least: bool = False) -> str:
    """A sum of which some parts are not known, or have a lower bound alone: it is at least so much."""
    return NOT_KNOWN if known is None else f"{'≥' if unknown or at_least else ''}{known:,}"


def quantity(text: str, age_ms: int | None, *, is_stale: bool, bound: Literal["≥", "≤", ""] = "") -> str:
    """A number as it was observed: marked where that is too long ago to speak of the instant.

    Args:
        text: the number with its unit, or `NOT_KNOWN`.
        age_ms: how long ago it was observed.
        is_stale: whether that is more than two intervals of its source.
        bound: whether the number is a bound.
    """
    if text == NOT_KNOWN:
        return text
    return f"{bound}{text}" + (f" (stale, {duration(age_ms)} old)" if is_stale else "")


def estimate(value: int | None, least: int | None, most: int | None) -> str:
    """An estimate with its bounds, where it has any."""
    if value is None:
        return NOT_KNOWN if least is None else f"{least} to {'?' if most is None else most}"
    return str(value) if least == most else f"{value} ({least} to {'?' if most is None else most})"


def open_incidents(critical: int, warning: int, info: int) -> str:
    """How many of each severity are open."""
    counts = (("critical", critical), ("warning", warning), ("info", info))
    return ", ".join(f"{count} {name}" for name, count in counts if count)


def yes_no(value: bool | None) -> str:  # noqa: FBT001  that is what it is about
    """Of what is true, false or not known."""
    return NOT_KNOWN if value is None else "yes" if value else "no"


def kind(*, orderly: bool | None, message_model: str, consume_type: str) -> str:
    """How the clients of a group consume."""
    if message_model == "BROADCASTING":
        return "broadcasting"
    if consume_type == "CONSUME_ACTIVELY":
        return "pulls by itself"
    return {True: "ordered", False: "concurrent", None: "kind not known"}[orderly]


def without_owner(*, message_model: str, consume_type: str, sharing: str) -> str:
    """Return what a queue without known owner is called, by how its group's clients share the queues.

    Args:
        message_model: of the group.
        consume_type: of the group.
        sharing: of the group's coverage, see `expectation.division`.
    """
    if message_model == "BROADCASTING":
        return "every client"
    if sharing == "POPPED":
        return "shared"
    if consume_type == "CONSUME_ACTIVELY" or sharing in {"PROXIED", "UNLISTED"}:
        return NOT_KNOWN
    return "unassigned"


def strategy_name(java_class: str | None) -> str:
    """The name of the strategy that clients declare by its class."""
    known = strategy_of_class(java_class or "")
    return known.name if known else java_class or "strategy not known"


def trigger(code: str, client: str | None, causes: int) -> str:
    """Why a rebalance began, and how many causes there were beside it."""
    more = f" (+{causes - 1})" if causes > 1 else ""
    return f"{client or ''} {TRIGGERS.get(code, code)}".strip() + more


def cause(text: str) -> str:
    """A cause as a row has it, ``CODE subject``, in words."""
    code, _, subject = text.partition(" ")
    label = TRIGGERS.get(code, code)
    return f"{label}: {subject}" if subject else label


def evidence_items(evidence: Mapping[str, object], now: int) -> list[tuple[str, str]]:
    """The evidence of an incident by name: what is known of it, with units."""
    return [
        (name.removesuffix("_ms").replace("_", " "), _evidence(name, value, now))
        for name, value in evidence.items()
        if value is not None and value != ""
    ]


def _evidence(name: str, value: object, now: int) -> str:
    if isinstance(value, bool):
        return yes_no(value)
    if isinstance(value, int) and name.endswith("_ms"):
        return duration(value)
    if isinstance(value, int) and value >= _EARLIEST_STAMP and name.endswith(("_at", "since", "answered")):
        return moment(value, now)
    return str(value)
