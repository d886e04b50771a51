"""The state of a group's quantities between two events."""

import msgspec

from rebalance_model.observe.events import ProcessQueueInfo
from rebalance_model.observe.state import Sequence, decode_state
from rebalance_model.observe.state.popped_queues import PoppedQueues

VERSION = 1
"""Of the state; another one can't be read."""
REPEATED_AFTER = 60_000
"""The interval after which an unchanged value is written again; milliseconds."""


class Spacing(msgspec.Struct, array_like=True):
    """When the last answer of one kind came, and the gaps before the last two; milliseconds."""

    answered: int
    gaps_ms: tuple[int, ...] = ()


class ClientQueue(msgspec.Struct, array_like=True):
    """What a client last reported of one queue; ``*_at`` are the latest times that its stamps can mean.

    None: it did not report the value, or one that can't be read.
    """

    cached_count: int | None
    commit_offset: int | None
    lock_at_client: int | None
    pull_at_client: int | None
    consume_at_client: int | None
    lock_at: int
    pull_at: int
    consume_at: int

    def differs(self, info: ProcessQueueInfo) -> bool:
        """Return whether the client itself reports another value."""
        return (
            self.pull_at_client != info.pull_time
            or self.commit_offset != info.commit_offset
            or self.cached_count != info.cached_count
            or self.consume_at_client != info.consume_time
            or self.lock_at_client != info.lock_time
        )


class ClientProgress(msgspec.Struct, array_like=True):
    """What a client last reported of its queues, and when all of it was last written."""

    repeated_at: int = 0
    queues: dict[tuple[str, str, int], ClientQueue] = {}
    """By broker, topic and queue id."""
    popped: tuple[str, ...] = ()
    """The topics that it pops."""


class HookQueueProgress(msgspec.Struct, array_like=True):
    """What a hook saw of one queue; -1 and 0: nothing yet."""

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
    """What a broker's hook saw of its queues, and when it was last written."""

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
    """How far each source was read, by its instance: a second copy of an event makes no second row."""
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
