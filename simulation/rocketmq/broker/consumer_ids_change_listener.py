"""Determine which members the broker notifies of a membership change (DefaultConsumerIdsChangeListener)."""

from collections.abc import Iterable

import msgspec

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_manager import AnyConsumerGroupEvent, MemberChange

FLUSH_DELAY = 30_000
"""Time from the broker's start to the first flush of batched notifications; milliseconds."""
FLUSH_PERIOD = 15_000
"""The time between two flushes; milliseconds."""


class NotifyConsumerIdsChanged(msgspec.Struct, frozen=True):
    """One NOTIFY_CONSUMER_IDS_CHANGED (40): one-way, 10 ms timeout; one that fails is logged and lost."""

    channel: str
    group: str


class ConsumerIdsChangeListener(msgspec.Struct):
    """Turns CHANGE into notifications, at once or batched; the other events notify no consumer.

    In a batch the last list of channels counts, so a member that joined and left between two flushes causes one
    notification of each member, and that of a channel that was closed since is lost. In Java a newer CHANGE of a
    group also ends a loop over its channels that still runs on another thread.
    """

    config: BrokerConfig = BrokerConfig()
    pending: dict[str, tuple[str, ...]] = {}
    """The content of the next flush: the channels of each group."""

    def handle(self, events: Iterable[AnyConsumerGroupEvent]) -> list[NotifyConsumerIdsChanged]:
        """Return the notifications that go out at once."""
        sent: list[NotifyConsumerIdsChanged] = []
        for event in events:
            if isinstance(event, MemberChange) and self.config.notify_consumer_ids_changed_enable:
                if self.config.real_time_notify_consumer_change:
                    sent += _notifications(event.group, event.channels)
                else:
                    self.pending[event.group] = event.channels
        return sent

    def flush(self) -> list[NotifyConsumerIdsChanged]:
        """Return the batched notifications (notifyConsumerChange, every `FLUSH_PERIOD` after `FLUSH_DELAY`)."""
        batch, self.pending = self.pending, {}
        return [notification for group, channels in batch.items() for notification in _notifications(group, channels)]


def _notifications(group: str, channels: tuple[str, ...]) -> list[NotifyConsumerIdsChanged]:
    return [NotifyConsumerIdsChanged(channel, group) for channel in channels]
