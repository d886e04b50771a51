"""What a hook in a broker is told of (the RPCHook of the 5.x broker): each call with its answer."""

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from rebalance_model.broker.client_manage_processor import HeartbeatData
from rebalance_model.broker.consumer_manage_processor import Response
from rebalance_model.client.pull_flow_control import Pull
from rebalance_model.entities import MessageQueue

if TYPE_CHECKING:
    from rebalance_model.simulation.broker import Broker
    from rebalance_model.simulation.network import Channel


class BrokerHook:
    """Sits in one broker. This one keeps silent."""

    wants_pulls: ClassVar[bool] = False
    """Whether it is to be told of each pull."""

    def booted(self, broker: "Broker") -> None:
        """The broker has started."""

    def stopped(self) -> None:
        """The broker shuts down cleanly."""

    def disk(self, *, full: bool) -> None:
        """There is no room, or room again, for what it writes."""

    def get_broker_runtime_info(self, collector: str, asked: int) -> None:
        """GET_BROKER_RUNTIME_INFO: a collector's source_id, and its time, which the question carries."""

    def heart_beat(self, channel: "Channel", heartbeat: HeartbeatData, language: str, version: int) -> None:
        """HEART_BEAT."""

    def unregister_client(self, channel: "Channel", group: str, client_id: str) -> None:
        """UNREGISTER_CLIENT."""

    def get_consumer_list_by_group(self, channel: "Channel", group: str, response: Response) -> None:
        """GET_CONSUMER_LIST_BY_GROUP."""

    def lock_batch_mq(
        self,
        channel: "Channel",
        group: str,
        client_id: str,
        requested: Collection[MessageQueue],
        granted: Collection[MessageQueue],
    ) -> None:
        """LOCK_BATCH_MQ."""

    def unlock_batch_mq(self, channel: "Channel", group: str, client_id: str, queues: Collection[MessageQueue]) -> None:
        """UNLOCK_BATCH_MQ."""

    def update_consumer_offset(
        self, channel: "Channel", group: str, queue: MessageQueue, offset: int, code: int
    ) -> None:
        """UPDATE_CONSUMER_OFFSET."""

    def query_consumer_offset(self, channel: "Channel", group: str, queue: MessageQueue, code: int) -> None:
        """QUERY_CONSUMER_OFFSET."""

    def pull_message(self, channel: "Channel", group: str, queue: MessageQueue, pull: Pull, code: int | None) -> None:
        """PULL_MESSAGE; the code of an answer that was an immediate error, else None."""
