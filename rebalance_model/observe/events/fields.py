"""Parts that every event of the contract has: its header, its key, and the ranges of its fields (`events`)."""

from typing import Annotated, ClassVar, Literal

import msgspec

from rebalance_model.entities import NAME_CHARACTERS_MAX, TIME_MAX, Name, Natural, Time

OFFSET_MAX = 2**48 - 1
"""No queue gets as many messages. Up to it the sums and rates of thousands of queues fit into 64 bits; a client may
commit any number, up to Java's Long.MAX_VALUE."""
Offset = Annotated[int, msgspec.Meta(ge=-1, le=OFFSET_MAX)]
"""A queue offset; -1 if there is none."""
StoredOffset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
"""The offset of a message that is stored, or the one after it."""
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Difference = Annotated[int, msgspec.Meta(ge=-TIME_MAX, le=TIME_MAX)]
"""The difference of two instants, milliseconds."""
Text = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX)]
"""A name or a channel, empty if it is not reported; or a reason."""
Source = Literal["hook", "poll", "sim"]


class Part(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A value inside an event."""


class Subscription(Part, frozen=True, gc=False, kw_only=True):
    """One topic of a consumer (SubscriptionData)."""

    topic: Name
    """The topic."""
    sub_string: str | None
    """The expression; None: it was sent and can't be read."""
    expression_type: Text = "TAG"
    """TAG or SQL92 (ExpressionType)."""
    sub_version: Int64 = 0
    """A clock of the client's choice: Java counts milliseconds, Go nanoseconds."""


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    """The fields of every event.

    ``broker`` and ``broker_id`` name the replica whose view it is: 0 is the master, others are slaves, one of which may
    act as master. A hook under a controller has the id that it was given. ``source_id`` names one incarnation of a
    source (instance@start); ``seq`` rises by one for each (source_id, key), by more after a loss or where a hook had
    forgotten the group, and has a sequence of its own under the empty key. ``time`` is stamped at emission under the
    same lock as ``seq``, by a monotonic clock: it falls only where the source reports with CLOCK_STEP that it was set.
    """

    time: Time
    """When the source emitted the event, by its clock."""
    cluster: Name
    """The RocketMQ cluster's name, without a slash: that ends it in the key of a group (`decoding`)."""
    broker: Text = ""
    """The name of the broker whose view it is; empty: of none, as for a client's answer."""
    broker_id: Natural = 0
    """The replica of this broker: 0 is the master."""
    source: Source
    """The kind of the source: a broker's hook, a collector that polls, or a simulation."""
    source_id: Name
    """One incarnation of the source: instance@start."""
    seq: Natural
    """The event's number, by source_id and key: a gap is a loss."""

    BROADCAST: ClassVar[bool] = False
    """True if the event goes, without a key, to every partition."""


class GroupEvent(Event, frozen=True, gc=False, kw_only=True):
    """An event of one consumer group; its key is ``cluster/group``."""

    group: Name
    """The consumer group."""


class BrokerGroupEvent(GroupEvent, frozen=True, gc=False, kw_only=True):
    """An event of one consumer group at one broker, which names the group's queues and views in the state."""

    broker: Name
    """The name of the broker whose view it is."""
