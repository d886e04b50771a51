"""A member's subscription of one topic (SubscriptionData), and how it is built from an expression (FilterAPI)."""

import msgspec

from rebalance_model.errors import ModelError

SUB_ALL = "*"
TAG = "TAG"
_TRIMMED_BY_JAVA = "".join(map(chr, range(0x21)))
"""``String.trim`` removes every character up to U+0020, and no other white space."""


class SubscriptionError(ModelError, ValueError):
    """An expression that FilterAPI refuses."""


class SubscriptionData(msgspec.Struct, array_like=True, frozen=True):
    """A member's subscription of one topic (org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData).

    Java carries the tags and their hash codes beside the expression; they follow from it, so here they are computed.
    """

    topic: str
    sub_string: str
    expression_type: str
    sub_version: int
    """When the client created or last changed it, by the client's clock (ms): the broker keeps the largest."""

    @property
    def tags_set(self) -> tuple[str, ...]:
        """The subscribed tags without repeats; empty for every message or an expression that is not a list of tags."""
        return _tags(self.sub_string) if self.expression_type == TAG and self.sub_string != SUB_ALL else ()

    @property
    def code_set(self) -> tuple[int, ...]:
        """Java's hash codes of the tags, by which the consume queue is filtered. Two tags may share one."""
        return tuple(dict.fromkeys(map(java_hash_code, self.tags_set)))


def build_subscription_data(
    topic: str, sub_string: str | None, now: int, expression_type: str | None = TAG
) -> SubscriptionData:
    """Return the subscription that a client builds from an expression (FilterAPI.build).

    Args:
        topic: the topic.
        sub_string: tags separated by ``||``; for a type other than TAG, an expression that the broker compiles.
        now: becomes the version.
        expression_type: the type of the expression; None is TAG.

    Raises:
        SubscriptionError: a list of tags that consists of separators only, or an empty expression of another type.
    """
    if expression_type not in (TAG, None):
        if not sub_string:
            msg = f"Expression can't be null! {expression_type}"
            raise SubscriptionError(msg)
        return SubscriptionData(topic, sub_string, expression_type, now)
    if sub_string and not sub_string.replace("||", ""):  # Java's split drops empty parts at the end: no tag remains
        msg = "subString split error"
        raise SubscriptionError(msg)
    return SubscriptionData(topic, sub_string or SUB_ALL, TAG, now)


def java_hash_code(text: str) -> int:
    """Return ``String.hashCode``: over UTF-16 code units, in signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def _tags(sub_string: str) -> tuple[str, ...]:
    trimmed = (part.strip(_TRIMMED_BY_JAVA) for part in sub_string.split("||"))
    return tuple(dict.fromkeys(tag for tag in trimmed if tag))
