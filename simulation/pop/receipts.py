"""The messages that a proxy keeps for its push clients: it renews each until the client has finished it.

DefaultReceiptHandleManager: each 5 s, what is invisible for no longer than 10 s is renewed, each time for longer; what
a client has that the proxy has dropped comes back at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from simulation.popped import Handle, Origin, PoppedMessage

SCAN = 5_000
"""Milliseconds."""
RENEW_AHEAD = 10_000
"""renewAheadTimeMillis."""
RENEWALS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
"""The time for which a message is renewed, by the number of renewals before; milliseconds."""
RENEW_MAX = 3 * 3_600_000
"""renewMaxTimeMillis: a message is kept for no longer."""
RELEASE = 1_000
"""Invisible time with which a message of a client that is gone is given back; milliseconds."""


@dataclass(slots=True)
class Receipt:
    """One message that a client has."""

    group: str
    client_id: str
    message: PoppedMessage
    handle: Handle
    """The handle of the last renewal."""
    consumed_at: int
    """When it was handed out; epoch milliseconds, as the others."""
    visible_at: int
    renewals: int = 0


Change = Callable[[Receipt, int], None]
"""Sends CHANGE_MESSAGE_INVISIBLETIME for a receipt, with the new invisible time in milliseconds."""


class Receipts:
    """The receipts that the push clients of one proxy have."""

    def __init__(self) -> None:
        self._receipts: dict[tuple[str, Origin, Handle], Receipt] = {}

    def add(self, now: int, group: str, client_id: str, message: PoppedMessage) -> None:
        """Keep a message for a client; `now` is epoch milliseconds."""
        handle = message.handle
        receipt = Receipt(group, client_id, message, handle, now, handle.pop_time + handle.invisible_ms)
        self._receipts[client_id, message.origin, handle] = receipt

    def finish(self, client_id: str, message: PoppedMessage) -> Handle:
        """Keep a message no longer, which its client has finished; return the handle to use."""
        receipt = self._receipts.pop((client_id, message.origin, message.handle), None)
        return message.handle if receipt is None else receipt.handle

    def renew(self, now: int, change: Change) -> None:
        """Renew what would be given to another client soon."""
        for key, receipt in list(self._receipts.items()):
            if now - receipt.consumed_at > RENEW_MAX:
                del self._receipts[key]
            elif receipt.visible_at - now <= RENEW_AHEAD:
                duration = RENEWALS[min(receipt.renewals, len(RENEWALS) - 1)]
                receipt.renewals += 1
                receipt.visible_at = now + duration
                change(receipt, duration)

    def drop(self, client_id: str, change: Change) -> None:
        """Give back what a client has that is gone."""
        for key in [key for key in self._receipts if key[0] == client_id]:
            change(self._receipts.pop(key), RELEASE)
