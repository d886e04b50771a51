"""A group's dead letters at one broker, as the broker has answered (GET_TOPIC_STATS_INFO)."""

import msgspec


class DeadLetters(msgspec.Struct, array_like=True):
    """The offsets of the dead-letter queue, and what was added to it in the present period of growth.

    A period of growth ends when nothing was added for long enough (`group.dead_letters`).
    """

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
