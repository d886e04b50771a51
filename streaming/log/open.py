"""Open the log that the settings name, or look whether it has rows."""

from typing import Literal

from streaming.base.settings import Settings
from streaming.log.files import FilePublisher, files_of
from streaming.log.kafka import KafkaPublisher, offsets_of
from streaming.log.kafka_properties import connection_of
from streaming.log.rows import Publisher


def open_publisher(
    settings: Settings, kind: Literal["kafka", "files"], *, resend_after_ms: int | None = None
) -> Publisher:
    """Return a publisher for the log of that kind; ``resend_after_ms`` as in `KafkaPublisher`.

    Raises:
        UserError: the log can't be reached, has another writer or another partition count.
    """
    source = settings.source
    if kind == "kafka":
        return KafkaPublisher(connection_of(settings), source.topic, source.partitions, resend_after_ms=resend_after_ms)
    return FilePublisher(settings.log_path, source.partitions)


def has_telemetry(settings: Settings) -> bool:
    """Return whether the log has at least one row, or had one that its retention has deleted.

    Raises:
        UserError: the log can't be reached, or has no topic.
    """
    source = settings.source
    if source.kind == "kafka":
        return any(end for _, end in offsets_of(connection_of(settings), source.topic).values())
    return any(files_of(settings.log_path, partition) for partition in range(source.partitions))
