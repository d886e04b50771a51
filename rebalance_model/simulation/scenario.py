"""A scenario: a cluster, and the story of what happens to it. Times are seconds from the start."""

from typing import Annotated, Literal

import msgspec

from rebalance_model.entities import Name, Natural

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
StrategyName = Literal["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a scenario file."""


class BrokerSpec(_Part, frozen=True, kw_only=True):
    """A broker."""

    name: Name
    clock_offset_ms: int = 0
    async_send_enable: bool = True
    """Whether it answers a send after the call, as 5.x does by default: then its hook sees no queue's newest offset."""


class TopicSpec(_Part, frozen=True, kw_only=True):
    """A topic, on every broker."""

    name: Name
    queues: Count
    """On each broker."""
    messages_per_second: Seconds = 0
    """To the whole topic, its queues in turn."""


class ConsumerSpec(_Part, frozen=True, kw_only=True):
    """How consumers are made; a step of the story may make one that differs."""

    ordered: bool = False
    topics: tuple[Name, ...] = ()
    """Empty in a step: those of the group."""
    expression: str = "*"
    strategy: StrategyName = "AVG"
    listener_ms: Positive = 5
    """What the listener takes for a message."""
    pull_interval_ms: Natural = 0
    clock_offset_ms: int = 0
    client_id: str = ""
    """Its id after the address; empty: its name. Two processes of one id are a mistake that a step can make."""


class GroupSpec(ConsumerSpec, frozen=True, kw_only=True):
    """A consumer group."""

    name: Name
    consumers: Natural
    """So many start with the scenario: `called`-1, `called`-2, …"""
    called: str = ""
    """By default the group's name."""
    start_within: Positive = 1
    """The consumers start one after the other within so long."""


class Step(_Part, frozen=True, kw_only=True, tag_field="do"):
    """Something that is done to the cluster."""

    at: Seconds

    @property
    def subject(self) -> str:
        """What it is done to."""
        return ""


class Lasting(Step, frozen=True, kw_only=True):
    """Something that is undone again."""

    lasts: Positive | None = None
    """None: to the end."""


class Join(Lasting, frozen=True, kw_only=True, tag="join"):
    """A new consumer; one that lasts leaves cleanly."""

    who: Name
    group: Name
    ordered: bool | None = None
    """These are the group's own where they are not given; a mistake differs from it."""
    topics: tuple[Name, ...] | None = None
    expression: str | None = None
    strategy: StrategyName | None = None
    listener_ms: Positive | None = None
    pull_interval_ms: Natural | None = None
    clock_offset_ms: int | None = None
    client_id: Name | None = None

    @property
    def subject(self) -> str:
        """The consumer."""
        return self.who


class Client(Lasting, frozen=True, kw_only=True):
    """Something that is done to a consumer."""

    who: Name

    @property
    def subject(self) -> str:
        """The consumer."""
        return self.who


class Leave(Client, frozen=True, kw_only=True, tag="leave"):
    """It shuts down cleanly; then it is started again."""


class Kill(Client, frozen=True, kw_only=True, tag="kill"):
    """SIGKILL; then it is started again."""


class Freeze(Client, frozen=True, kw_only=True, tag="freeze"):
    """SIGSTOP, then SIGCONT."""


class Hang(Client, frozen=True, kw_only=True, tag="hang"):
    """Its listener blocks."""

    queue: Natural | None = None
    """None: on every queue."""


class Poison(Client, frozen=True, kw_only=True, tag="poison"):
    """Its listener refuses one message, again and again."""

    queue: Natural | None = None


class Partition(Client, frozen=True, kw_only=True, tag="partition"):
    """Nothing gets through between it and a broker, or the ``name server``; or all of them and the name server."""

    broker: str = ""


class AddQueues(Lasting, frozen=True, kw_only=True, tag="add-queues"):
    """A topic grows on every broker; then it shrinks again."""

    topic: Name
    queues: Count

    @property
    def subject(self) -> str:
        """The topic."""
        return self.topic


class StopBroker(Lasting, frozen=True, kw_only=True, tag="stop-broker"):
    """A broker shuts down; then it boots."""

    broker: Name

    @property
    def subject(self) -> str:
        """The broker."""
        return self.broker


class LoseNotifications(Lasting, frozen=True, kw_only=True, tag="lose-notifications"):
    """Brokers' messages to members get lost."""

    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1


class HookFull(Lasting, frozen=True, kw_only=True, tag="hook-full"):
    """The disk that a broker's hook writes to is full: what the hook sees is lost."""

    broker: Name

    @property
    def subject(self) -> str:
        """The broker."""
        return self.broker


class CollectorAway(Lasting, frozen=True, kw_only=True, tag="collector-away"):
    """The poll collector is killed; then it is started again."""


class Rollout(Step, frozen=True, kw_only=True, tag="rollout"):
    """The consumers of a group are restarted cleanly, one after the other."""

    group: Name
    every: Positive = 30
    down: Positive = 10

    @property
    def subject(self) -> str:
        """The group."""
        return self.group


AnyStep = (
    Join
    | Leave
    | Kill
    | Freeze
    | Hang
    | Poison
    | Partition
    | AddQueues
    | StopBroker
    | LoseNotifications
    | HookFull
    | CollectorAway
    | Rollout
)


class ScenarioError(ValueError):
    """A scenario that can't be: says what is wrong with it."""


class Scenario(_Part, frozen=True, kw_only=True):
    """The whole file."""

    title: str
    minutes: Positive
    topics: tuple[TopicSpec, ...]
    groups: tuple[GroupSpec, ...]
    brokers: tuple[BrokerSpec, ...] = (BrokerSpec(name="broker-a"),)
    story: tuple[AnyStep, ...] = ()


def read(told: object) -> Scenario:
    """A scenario of what a file's parser gives.

    Raises:
        ScenarioError: a field is missing, unknown or of the wrong type.
    """
    try:
        return msgspec.convert(told, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(str(error)) from None
