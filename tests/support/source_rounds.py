"""Rounds of polls of two healthy members, or of a broker that does not answer."""

from tests.support.trace import Member, Trace, holding

TWO = {"a": holding(0, 1), "b": holding(2, 3)}
OFFSETS = dict.fromkeys(range(4), (100, 100))


def rounds(trace: Trace, *times: float, members: dict[str, Member] | None = TWO) -> Trace:
    for at in times:
        trace.poll(at, members, None if members is None else OFFSETS)
    return trace
