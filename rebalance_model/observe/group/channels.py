"""The channels in a broker's view of a group: whose each is, and when the broker drops one without heartbeats."""

from rebalance_model.broker.broker_config import BrokerConfig
from rebalance_model.broker.consumer_manager import SCAN_PERIOD
from rebalance_model.observe.state import BrokerView, HookView

CHANNEL_TIMEOUT = BrokerConfig().channel_expired_timeout
"""The first scan that finds a member's last heartbeat to be older takes it out; milliseconds."""
CHANNEL_EXPIRED = CHANNEL_TIMEOUT + SCAN_PERIOD
"""A member without a heartbeat for longer has been taken out by a scan; milliseconds."""
UNNAMED = "?"
"""What the channel of a member is called that has not said which one it is on, before its client id."""


def client_of_channel(view: BrokerView, hook: HookView, channel: str) -> str | None:
    """Whose the channel is, as far as it is known."""
    info = view.info.channel_info_table.get(channel)
    return info.client_id if info is not None else hook.client_by_channel.get(channel)


def name_channel(view: BrokerView, client_id: str, channel: str) -> None:
    """A member that stands without a channel has said which one it is on."""
    table = view.info.channel_info_table
    if channel not in table and (info := table.pop(UNNAMED + client_id, None)) is not None:
        info.channel = channel
        table[channel] = info
