"""How far a client's or a broker's clock may be off the collector's, from stamps in its answers alone.

A stamp that is newer than all of the answer before was made after that answer was asked for, and before this one came:
so the client's clock less the collector's lies between two numbers, whatever the age of the stamp. Answers narrow them
down, until one contradicts: then a clock was set, and the numbers are those of that answer.

A broker's answer says when it stored the last message that the group has consumed of each queue (OffsetWrapper's
lastTimestamp), by its own clock. Of a message that was not there yet in the answer before, that is such a stamp.
"""

from rebalance_model.observe.clock_bounds import Bounds
from rebalance_model.observe.state import ClientView


def bounds(known: ClientView | None, newest: int, answered: int) -> Bounds | None:
    """At least and at most so many milliseconds; None: not known.

    Args:
        known: what the client said before.
        newest: the newest stamp in its answer, by its clock.
        answered: when that answer came, by the collector's clock.
    """
    if known is None or not known.client_now or newest <= known.client_now:
        return known.skew if known is not None else None
    return narrowed(known.skew, newest - answered, newest - known.asked_at_answer)


def narrowed(known: Bounds | None, low: int, high: int) -> Bounds:
    """What two answers say together; where they contradict, what the later one says."""
    if known is not None and max(low, known[0]) <= min(high, known[1]):
        return max(low, known[0]), min(high, known[1])
    return low, high
