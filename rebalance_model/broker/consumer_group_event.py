"""The consumer group events that the broker sends to its listeners (ConsumerGroupEvent), and results of requests."""

import msgspec

from rebalance_model.broker.subscription import SubscriptionData


class EventClient(msgspec.Struct, frozen=True):
    """The client that an event is about."""

    channel: str
    client_id: str


class ConsumerGroupEvent(msgspec.Struct, frozen=True):
    """One call of ``ConsumerIdsChangeListener.handle``."""

    group: str


class MemberChange(ConsumerGroupEvent, frozen=True, tag="CHANGE"):
    """The members changed; the channels are those that a notification would go to."""

    channels: tuple[str, ...]


class Register(ConsumerGroupEvent, frozen=True, tag="REGISTER"):
    """A heartbeat with subscriptions came; sent for every such heartbeat, changed or not."""

    subscriptions: tuple[SubscriptionData, ...]
    client: EventClient | None
    """None in releases without client events."""


class Unregister(ConsumerGroupEvent, frozen=True, tag="UNREGISTER"):
    """The last member unregistered, or its channel was closed."""


class ClientRegister(ConsumerGroupEvent, frozen=True, tag="CLIENT_REGISTER"):
    """A channel is new in the group."""

    client: EventClient
    topics: frozenset[str]
    """The subscriptions of its heartbeat."""


class ClientUnregister(ConsumerGroupEvent, frozen=True, tag="CLIENT_UNREGISTER"):
    """A channel left the group."""

    client: EventClient
    topics: frozenset[str]
    """The topics that the group subscribes."""


AnyConsumerGroupEvent = MemberChange | Register | Unregister | ClientRegister | ClientUnregister


class Outcome(msgspec.Struct, frozen=True):
    """The result of one operation of the `ConsumerManager`."""

    changed: bool
    """The return value of the Java method: whether members or topics changed (register), or a member left (close)."""
    events: tuple[AnyConsumerGroupEvent, ...]
    """The events, in the order in which Java fires them."""
    closing: tuple[str, ...] = ()
    """Channels that the scan closes: their close events follow."""
