"""Misbehaviour of a consumer's listener, on command."""

from threading import Condition

from streaming.lab.control import INVISIBLE_MS, ClientReport, ConsumerOrders, LabQueue, report

_SLOW_SECONDS = INVISIBLE_MS / 1000 + 10  # by then the broker has given the message to others


class ListenerBehaviour:
    """The way in which the listener handles a message; called by many consume threads at once."""

    def __init__(self, orders: ConsumerOrders) -> None:
        self._orders = orders
        self._chosen: tuple[LabQueue, int] | None = None
        self._changed = Condition()

    def change(self, orders: ConsumerOrders) -> None:
        """Apply new orders at once, even in a thread that hangs."""
        with self._changed:
            self._orders = orders
            if not (orders.poison or orders.slow):
                self._chosen = None
            self._changed.notify_all()

    def accepts(self, queue: LabQueue, offset: int, sent: int = 0) -> bool:
        """Return whether a message is consumed; returns late if the listener hangs or is slow.

        Args:
            queue: its queue.
            offset: its offset there.
            sent: when it was sent, epoch milliseconds; a message that comes back from the retry topic keeps it.
        """
        with self._changed:
            if self._is_meant(queue, ordered=self._orders.hang):
                report(ClientReport("hangs", queues=[queue], remark=f"offset {offset}"))
                self._changed.wait_for(lambda: not self._is_meant(queue, ordered=self._orders.hang))
            is_chosen = self._choose(queue, offset, sent)
            if is_chosen and self._orders.slow:
                self._changed.wait_for(lambda: not self._orders.slow, _SLOW_SECONDS)
            if self._orders.no_ack:
                report(ClientReport("withholds", queues=[queue], remark=f"offset {offset}"))
            return not (self._orders.no_ack or (self._orders.poison and is_chosen))

    def _choose(self, queue: LabQueue, offset: int, sent: int) -> bool:
        """Return whether it is a message to which poison and slow apply; report the first one."""
        orders = self._orders
        if not (orders.poison or orders.slow):
            return False
        if orders.sent_until and not orders.sent_from <= sent < orders.sent_until:
            return False
        if self._chosen is None and self._is_meant(queue, ordered=True):
            self._chosen = (queue, offset)
            event = "poisoned" if orders.poison else "slowed"
            report(ClientReport(event, queues=[queue], remark=f"offset {offset}"))
        return bool(orders.sent_until) or self._chosen == (queue, offset)

    def _is_meant(self, queue: LabQueue, *, ordered: bool) -> bool:
        return ordered and self._orders.queue_id in (None, queue.queue_id) and self._orders.broker in ("", queue.broker)
