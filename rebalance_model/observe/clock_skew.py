"""How far a client's clock may be off the collector's, from stamps in its answers alone.

A stamp that is newer than all of the answer before was made after that answer was asked for, and before this one came:
so the client's clock less the collector's lies between two numbers, whatever the age of the stamp. Answers narrow them
down, until one contradicts: then a clock was set, and the numbers are those of that answer.
"""

from rebalance_model.observe.state import ClientView

Bounds = tuple[int, int]


def bounds(known: ClientView | None, newest: int, answered: int) -> Bounds | None:
    """At least and at most so many milliseconds; None: not known.

    Args:
        known: what the client said before.
        newest: the newest stamp in its answer, by its clock.
        answered: when that answer came, by the collector's clock.
    """
    if known is None or not known.client_now or newest <= known.client_now:
        return known.skew if known is not None else None
    low, high = newest - answered, newest - known.asked_at_answer
    if known.skew is not None and max(low, known.skew[0]) <= min(high, known.skew[1]):
        return max(low, known.skew[0]), min(high, known.skew[1])
    return low, high
