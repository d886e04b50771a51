"""Watch a running job's log: one that is deleted and created again has other rows at the same offsets.

Spark notices only that a log ends before what it has read. A topic that has grown past that, or files that have the
names of those that were read, it would go on with, and skip what is before.
"""

from threading import Event, Thread
from typing import Self

from checkpoints.generation import check_log
from streaming.base.errors import UserError
from streaming.base.settings import Settings
from streaming.log.identity import LogId, log_id

LOOK_SECONDS = 10.0
_AWAY_LOOKS_MAX = 3
"""How often in a row the log must be missing: a Kafka that starts may not know all of its topics at once."""
_END_SECONDS_MAX = 1.0


class LogWatch:
    """Asks the log for its ids in a thread of its own, because Kafka may not answer."""

    def __init__(self, settings: Settings, source: str, kept: LogId) -> None:
        """Prepare to watch the log of the settings.

        Args:
            settings: the settings of the log.
            source: its name, for messages.
            kept: the ids that it must have.
        """
        self._settings, self._source, self._kept = settings, source, kept
        self._away_looks = 0
        self._error: UserError | None = None
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="log watch", daemon=True)

    def check(self) -> None:
        """Raise the error that the last look found.

        Raises:
            UserError: the log is another one, or gone.
        """
        if self._error is not None:
            raise self._error

    def look(self, away_looks_max: int = _AWAY_LOOKS_MAX) -> None:
        """Look at the log now; a Kafka that does not answer says nothing.

        Args:
            away_looks_max: how often in a row the log must be missing.

        Raises:
            UserError: the log is another one, or is gone.
        """
        try:
            now = log_id(self._settings)
        except UserError:
            return
        self._away_looks = self._away_looks + 1 if now is None else 0
        if now is not None or self._away_looks >= away_looks_max:
            check_log(self._source, self._kept, now)

    def explain(self) -> None:
        """Look at the log after a query has failed: whether that is why.

        Raises:
            UserError: the log is another one, or is gone.
        """
        self.look(away_looks_max=1)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_END_SECONDS_MAX)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.look()
            except UserError as error:
                self._error = error
                return
