"""A scenario: a cluster, and the steps that are applied to it. Times are seconds from the start."""

from typing import Annotated, Literal

import msgspec

from rebalance_model.entities import Name, Natural
from rebalance_model.errors import ModelError

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Model = Literal["CLUSTERING", "BROADCASTING"]
Pops = Literal["", "REMOTING", "PUSH", "FIFO", "SIMPLE"]
"""The ways in which a consumer pops: as a client of the brokers whose share they compute (clientRebalance=false), or as
a push consumer, one in order, or a simple one, that speaks gRPC to a proxy. Empty: it pulls."""
StrategyName = Literal["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a scenario file."""


class BrokerSpec(_Part, frozen=True, kw_only=True):
    """A broker."""

    name: Name
    clock_offset_ms: int = 0
    async_send_enable: bool = True
    """True if it answers a send after the call, as 5.x does by default: then its hook sees no queue's newest offset."""


class TopicSpec(_Part, frozen=True, kw_only=True):
    """A topic, on every broker."""

    name: Name
    queues: Natural
    """Number of queues on each broker; 0: the cluster does not have the topic."""
    messages_per_second: Seconds = 0
    """Messages a second to the whole topic, its queues in turn."""


class ConsumerSpec(_Part, frozen=True, kw_only=True):
    """Settings of consumers; a join step may override them."""

    ordered: bool = False
    topics: tuple[Name, ...] = ()
    """Empty in a step: the group's topics."""
    expression: str = "*"
    strategy: StrategyName = "AVG"
    listener_ms: Positive = 5
    """The time that the listener takes for a message."""
    pull_interval_ms: Natural = 0
    clock_offset_ms: int = 0
    max_reconsume_times: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """The number of times that a refused message is tried again before it goes to the dead-letter topic; -1: 16 times,
    and an ordered one for ever."""
    pull_client: bool = False
    """True if it is a DefaultMQPullConsumer that has registered no topic, as of a tool under the group's name: it has
    no queues, and subscribes nothing."""
    lite_pull: bool = False
    """True if it is a DefaultLitePullConsumer that subscribes its topics: it divides the queues with the others,
    and its application polls, and takes `listener_ms` for what it gets. It is not ordered."""
    commit_interval_ms: Count = 5_000
    """Interval in which a lite-pull consumer's application commits its position, between two polls. That is
    autoCommitIntervalMillis, or minutes for one that commits at checkpoints (Flink, SeaTunnel)."""
    message_model: Model = "CLUSTERING"
    running_info_code: Literal[0, 1, 3, 207] = 0
    """The code with which it refuses GET_CONSUMER_RUNNING_INFO, as clients that are not Java do; 207: it never answers,
    and its broker gives up."""
    pops: Pops = ""
    invisible_ms: Count = 60_000
    """The time that no other client gets a popped message, of a consumer that speaks remoting, or a simple one."""
    threads: Count = 20
    """The listener's threads of a consumer that pops."""
    client_id: str = ""
    """The client id after the address; empty: its name. A step may give one id to two processes, a misconfiguration."""


class GroupSpec(ConsumerSpec, frozen=True, kw_only=True):
    """A consumer group."""

    name: Name
    consumers: Natural
    """The number of consumers that start with the scenario: `called`-1, `called`-2, …"""
    called: str = ""
    """By default the group's name."""
    start_within: Positive = 1
    """The consumers start one after the other within this time; seconds."""
    pop_share_queues: int = -1
    """The number of further clients whose queues each client pops that speaks remoting (popShareQueueNum); 0 or less:
    all."""


class ScenarioStep(_Part, frozen=True, kw_only=True, tag_field="do"):
    """A step that is applied to the cluster."""

    at: Seconds

    @property
    def subject(self) -> str:
        """The consumer, topic, broker or group that the step concerns; empty: the cluster."""
        return ""


class Lasting(ScenarioStep, frozen=True, kw_only=True):
    """A step that is undone after a time."""

    lasts: Positive | None = None
    """None: to the end."""


class Join(Lasting, frozen=True, kw_only=True, tag="join"):
    """A new consumer; if it `lasts`, it leaves cleanly afterwards."""

    who: Name
    group: Name
    ordered: bool | None = None
    """Settings that are not given are the group's own; others simulate a misconfiguration."""
    topics: tuple[Name, ...] | None = None
    expression: str | None = None
    strategy: StrategyName | None = None
    listener_ms: Positive | None = None
    pull_interval_ms: Natural | None = None
    clock_offset_ms: int | None = None
    max_reconsume_times: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    pull_client: bool | None = None
    lite_pull: bool | None = None
    commit_interval_ms: Count | None = None
    message_model: Model | None = None
    running_info_code: Literal[0, 1, 3, 207] | None = None
    pops: Pops | None = None
    invisible_ms: Count | None = None
    threads: Count | None = None
    client_id: Name | None = None

    @property
    def subject(self) -> str:
        """The consumer."""
        return self.who


class ConsumerStep(Lasting, frozen=True, kw_only=True):
    """A step that concerns a consumer."""

    who: Name

    @property
    def subject(self) -> str:
        """The consumer."""
        return self.who


class OfGroup(Lasting, frozen=True, kw_only=True):
    """A step that concerns a group."""

    group: Name

    @property
    def subject(self) -> str:
        """The group."""
        return self.group


class OfTopic(Lasting, frozen=True, kw_only=True):
    """A step that concerns a topic."""

    topic: Name

    @property
    def subject(self) -> str:
        """The topic."""
        return self.topic


class OfBroker(Lasting, frozen=True, kw_only=True):
    """A step that concerns a broker."""

    broker: Name

    @property
    def subject(self) -> str:
        """The broker."""
        return self.broker


class Leave(ConsumerStep, frozen=True, kw_only=True, tag="leave"):
    """Shut a consumer down cleanly; undone: start it again."""


class Kill(ConsumerStep, frozen=True, kw_only=True, tag="kill"):
    """Kill a consumer (SIGKILL); undone: start it again."""


class Freeze(ConsumerStep, frozen=True, kw_only=True, tag="freeze"):
    """Freeze a consumer (SIGSTOP); undone: SIGCONT."""


class Hang(ConsumerStep, frozen=True, kw_only=True, tag="hang"):
    """Let a consumer's listener block."""

    queue: Natural | None = None
    """None: on every queue."""


class Poison(ConsumerStep, frozen=True, kw_only=True, tag="poison"):
    """Let a consumer's listener refuse one message, again and again; of a group that pops, all its listeners do."""

    queue: Natural | None = None


class Slow(ConsumerStep, frozen=True, kw_only=True, tag="slow"):
    """Let the listener of a consumer that pops take long for each message."""

    listener_ms: Positive


class NoAck(ConsumerStep, frozen=True, kw_only=True, tag="no-ack"):
    """Let a simple consumer acknowledge nothing."""


class NetworkPartition(ConsumerStep, frozen=True, kw_only=True, tag="partition"):
    """Cut a consumer off from a broker or the ``name server``; empty: from all of them."""

    broker: str = ""


class AddQueues(OfTopic, frozen=True, kw_only=True, tag="add-queues"):
    """Add queues to a topic on every broker; undone: remove them."""

    queues: Count


class StopBroker(OfBroker, frozen=True, kw_only=True, tag="stop-broker"):
    """Shut a broker down; undone: boot it."""


class DisableConsume(OfGroup, frozen=True, kw_only=True, tag="disable-consume"):
    """Set a group's consumeEnable to false on every broker (mqadmin updateSubGroup); undone: to true."""


class RefuseHeartbeats(OfGroup, frozen=True, kw_only=True, tag="refuse-heartbeats"):
    """Refuse each heartbeat of a group's clients on every broker with SYSTEM_ERROR, as an ACL does."""


class DeleteGroup(OfGroup, frozen=True, kw_only=True, tag="delete-group"):
    """Delete a group on a broker that creates none by itself (mqadmin deleteSubGroup); undone: create it.

    From the beginning: the group was never created there.
    """

    broker: Name


class DeleteTopic(OfTopic, frozen=True, kw_only=True, tag="delete-topic"):
    """Delete a topic with its messages and offsets (mqadmin deleteTopic); undone: create it again, empty."""


class LoseNotifications(Lasting, frozen=True, kw_only=True, tag="lose-notifications"):
    """Lose a share of the brokers' notifications to members."""

    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1


class HookFull(OfBroker, frozen=True, kw_only=True, tag="hook-full"):
    """Fill the disk that a broker's hook writes to: its events are lost."""


class CollectorAway(Lasting, frozen=True, kw_only=True, tag="collector-away"):
    """Kill the poll collector; undone: start it again."""


class SetClock(Lasting, frozen=True, kw_only=True, tag="set-clock"):
    """Set the clock with which the ``collector`` or a broker's hook stamps its events; undo sets it back.

    Only these stamps use it: the broker itself keeps its own clock.
    """

    of: Name = "collector"
    by_ms: int
    """Ahead; negative: back."""

    @property
    def subject(self) -> str:
        """The collector, or the broker."""
        return self.of


class Rollout(ScenarioStep, frozen=True, kw_only=True, tag="rollout"):
    """Restart the consumers of a group cleanly, one after the other."""

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
    | Slow
    | NoAck
    | NetworkPartition
    | AddQueues
    | StopBroker
    | DisableConsume
    | RefuseHeartbeats
    | DeleteGroup
    | DeleteTopic
    | LoseNotifications
    | HookFull
    | CollectorAway
    | SetClock
    | Rollout
)


class ScenarioError(ModelError, ValueError):
    """An invalid scenario or step; the message names the mistake."""


class Scenario(_Part, frozen=True, kw_only=True):
    """A whole scenario file."""

    title: str
    minutes: Positive
    topics: tuple[TopicSpec, ...]
    groups: tuple[GroupSpec, ...]
    brokers: tuple[BrokerSpec, ...] = (BrokerSpec(name="broker-a"),)
    story: tuple[AnyStep, ...] = ()


def read(content: object) -> Scenario:
    """Convert the content of a scenario file, as its parser returns it.

    Raises:
        ScenarioError: a field is missing, unknown or of the wrong type.
    """
    try:
        return msgspec.convert(content, Scenario)
    except msgspec.ValidationError as error:
        raise ScenarioError(str(error)) from None
