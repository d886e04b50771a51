"""The identity of a log: it differs from that of another log with the same name, such as one that was created again.

Offsets are valid only in the log that they were read from. Kafka gives each cluster and each topic an id (a topic's
since 2.8); the writer of a file log writes one into its folder.
"""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streaming.base.files import replace_atomically

if TYPE_CHECKING:  # a reader of the manifest reads no settings
    from streaming.base.settings import Settings

_FILE = "_log_id"
_BYTES_MAX = 100


class LogId(msgspec.Struct, frozen=True):
    """The ids of a log; empty: unknown, because Kafka or the release that wrote the log is older."""

    cluster: str = ""
    """Kafka's cluster id; always empty for files."""
    log: str = ""
    """The topic's id, or that of the folder."""

    def is_other(self, now: "LogId") -> bool:
        """Return whether these are the ids of another log than the one there now.

        A folder that has lost its id was made again; a Kafka, which always has its own id, may be an older one.
        """
        unmarked = bool(self.log) and not now.log and not now.cluster
        return unmarked or _differ(self.cluster, now.cluster) or _differ(self.log, now.log)

    def completed_by(self, earlier: "LogId") -> "LogId":
        """Return this with what only the earlier one knows."""
        return LogId(self.cluster or earlier.cluster, self.log or earlier.log)


def log_id(settings: "Settings") -> LogId | None:
    """Ask the log of the settings for its ids; None if there is no such topic or folder.

    Raises:
        UserError: Kafka can't be reached, or refuses this client.
    """
    if settings.source.kind == "files":
        return LogId(log=_read(settings.log_path)) if settings.log_path.is_dir() else None
    from streaming.log.kafka import ids_of
    from streaming.log.kafka_properties import connection_of

    found = ids_of(connection_of(settings), settings.source.topic)
    return None if found is None else LogId(*found)


def mark_files(root: Path) -> None:
    """Give a file log an id, if it has none."""
    if not _read(root):
        replace_atomically(root / _FILE, secrets.token_hex(16).encode())


def _read(root: Path) -> str:
    try:
        with (root / _FILE).open("rb") as file:
            return file.read(_BYTES_MAX).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""


def _differ(first: str, other: str) -> bool:
    return bool(first and other) and first != other
