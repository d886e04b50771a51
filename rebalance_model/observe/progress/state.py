"""The state of a group's quantities between two events.

Quantities of popped queues: what is ready, and what is in flight.

Ready is what nobody has popped, by a broker's answer. In flight is what was popped and is neither acknowledged nor
given back, by hooks (`observe.state.popped`). The lag of a queue that is not popped in order is both together: its
commit advances when messages are handed out. It is a lower bound while one of both is unknown. In order the commit
stays at the first message without an acknowledgement, and the lag is the offsets' difference, as of any other queue.

Calls that a hook has lost are not known here. A message whose ack is lost counts as in flight until its invisible time
has passed.
"""

from typing import NamedTuple

import msgspec

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import OffsetInfo, ProcessQueueInfo
from rebalance_model.observe.events.hook_events import PopMessage, PoppedEvent
from rebalance_model.observe.state import Sequence, decode_state, popped, popped_queues
from rebalance_model.observe.state.popped import PoppedQueue
from rebalance_model.observe.state.popped_queues import PoppedQueues

VERSION = 1
"""The version of the state; another one can't be read."""
REPEATED_AFTER = 60_000
"""The interval after which an unchanged value is written again; milliseconds."""


class Spacing(msgspec.Struct, array_like=True):
    """The time of the last answer of one kind, and the gaps before the last two; milliseconds."""

    answered: int
    gaps_ms: tuple[int, ...] = ()


class ClientQueue(msgspec.Struct, array_like=True):
    """The last report of a client about one queue; ``*_at`` are the latest times that its stamps can mean.

    None: it did not report the value, or one that can't be read.
    """

    cached_count: int | None = None
    commit_offset: int | None = -1
    lock_at_client: int | None = None
    pull_at_client: int | None = None
    consume_at_client: int | None = None
    lock_at: int = 0
    pull_at: int = 0
    consume_at: int = 0

    def take(self, info: ProcessQueueInfo, behind_ms: int, *, ordered: bool | None) -> bool:
        """Take what a client reports of the queue now, with its stamps converted to the collector's time.

        Args:
            info: the process queue in the answer.
            behind_ms: how far its stamps are at most behind the collector's time; one may be centuries after another.
            ordered: whether it locks its queues.

        Returns:
            Whether the client itself reports another value than before.
        """
        locked, pulled, consumed = info.lock_time, info.pull_time, info.consume_time
        cached, commit = info.cached_count, info.commit_offset
        differs = cached != self.cached_count or commit != self.commit_offset
        lock_at = locked + behind_ms if ordered and info.locked and locked is not None else 0
        pull_at = pulled + behind_ms if pulled else 0
        consume_at = consumed + behind_ms if consumed else 0
        if locked != self.lock_at_client:
            self.lock_at_client, differs = locked, True
        elif 0 < self.lock_at < lock_at:
            lock_at = self.lock_at
        if pulled != self.pull_at_client:
            self.pull_at_client, differs = pulled, True
        elif 0 < self.pull_at < pull_at:
            pull_at = self.pull_at
        if consumed != self.consume_at_client:
            self.consume_at_client, differs = consumed, True
        elif 0 < self.consume_at < consume_at:
            consume_at = self.consume_at
        self.cached_count, self.commit_offset = cached, commit
        self.lock_at = lock_at if lock_at > 0 else 0
        self.pull_at = pull_at if pull_at > 0 else 0
        self.consume_at = consume_at if consume_at > 0 else 0
        return differs


class ClientProgress(msgspec.Struct, array_like=True):
    """The last report of a client about its queues, and when all of it was last written."""

    repeated_at: int = 0
    queues: dict[tuple[str, str, int], ClientQueue] = {}
    """By broker, topic and queue id."""
    popped: tuple[str, ...] = ()
    """The topics that it pops."""


class HookQueueProgress(msgspec.Struct, array_like=True):
    """The quantities of one queue that a hook saw; -1 and 0: nothing yet."""

    seen_at: int = 0
    commit_offset: int = -1
    commit_at: int = 0
    """When the commit last changed."""
    pull_offset: int = -1
    pull_at: int = 0
    lock_at: int = 0
    """When the broker last granted its lock."""
    broker_offset: int = -1
    broker_offset_at: int = 0


class HookProgress(msgspec.Struct, array_like=True):
    """The quantities that a broker's hook saw of its queues, and when they were last written."""

    written_at: int = 0
    repeated_at: int = 0
    queues: dict[tuple[str, int], HookQueueProgress] = {}
    """By topic and queue id."""
    seen_at: int = 0
    """When it last saw any of them; epoch milliseconds."""
    unwritten: dict[tuple[str, int], None] = {}
    """The queues that it has seen since its last row, in that order: a set has another order in each process."""


class ProgressState(msgspec.Struct):
    """The quantities of one group between answers."""

    version: int = VERSION
    sequences: dict[str, Sequence] = {}
    """The position to which each source was read, by its instance: a second copy of an event makes no second row."""
    spacings: dict[str, Spacing] = {}
    """By source instance, kind, broker and client or topic."""
    committed: dict[str, dict[str, set[int]]] = {}
    """Queues that have ever had a commit, by broker and topic: their offset 0 is a commit."""
    clients: dict[str, ClientProgress] = {}
    hooks: dict[str, HookProgress] = {}
    """By broker."""
    first_offsets: dict[str, dict[str, dict[int, int]]] = {}
    """The first message that waits at a client, of queues without a commit; by broker, topic and queue id."""
    popped: PoppedQueues | None = None
    """The queues that clients pop, by hooks; None: no call about any was seen."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ProgressState)


def encode_progress(state: ProgressState) -> bytes:
    """Return the state as MessagePack."""
    return _ENCODER.encode(state)


def decode_progress(blob: bytes) -> ProgressState:
    """Return the state from its MessagePack.

    Raises:
        UnreadableStateError: the blob is not one of this version.
    """
    return decode_state(_DECODER, blob, VERSION)


def behind_by(ahead: int | None, behind: int | None) -> int | None:
    """Return how many messages lie between two offsets; None if one is unknown, or the second is ahead.

    A commit beyond the newest offset is one of another log: its topic was created again, or messages were lost.
    """
    return ahead - behind if ahead is not None and behind is not None and ahead >= behind else None


class PoppedQuantities(NamedTuple):
    """The quantities of a popped queue at an instant; None: unknown."""

    lag: int | None
    lag_is_at_least: bool = True
    in_flight: int | None = None
    in_flight_since: int | None = None
    ready: int | None = None
    next: int | None = None
    """Messages of which the first one is the next to be consumed: in order that may be one in flight."""


def on_call(state: ProgressState, event: PoppedEvent) -> PoppedQueues:
    """Process a call of a consumer that pops; return the group's popped queues."""
    pops = state.popped
    if pops is None:
        pops = state.popped = PoppedQueues()
    popped_queues.fold(pops, event, by_proxy=True)  # a client's own refusal as late as that is rare
    if isinstance(event, PopMessage):
        popped_queues.forget_unused(pops, event.time)
    return pops


def may_be_popped(state: ProgressState) -> bool:
    """Return whether any queue of the group is popped, by hooks or by a client's last answer."""
    return state.popped is not None or any(client.popped for client in state.clients.values())


def at_answer(state: ProgressState, group: str, info: OffsetInfo, at: int) -> PoppedQuantities | None:
    """Return the quantities of a queue by a broker's answer; None if nobody pops it, as far as is known."""
    offsets = {"commit_offset": info.consumer_offset, "pull_offset": info.pull_offset}
    queue = popped_queues.on_offsets(state.popped, group, info.mq, at, **offsets) if state.popped is not None else None
    popped_to = max(offsets.values())
    if queue is None:
        is_popped = any(info.mq.topic in client.popped for client in state.clients.values())
        ready = behind_by(info.broker_offset, popped_to) if popped_to >= 0 else None
        return PoppedQuantities(lag=ready, ready=ready, next=ready) if is_popped else None
    if queue.order:
        lag, count = behind_by(info.broker_offset, info.consumer_offset), popped.in_flight(queue, at)
        ready = max(0, lag - count) if lag is not None and count is not None else None
        return PoppedQuantities(lag, False, count, popped.in_flight_since(queue, at), ready, lag)  # noqa: FBT003  a tuple
    ready = behind_by(info.broker_offset, popped_to) if popped_to >= 0 else None
    return _with_in_flight(queue, ready, at)


def by_hook(pops: PoppedQueues, broker: str, topic: str, queue_id: int, at: int) -> PoppedQuantities | None:
    """Return the quantities of a queue by hooks alone, which do not show what is ready; None if nobody pops it."""
    queue = pops.queues.get(MessageQueue(topic, broker, queue_id))
    return _with_in_flight(queue, None, at) if queue is not None else None


def _with_in_flight(queue: PoppedQueue, ready: int | None, at: int) -> PoppedQuantities:
    popped.give_back(queue, at)
    count = popped.in_flight(queue, at)
    parts = [one for one in (ready, count) if one is not None]
    at_least = len(parts) < 2 or popped.is_at_least(queue, at)
    since = popped.in_flight_since(queue, at)
    return PoppedQuantities(sum(parts) if parts else None, at_least, count, since, ready, ready)
