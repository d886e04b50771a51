"""Apprise: mail, chats and the like. It can carry no header, so the idempotency key ends the text."""

import logging

from streaming.alerting.channels.channel import ChannelError
from streaming.alerting.config import AppriseConfig
from streaming.alerting.render import Message
from streaming.errors import UserError


class AppriseChannel:
    """All the addresses of one channel: it has taken a message when each of them has."""

    resend_ms = None

    def __init__(self, config: AppriseConfig) -> None:
        """Read the addresses.

        Raises:
            UserError: they are not there, or one is none. The sentence does not say it: it may hold a password.
        """
        from apprise import Apprise  # noqa: PLC0415  half a second, for those who use it

        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it would write addresses into its log
        self._apprise = Apprise()
        for number, url in enumerate(config.urls.read().split(), 1):
            if not self._apprise.add(url):
                raise UserError(f"Address {number} of an alert channel is none that Apprise knows: correct it.")

    def send(self, message: Message, now: int) -> None:
        """Send it to every address."""
        del now
        from apprise import NotifyFormat, NotifyType  # noqa: PLC0415  as above

        kinds = {one["kind"] for one in message.alerts}
        critical = any(one["severity"] == "critical" for one in message.alerts)
        kind = NotifyType.SUCCESS if kinds == {"RESOLVED"} else NotifyType.FAILURE if critical else NotifyType.WARNING
        body = f"{message.body}\n[{message.key}]"
        if not self._apprise.notify(body=body, title=message.title, notify_type=kind, body_format=NotifyFormat.TEXT):
            raise ChannelError("Apprise could not send it to every address")

    def stand(self, message: Message, now: int) -> None:
        """Nothing: it is told news alone."""

    def close(self) -> None:
        """It keeps nothing open."""
