"""Bound how far a client's or a broker's clock is off the collector's, from stamps in its answers alone.

A stamp that is newer than all stamps of the answer before was made after that answer was requested, and before this one
came: so the client's clock minus the collector's lies between two numbers, whatever the age of the stamp. Further
answers narrow the bounds until one contradicts: then a clock was set, and the bounds are those of that answer.

A broker's answer reports when it stored the last message of each queue that the group has consumed (OffsetWrapper's
lastTimestamp), by its own clock. For a message newer than the answer before, that is such a stamp.
"""

from rebalance_model.observe.state import ClientView
from rebalance_model.observe.state.clocks import Bounds


def bounds(former: ClientView | None, newest: int, answered: int) -> Bounds | None:
    """Return the bounds of the client's clock minus the collector's, milliseconds; None: unknown.

    Args:
        former: the client's former view.
        newest: the newest stamp in its answer, by its clock.
        answered: when that answer came, by the collector's clock.
    """
    if former is None or not former.client_now or newest <= former.client_now:
        return former.skew if former is not None else None
    return narrowed(former.skew, newest - answered, newest - former.asked_at_answer)


def narrowed(former: Bounds | None, low: int, high: int) -> Bounds:
    """Return the intersection of two bounds; if it is empty, the bounds of the later answer."""
    if former is not None and max(low, former[0]) <= min(high, former[1]):
        return max(low, former[0]), min(high, former[1])
    return low, high
