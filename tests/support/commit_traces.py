"""Traces of a queue and its commits, from hooks."""

from tests.support.hook_trace import HookTrace


def concurrent(pulled: int = 100) -> HookTrace:
    return HookTrace().heart_beat(0, "a", "b").asks(1, "a", 0).pulls(2, "a", 0, offset=pulled)


def thawed() -> HookTrace:
    """Return a trace as of a real cluster: a is frozen at 305 and thaws at 465; b has owned its queue since 423.4."""
    trace = HookTrace().heart_beat(277.1, "a", "b").locks(287.1, "a", 0)
    trace.pulls(304, "a", 0, offset=361).commits(304.5, "a", 0, 361)
    trace.heart_beat(400, "b").lists(423, "b").locks(423.4, "b", 0).asks(423.5, "b", 0)
    trace.pulls(424, "b", 0, offset=361).commits(440, "b", 0, 441).commits(464.4, "b", 0, 558)
    return trace.heart_beat(465, "a", number=1).commits(465.01, "a", 0, 361, number=1)
