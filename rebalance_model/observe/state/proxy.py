"""What a proxy answers about a group's clients (`polls.proxies`)."""

import msgspec

from rebalance_model.observe.state.client import UNANSWERED_POLLS


class ListedClient(msgspec.Struct, array_like=True, frozen=True):
    """A client of the group, as the proxy lists it."""

    language: str
    version: int


class ProxyView(msgspec.Struct, array_like=True):
    """One proxy's list of the group's clients, as it last answered; times are epoch milliseconds."""

    asked: int = 0
    """When the last request was sent that it answered; 0: it never did."""
    reported_at: int = 0
    """When its last answer, or the lack of one, was reported."""
    unanswered: int = 0
    """The number of consecutive requests without a list: no answer, an error code, or nothing that can be read."""
    error: str = ""
    """Why the last one had none."""
    clients: dict[str, ListedClient] = {}
    """By client id."""
    topics: dict[str, str] = {}
    """What they subscribe, and with which expression."""
    unreadable: tuple[str, ...] = ()
    """What of its last answer can't be read, each with the reason."""

    @property
    def answers(self) -> bool:
        """Return whether it has answered one of the last requests."""
        return bool(self.asked) and self.unanswered < UNANSWERED_POLLS
