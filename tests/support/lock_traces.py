"""Traces of ordered groups with locks, from hooks."""

from tests.support.hook_trace import HookTrace


def ordered(at: float = 0) -> HookTrace:
    """a has 0 and 1, b has 2 and 3, by their locks."""
    return HookTrace().heart_beat(at, "a", "b").locks(at + 1, "a", 0, 1).locks(at + 1, "b", 2, 3)
