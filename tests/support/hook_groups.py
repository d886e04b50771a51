"""Groups as hooks report them at the start: two members, ordered or concurrent."""

from tests.support.hook_trace import HookTrace
from tests.support.trace import Held, Member

LOCK_LIVES = 30
"""rebalanceLockMaxLiveTime of the client; the broker's is 60. Seconds."""


def ordered() -> HookTrace:
    """a has 0 and 1, b has 2 and 3, by their locks."""
    return HookTrace().heart_beat(0, "a", "b").locks(1, "a", 0, 1).locks(1, "b", 2, 3)


def concurrent() -> HookTrace:
    return HookTrace().heart_beat(0, "a", "b").asks(1, "a", 0, 1).asks(1, "b", 2, 3)


def concurrently(*queue_ids: int) -> Member:
    return Member(tuple(Held(q, locked=False) for q in queue_ids), orderly=False)


def expiries(trace: HookTrace) -> list[tuple[float, str, str]]:
    return [incident for incident in trace.incidents() if incident[2] == "LOCK_EXPIRED"]
