"""The channels in a broker's view of a group: the client of each, and when the broker drops one without heartbeats."""

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_manager import SCAN_PERIOD
from rebalance_model.observe.state import BrokerView, HookView

CHANNEL_TIMEOUT = BrokerConfig().channel_expired_timeout
"""The first scan that finds a member's last heartbeat to be older than this removes the member; milliseconds."""
CHANNEL_EXPIRED = CHANNEL_TIMEOUT + SCAN_PERIOD
"""A member without a heartbeat for longer than this has been removed by a scan; milliseconds."""
UNNAMED = "?"
"""The prefix of the channel name for a member whose channel is unknown, followed by its client id."""


def client_of_channel(view: BrokerView, hook: HookView, channel: str) -> str | None:
    """Return the client of the channel, as far as it is known; else None."""
    info = view.info.channel_info_table.get(channel)
    return info.client_id if info is not None else hook.client_by_channel.get(channel)


def name_channel(view: BrokerView, client_id: str, channel: str) -> None:
    """Set the channel of a member whose channel was unknown."""
    table = view.info.channel_info_table
    if channel not in table and (info := table.pop(UNNAMED + client_id, None)) is not None:
        info.channel = channel
        table[channel] = info
