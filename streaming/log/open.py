"""Which log the settings name."""

from typing import Literal

from streaming.log.files import FilePublisher
from streaming.log.kafka import KafkaPublisher
from streaming.log.rows import Publisher
from streaming.settings import Settings


def open_publisher(
    settings: Settings, kind: Literal["kafka", "files"], *, resend_after_ms: int | None = None
) -> Publisher:
    """The log of that kind, ready to be written; ``resend_after_ms`` is `KafkaPublisher`'s.

    Raises:
        UserError: it can't be reached, has another writer or another partition count.
    """
    source = settings.source
    if kind == "kafka":
        return KafkaPublisher(
            source.bootstrap_servers, source.topic, source.partitions, resend_after_ms=resend_after_ms
        )
    return FilePublisher(settings.log_path, source.partitions)
