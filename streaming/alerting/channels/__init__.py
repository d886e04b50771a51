"""Where messages go. A channel says whether it took a message; when to try again is not its business."""

from streaming.alerting.channels.alertmanager import Alertmanager
from streaming.alerting.channels.apprise import AppriseChannel
from streaming.alerting.channels.channel import Channel
from streaming.alerting.channels.webhook import Webhook
from streaming.alerting.config import AlertmanagerConfig, ChannelConfig, WebhookConfig

__all__ = ["Channel", "open_channel"]


def open_channel(config: ChannelConfig) -> Channel:
    """Open a channel, with its secrets read.

    Raises:
        UserError: a secret is not there, or its template can't be used.
    """
    if isinstance(config, AlertmanagerConfig):
        return Alertmanager(config)
    if isinstance(config, WebhookConfig):
        return Webhook(config)
    return AppriseChannel(config)
