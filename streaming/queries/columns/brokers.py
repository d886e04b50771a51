"""How fresh the answers of a group's brokers are, in words."""

from streaming.base.language import gettext
from streaming.queries import labels
from streaming.queries.results import GroupBroker
from streaming.queries.results.brokers import ASKED_WITHIN_MS


def freshness(broker: GroupBroker) -> str:
    """Return in words how fresh a broker's answers are."""
    now = broker.as_of
    if broker.asked_at is None:
        return gettext("not asked for more than {duration}", duration=labels.duration(ASKED_WITHIN_MS))
    asked_ms = max(0, now - broker.asked_at)
    if broker.silent_since is None:
        return gettext("not asked for {duration}", duration=labels.duration(asked_ms))
    return gettext(
        "asked, no answer since {time} ({duration}), last asked {asked}",
        time=labels.moment(broker.silent_since, now), duration=labels.duration(now - broker.silent_since),
        asked=labels.ago(asked_ms),
    )  # fmt: skip
