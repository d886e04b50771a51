"""A group's dead letters at its brokers, as these have answered (GET_TOPIC_STATS_INFO).

Offsets accumulate: an answer that shows no more than an earlier one proves that nothing was added in between, however
long the interval. So a period of growth ends with an answer, never by time alone.
"""

import msgspec


class DeadLetters(msgspec.Struct, array_like=True):
    """The offsets of one broker's dead-letter queue, and what was added to it in the present period of growth."""

    asked: int
    """When the request was sent that the last answer belongs to, epoch milliseconds."""
    time: int
    """When the last answer came."""
    min_offset: int
    max_offset: int
    added: int = 0
    """The messages that were added in the period; 0: none, or there is no period."""
    first_offset: int = 0
    """The offset of the first of them; if the topic was deleted since, where it began again."""
    added_after: int = 0
    """When the offset was last requested before the first of them was seen."""
    last_added_at: int = 0
    """When an answer last showed more than the one before."""


def added(by_broker: dict[str, DeadLetters], clear_after: int) -> dict[str, DeadLetters]:
    """Return the dead letters of each broker that got some in the present period; empty if there is none.

    The period is over when every one of these brokers has answered, more than ``clear_after`` (ms) after the last
    addition to any of them, that it has no more.
    """
    recent = {broker: one for broker, one in by_broker.items() if one.added}
    if not recent:
        return recent
    last_added_at = max(one.last_added_at for one in recent.values())
    confirmed = min(one.time for one in recent.values())
    return {} if confirmed - last_added_at > clear_after else recent
