"""Which log the settings name."""

from typing import Literal

from streaming.log.files import FilePublisher
from streaming.log.kafka import KafkaPublisher
from streaming.log.rows import Publisher
from streaming.settings import Settings


def open_publisher(settings: Settings, kind: Literal["kafka", "files"]) -> Publisher:
    """The log of that kind, ready to be written.

    Raises:
        UserError: it can't be reached, has another writer or another partition count.
    """
    source = settings.source
    if kind == "kafka":
        return KafkaPublisher(source.bootstrap_servers, source.topic, source.partitions)
    return FilePublisher(settings.log_path, source.partitions)
