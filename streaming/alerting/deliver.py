"""Sends, each channel in a thread of its own: one that hangs holds up no other."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from typing import NamedTuple

from streaming.alerting.alert import Delivery
from streaming.alerting.channels import Channel
from streaming.alerting.channels.channel import ChannelError
from streaming.alerting.render import Texts

_QUICK_SECONDS = 0.3

Clock = Callable[[], int]
"""Now, in epoch milliseconds."""


class Result(NamedTuple):
    """How an attempt ended."""

    delivery: Delivery
    standing: bool
    """It was what stands, not news."""
    error: ChannelError | None


class Sender:
    """One message after the other to each channel."""

    def __init__(self, channels: Mapping[str, Channel], texts: Texts, clock: Clock, wake: SimpleQueue[None]) -> None:
        """Begin with nothing under way; ``wake`` gets something whenever an attempt ends."""
        self._channels = channels
        self._texts = texts
        self._clock = clock
        self._wake = wake
        self._threads = ThreadPoolExecutor(max(1, len(channels)), "channel")
        self._under_way: dict[str, Future[None]] = {}
        self._results: SimpleQueue[Result] = SimpleQueue()
        self._took: dict[str, float] = {}
        self._closing = False

    def quick(self, channel: str) -> bool:
        """Whether a channel took its last message at once."""
        return self._took.get(channel, inf) < _QUICK_SECONDS

    def busy(self, channel: str) -> bool:
        """Whether attempts are under way, or their results not taken yet."""
        return channel in self._under_way

    def start(self, channel: str, deliveries: Iterable[Delivery], *, standing: bool = False) -> None:
        """Begin to send to a channel that is not busy, in order; with the first that fails it ends."""
        future = self._threads.submit(self._send, list(deliveries), standing=standing)
        self._under_way[channel] = future
        future.add_done_callback(lambda _: self._wake.put(None))

    def ended(self) -> list[Result]:
        """The attempts that ended since the last call, those of a channel in order."""
        done = [name for name, future in self._under_way.items() if future.done()]
        results = []
        with suppress(Empty):
            while True:
                results.append(self._results.get_nowait())
        for name in done:  # whose results are all among these
            self._under_way.pop(name).result()
        return results

    def close(self) -> list[Result]:
        """Wait for the attempts that are under way, at most as long as the channels' time-outs."""
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

    def _attempt(self, delivery: Delivery, *, standing: bool) -> Result:
        channel = self._channels[delivery.channel]
        try:
            message = self._texts.message(delivery)
            (channel.stand if standing else channel.send)(message, self._clock())
        except ChannelError as error:
            return Result(delivery, standing, error)
        except Exception as error:  # noqa: BLE001  a library's fault in one channel is that channel's, and is tried again
            return Result(delivery, standing, ChannelError(type(error).__name__))
        return Result(delivery, standing, None)
