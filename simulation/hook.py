"""The calls that a hook in a broker observes, each with its answer (the RPCHook of the 5.x broker)."""

from collections.abc import Collection
from typing import ClassVar, Protocol

from rebalance_model.broker.broker_config import SUCCESS
from rebalance_model.entities import MessageQueue
from simulation.message_log import MessageLog
from simulation.network import SimulatedChannel
from simulation.popped import Handle, Pop, ProxiedHeartbeat
from simulation.rocketmq.broker.client_manage_processor import HeartbeatData
from simulation.rocketmq.broker.consumer_manage_processor import Response
from simulation.rocketmq.client.pull_flow_control import Pull
from simulation.scheduler import Clock
from simulation.world import World


class HookedBroker(Protocol):
    """The parts of the broker that a hook reads."""

    name: str
    clock: Clock
    world: World
    up: bool
    boot_time: int
    """Epoch milliseconds by the broker's clock."""
    logs: dict[MessageQueue, MessageLog]


class BrokerHook:
    """The hook of one broker; this base class reports nothing."""

    wants_pulls: ClassVar[bool] = False
    """True if the hook reports each pull."""
    ahead: int = 0
    """By how much the clock by which it stamps, and which its broker reports, is ahead of the broker's; milliseconds.
    Everything else in the broker uses the broker's clock."""

    def booted(self, broker: HookedBroker) -> None:
        """Handle the broker's start."""

    def stopped(self) -> None:
        """Handle the broker's clean shutdown."""

    def disk(self, *, full: bool) -> None:
        """Set whether the disk that the hook writes to is full."""

    def set_clock(self, by: int) -> None:
        """Set that clock ahead, or back if negative; milliseconds."""

    def get_broker_runtime_info(self, collector: str, asked: int) -> None:
        """Observe GET_BROKER_RUNTIME_INFO with the collector's source_id and time (ms) from the request."""

    def heart_beat(
        self, channel: SimulatedChannel, heartbeat: HeartbeatData, language: str, version: int, code: int = SUCCESS
    ) -> None:
        """Observe HEART_BEAT."""

    def unregister_client(self, channel: SimulatedChannel, group: str, client_id: str) -> None:
        """Observe UNREGISTER_CLIENT."""

    def get_consumer_list_by_group(self, channel: SimulatedChannel, group: str, response: Response) -> None:
        """Observe GET_CONSUMER_LIST_BY_GROUP."""

    def lock_batch_mq(
        self,
        channel: SimulatedChannel,
        group: str,
        client_id: str,
        requested: Collection[MessageQueue],
        granted: Collection[MessageQueue],
    ) -> None:
        """Observe LOCK_BATCH_MQ."""

    def unlock_batch_mq(
        self, channel: SimulatedChannel, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> None:
        """Observe UNLOCK_BATCH_MQ."""

    def update_consumer_offset(
        self, channel: SimulatedChannel, group: str, queue: MessageQueue, offset: int, code: int
    ) -> None:
        """Observe UPDATE_CONSUMER_OFFSET."""

    def query_consumer_offset(self, channel: SimulatedChannel, group: str, queue: MessageQueue, code: int) -> None:
        """Observe QUERY_CONSUMER_OFFSET."""

    def pull_message(
        self, channel: SimulatedChannel, group: str, queue: MessageQueue, pull: Pull, code: int | None
    ) -> None:
        """Observe PULL_MESSAGE; `code` is that of an immediate error, else None."""

    def pop_message(self, channel: SimulatedChannel, pop: Pop, code: int | None) -> None:
        """Observe POP_MESSAGE; `code` is that of a refusal, else None."""

    def ack_message(self, channel: SimulatedChannel, group: str, handle: Handle) -> None:
        """Observe ACK_MESSAGE."""

    def change_message_invisibletime(
        self, channel: SimulatedChannel, group: str, handle: Handle, changed_ms: int
    ) -> None:
        """Observe CHANGE_MESSAGE_INVISIBLETIME, with the new invisible time in milliseconds."""

    def proxy_heart_beat(self, channel: SimulatedChannel, heartbeat: ProxiedHeartbeat) -> None:
        """Observe a proxy's message with a heartbeat of one of its clients."""
