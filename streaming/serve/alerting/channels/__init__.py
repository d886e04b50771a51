"""The channels to which messages are sent. A channel reports success or failure; retries are scheduled elsewhere."""

from streaming.serve.alerting.channels.channel import AlertChannel, AppriseChannel
from streaming.serve.alerting.channels.pagers import Alertmanager, Opsgenie, PagerDuty
from streaming.serve.alerting.channels.webhook import Webhook
from streaming.serve.alerting.config import (
    AlertmanagerConfig,
    ChannelConfig,
    OpsgenieConfig,
    PagerDutyConfig,
    WebhookConfig,
)

__all__ = ["AlertChannel", "open_channel"]


def open_channel(config: ChannelConfig) -> AlertChannel:
    """Open a channel and read its secrets.

    Raises:
        UserError: a secret is missing or its template is invalid.
    """
    if isinstance(config, AlertmanagerConfig):
        return Alertmanager(config)
    if isinstance(config, WebhookConfig):
        return Webhook(config)
    if isinstance(config, PagerDutyConfig):
        return PagerDuty(config)
    if isinstance(config, OpsgenieConfig):
        return Opsgenie(config)
    return AppriseChannel(config)
