"""Apprise: mail, chats and the like. It can carry no header, so the idempotency key ends the text."""

import logging
from typing import Any

from streaming.alerting.channels.channel import ChannelError
from streaming.alerting.config import AppriseConfig
from streaming.alerting.render import Message
from streaming.errors import UserError

_UNFINISHED_MAX = 100
"""A message holds up those behind it until all have taken it, so more than one is rare: one that was given up."""


class AppriseChannel:
    """All the addresses of one channel: it has taken a message when each of them has.

    A further attempt goes to those alone that have not taken it yet. This is known for as long as the process runs:
    after a restart the others may get it once more, under the same key. An address that names several receivers is one
    here. One that never takes anything holds up the others' next messages: give it a channel of its own.
    """

    resend_ms = None

    def __init__(self, config: AppriseConfig) -> None:
        """Read the addresses.

        Raises:
            UserError: they are not there, or one is none. The sentence does not say it: it may hold a password.
        """
        from apprise import Apprise  # noqa: PLC0415  half a second, for those who use it

        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it would write addresses into its log
        every = Apprise()
        for number, url in enumerate(config.urls.read().split(), 1):
            if not every.add(url):
                raise UserError(f"Address {number} of an alert channel is none that Apprise knows: correct it.")
        self._addresses = [(str(one.service_name), Apprise([one])) for one in every]
        """Each alone, since Apprise only says of all together whether they took a message; and what it is."""
        self._taken: dict[str, set[int]] = {}
        """Which addresses have taken a message that not all have, by its key."""

    def send(self, message: Message, now: int) -> None:
        """Send it to every address that has not taken it."""
        del now
        taken = self._taken_of(message.key)
        content = _content(message)
        for number, (_, address) in enumerate(self._addresses):
            if number not in taken and address.notify(**content):
                taken.add(number)
        left = [kind for number, (kind, _) in enumerate(self._addresses) if number not in taken]
        if left:
            kinds = ", ".join(sorted(set(left)))
            raise ChannelError(f"{len(left)} of {len(self._addresses)} Apprise addresses did not take it: {kinds}")
        del self._taken[message.key]

    def stand(self, message: Message, now: int) -> None:
        """Nothing: it is told news alone."""

    def close(self) -> None:
        """It keeps nothing open."""

    def _taken_of(self, key: str) -> set[int]:
        taken = self._taken.setdefault(key, set())
        if len(self._taken) > _UNFINISHED_MAX:
            del self._taken[next(iter(self._taken))]
        return taken


def _content(message: Message) -> dict[str, Any]:
    from apprise import NotifyFormat, NotifyType  # noqa: PLC0415  as above

    kinds = {one["kind"] for one in message.alerts}
    critical = any(one["severity"] == "critical" for one in message.alerts)
    kind = NotifyType.SUCCESS if kinds == {"RESOLVED"} else NotifyType.FAILURE if critical else NotifyType.WARNING
    body = f"{message.body}\n[{message.key}]"
    return {"title": message.title, "body": body, "notify_type": kind, "body_format": NotifyFormat.TEXT}
