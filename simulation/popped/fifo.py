"""The block of a queue that is popped in order (ConsumerOrderInfoManager, OrderInfo).

The batch that was handed out blocks its queue until each of its messages is acknowledged, or invisible no longer.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class OrderInfo:
    """The batch of one group's queue that was handed out last; times are epoch milliseconds by the broker's clock."""

    pop_time: int
    visible_at: dict[int, int] = field(default_factory=dict)
    """By offset of a message that is not acknowledged: when it may be handed out again."""
    end: int = 0
    """The offset after the batch."""

    def blocked_until(self) -> int:
        """Return when the queue may be popped again; 0: at once."""
        return max(self.visible_at.values(), default=0)

    def acknowledge(self, offset: int, pop_time: int) -> int | None:
        """Acknowledge a message (commitAndNext).

        Returns:
            The offset to commit; None if the ack has no effect, as of another delivery than the newest.
        """
        if pop_time != self.pop_time or offset not in self.visible_at:
            return None
        del self.visible_at[offset]
        return min(self.visible_at, default=self.end)

    def change(self, offset: int, pop_time: int, visible_at: int) -> bool:
        """Set when a message may be handed out again (updateNextVisibleTime); return whether it had an effect."""
        if pop_time != self.pop_time or offset not in self.visible_at:
            return False
        self.visible_at[offset] = visible_at
        return True
