"""Send messages, each channel in a separate thread, so that one that hangs does not block the others."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from queue import SimpleQueue
from typing import NamedTuple

from streaming.serve.alerting.alert import Delivery
from streaming.serve.alerting.channels import AlertChannel
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.render import Texts

_QUICK_SECONDS = 0.3

Clock = Callable[[], int]
"""Returns the current time in epoch milliseconds."""


class SendResult(NamedTuple):
    """The result of an attempt."""

    delivery: Delivery
    standing: bool
    """True if it was a state update, not a new message."""
    error: ChannelError | None


class ChannelSender:
    """Sends the messages of each channel in order."""

    def __init__(
        self, channels: Mapping[str, AlertChannel], texts: Texts, clock: Clock, wake: SimpleQueue[None]
    ) -> None:
        """Begin idle; ``wake`` gets an item whenever an attempt ends."""
        self._channels = channels
        self._texts = texts
        self._clock = clock
        self._wake = wake
        self._threads = ThreadPoolExecutor(max(1, len(channels)), "channel")
        self._under_way: dict[str, Future[None]] = {}
        self._results: SimpleQueue[SendResult] = SimpleQueue()
        self._took: dict[str, float] = {}
        self._closing = False

    def quick(self, channel: str) -> bool:
        """Return whether a channel accepted its last message quickly."""
        return self._took.get(channel, inf) < _QUICK_SECONDS

    def busy(self, channel: str) -> bool:
        """Return whether attempts are in progress or their results not taken yet."""
        return channel in self._under_way

    def start(self, channel: str, deliveries: Iterable[Delivery], *, standing: bool = False) -> None:
        """Start sending to an idle channel, in order, until one fails."""
        future = self._threads.submit(self._send, list(deliveries), standing=standing)
        self._under_way[channel] = future
        future.add_done_callback(lambda _: self._wake.put(None))

    def ended(self) -> list[SendResult]:
        """Return the attempts that ended since the last call, in order for each channel."""
        done = [name for name, future in self._under_way.items() if future.done()]
        results = [self._results.get() for _ in range(self._results.qsize())]
        for name in done:  # whose results are all among these
            self._under_way.pop(name).result()
        return results

    def close(self) -> list[SendResult]:
        """Wait for the attempts in progress, at most for the timeouts of the channels."""
        self._closing = True
        self._threads.shutdown(wait=True, cancel_futures=False)
        results = self.ended()
        for channel in self._channels.values():
            channel.close()
        return results

    def _send(self, deliveries: list[Delivery], *, standing: bool) -> None:
        for delivery in deliveries:
            begun = time.monotonic()
            result = self._attempt(delivery, standing=standing)
            self._took[delivery.channel] = time.monotonic() - begun
            self._results.put(result)
            self._wake.put(None)
            if result.error is not None or self._closing:
                return

    def _attempt(self, delivery: Delivery, *, standing: bool) -> SendResult:
        channel = self._channels[delivery.channel]
        try:
            message = self._texts.message(delivery)
            (channel.stand if standing else channel.send)(message, self._clock())
        except ChannelError as error:
            return SendResult(delivery, standing, error)
        except Exception as error:  # noqa: BLE001  an error in one channel's library affects that channel alone, and is retried
            return SendResult(delivery, standing, ChannelError(type(error).__name__))
        return SendResult(delivery, standing, None)
