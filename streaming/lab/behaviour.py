"""How the listener of a consumer misbehaves on command."""

from threading import Condition

from streaming.lab.control import INVISIBLE_MS, ConsumerOrders, Queue, Report, report

_SLOW_SECONDS = INVISIBLE_MS / 1000 + 10  # by then the broker has given the message to others


class Behaviour:
    """How the listener handles a message; called by many consume threads at once."""

    def __init__(self, orders: ConsumerOrders) -> None:
        self._orders = orders
        self._chosen: tuple[Queue, int] | str | None = None
        self._changed = Condition()

    def change(self, orders: ConsumerOrders) -> None:
        """Apply new orders at once, even in a thread that hangs."""
        with self._changed:
            self._orders = orders
            if not (orders.poison or orders.slow):
                self._chosen = None
            self._changed.notify_all()

    def accepts(self, queue: Queue, offset: int, message_id: str = "") -> bool:
        """Return whether a message is consumed; returns late if the listener hangs or is slow.

        Args:
            queue: its queue.
            offset: its offset there.
            message_id: its id. A message that was popped comes back with it from another place, the retry topic; one
                that was pulled is another message there.
        """
        message = message_id if message_id and self._orders.client != "pull" else (queue, offset)
        with self._changed:
            if self._is_meant(queue, wanted=self._orders.hang):
                report(Report("hangs", queues=[queue], remark=f"offset {offset}"))
                self._changed.wait_for(lambda: not self._is_meant(queue, wanted=self._orders.hang))
            if self._chosen is None and self._is_meant(queue, wanted=self._orders.poison or self._orders.slow):
                self._chosen = message
                event = "poisoned" if self._orders.poison else "slowed"
                report(Report(event, queues=[queue], remark=f"offset {offset}"))
            if self._orders.slow and self._chosen == message:
                self._changed.wait_for(lambda: not self._orders.slow, _SLOW_SECONDS)
            if self._orders.no_ack:
                report(Report("withholds", queues=[queue], remark=f"offset {offset}"))
            return not (self._orders.no_ack or (self._orders.poison and self._chosen == message))

    def _is_meant(self, queue: Queue, *, wanted: bool) -> bool:
        return wanted and self._orders.queue_id in (None, queue.queue_id) and self._orders.broker in ("", queue.broker)
