"""Sends, each channel in a thread of its own: one that hangs holds up no other."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple

from streaming.alerting.alert import Delivery
from streaming.alerting.channels import Channel
from streaming.alerting.channels.channel import ChannelError
from streaming.alerting.render import Texts

Clock = Callable[[], int]
"""Now, in epoch milliseconds."""


class Result(NamedTuple):
    """How an attempt ended."""

    delivery: Delivery
    standing: bool
    """It was what stands, not news."""
    error: ChannelError | None


class Sender:
    """One message at a time to each channel."""

    def __init__(self, channels: Mapping[str, Channel], texts: Texts, clock: Clock, wake: SimpleQueue[None]) -> None:
        """Begin with nothing under way; ``wake`` gets something whenever an attempt ends."""
        self._channels = channels
        self._texts = texts
        self._clock = clock
        self._wake = wake
        self._threads = ThreadPoolExecutor(max(1, len(channels)), "channel")
        self._under_way: dict[str, Future[Result]] = {}

    def busy(self, channel: str) -> bool:
        """Whether an attempt is under way."""
        return channel in self._under_way

    def start(self, delivery: Delivery, *, standing: bool = False) -> None:
        """Begin an attempt at a channel that is not busy."""
        future = self._threads.submit(self._attempt, delivery, standing=standing)
        self._under_way[delivery.channel] = future
        future.add_done_callback(lambda _: self._wake.put(None))

    def ended(self) -> list[Result]:
        """The attempts that ended since the last call."""
        ended = [name for name, future in self._under_way.items() if future.done()]
        return [self._under_way.pop(name).result() for name in ended]

    def close(self) -> list[Result]:
        """Wait for what is under way, at most as long as the channels' time-outs."""
        self._threads.shutdown(wait=True, cancel_futures=False)
        results = self.ended()
        for channel in self._channels.values():
            channel.close()
        return results

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
