"""The messages of a group that its listeners refuse, and that come back by its retry topic (`group.retries`)."""

import msgspec

from rebalance_model.entities import MessageQueue


class Retries(msgspec.Struct, array_like=True):
    """A run of messages that come back one after the other; times are epoch milliseconds."""

    commits: dict[MessageQueue, int]
    """By queue of the retry topic, the highest commit that was counted."""
    since: int = 0
    """When the first one of the run was consumed again; 0: none was."""
    last: int = 0
    """When the last one was."""
    count: int = 0
    """How many were in the run, the first one included."""
    consumed_before: int = 0
    """The sum of the commits of the group's own topics when the run began."""
    is_much: bool = False
    """Whether they were many beside those of the topics, in this run."""
