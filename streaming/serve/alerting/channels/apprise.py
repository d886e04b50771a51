"""Apprise: mail, chats and similar. It has no headers, so the idempotency key is appended to the text."""

import logging
from typing import Any

from streaming.base.errors import UserError
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.config import AppriseConfig
from streaming.serve.alerting.render import AlertMessage

_UNFINISHED_MAX = 100
"""The maximum number of unfinished messages; more than one is rare, since a message blocks the following ones."""


class AppriseChannel:
    """The addresses of one channel: a message is delivered when each of them has accepted it.

    A retry goes only to the addresses that have not accepted it yet. This is kept in memory: after a restart the others
    may receive it again, under the same key. An address with several receivers counts as one. An address that never
    accepts blocks the next messages to the others: give it a separate channel.
    """

    resend_ms = None

    def __init__(self, config: AppriseConfig) -> None:
        """Read the addresses.

        Raises:
            UserError: they are missing or one is invalid; the message omits it, since it may contain a password.
        """
        from apprise import Apprise

        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it would log addresses
        every = Apprise()
        for number, url in enumerate(config.urls.read().split(), 1):
            if not every.add(url):
                raise UserError(f"Address {number} of an alert channel is not a valid Apprise URL: correct it.")
        self._addresses = [(str(one.service_name), Apprise([one])) for one in every]
        """The service and the address, each separate since Apprise reports success only for all of them."""
        self._taken: dict[str, set[int]] = {}
        """The addresses that have accepted an unfinished message, by its key."""

    def send(self, message: AlertMessage, now: int) -> None:
        """Send a message to every address that has not accepted it."""
        del now
        taken = self._taken_of(message.key)
        content = _content(message)
        for number, (_, address) in enumerate(self._addresses):
            if number not in taken and address.notify(**content):
                taken.add(number)
        left = [kind for number, (kind, _) in enumerate(self._addresses) if number not in taken]
        if left:
            kinds = ", ".join(sorted(set(left)))
            raise ChannelError(f"{len(left)} of {len(self._addresses)} Apprise addresses failed: {kinds}")
        del self._taken[message.key]

    def stand(self, message: AlertMessage, now: int) -> None:
        """Do nothing: only new alerts are sent."""

    def close(self) -> None:
        """Do nothing: no connections are kept open."""

    def _taken_of(self, key: str) -> set[int]:
        taken = self._taken.setdefault(key, set())
        if len(self._taken) > _UNFINISHED_MAX:
            del self._taken[next(iter(self._taken))]
        return taken


def _content(message: AlertMessage) -> dict[str, Any]:
    from apprise import NotifyFormat, NotifyType

    kinds = {one["kind"] for one in message.alerts}
    critical = any(one["severity"] == "critical" for one in message.alerts)
    kind = NotifyType.SUCCESS if kinds == {"RESOLVED"} else NotifyType.FAILURE if critical else NotifyType.WARNING
    body = f"{message.body}\n[{message.key}]"
    return {"title": message.title, "body": body, "notify_type": kind, "body_format": NotifyFormat.TEXT}
