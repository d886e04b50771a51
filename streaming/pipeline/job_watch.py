"""Watch a running job: a log that was created again, and what the failure of a query means.

A log that is deleted and created again has other rows at the same offsets. Spark notices only that a log ends before
what it has read. If a topic has grown past that, or files have the names of those that were read, Spark would continue
and skip what is before.
"""

import re
from pathlib import Path
from threading import Event, Thread
from typing import Self

from pyspark.errors import StreamingQueryException

from checkpoints.generation import check_log
from streaming.base.errors import UserError
from streaming.base.settings import Settings
from streaming.log.identity import LogId, log_id

LOOK_SECONDS = 10.0
_AWAY_LOOKS_MAX = 3
"""The number of times in a row that the log must be missing: a Kafka that starts may not know all of its topics at
once."""
_END_SECONDS_MAX = 1.0


class LogWatch:
    """Asks the log for its ids in a thread of its own, because Kafka may not answer."""

    def __init__(self, settings: Settings, source: str, kept: LogId) -> None:
        """Prepare to watch the log of the settings."""
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

    def inspect(self, away_looks_max: int = _AWAY_LOOKS_MAX) -> None:
        """Look at the log now; a Kafka that does not answer says nothing.

        ``away_looks_max``: how often in a row the log must be missing.

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
        self.inspect(away_looks_max=1)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_END_SECONDS_MAX)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.inspect()
            except UserError as error:
                self._error = error
                return


_OWN_SENTENCE = re.compile(
    r"^(?:streaming\.base\.errors\.\w+: |checkpoints\.lease\.\w+: |[\w.]+: \[USER_RAISED_EXCEPTION\] )"
    r"(.+?)(?: SQLSTATE: \w+)?$",
    re.MULTILINE,
)
"""A UserError of a Python worker or sink, or one of Spark SQL's raise_error, within a query's failure."""
_KILLED = "(killed, or short of memory)"
_LOST = {
    "Python worker failed to connect back": "a Python worker (it came too late)",  # Spark gives it ten seconds
    "Python worker exited unexpectedly": f"a Python worker {_KILLED}",
    "PythonWorkerFactory.createWorker": f"a Python worker {_KILLED}",  # in the trace: it ended before it was connected
    "ExecutorLostFailure": f"an executor {_KILLED}",  # four times the same task; fewer Spark repeats by itself
    "has failed the maximum allowable number of times": f"an executor {_KILLED}",  # four times one that others read
    "MetadataChangedException": "a commit to `maintain`, which set properties of the table",
    "org.apache.kafka.common.errors.TimeoutException": "Kafka (it does not answer)",  # for three minutes
}
"""Failures after which a new start may succeed, and what was lost: nothing is wrong with the query or its rows."""
OTHER_RUN = (
    "Multiple streaming",  # Spark: … jobs detected, … queries are concurrently using: the batch is recorded already
    "ConcurrentTransactionException",  # Delta: the append is there already
    "Concurrent transaction failed",  # delta-rs: the same
)
"""Failures by which only another run can be the cause, in spite of the lease."""


def lost_by(failure: StreamingQueryException) -> str | None:
    """Return what a query has lost, so that a new start may succeed; None: it failed otherwise."""
    return next((what for text, what in _LOST.items() if text in str(failure)), None)


def failed(query: str, failure: StreamingQueryException, logs: Path) -> UserError:
    """Return a query's failure as one sentence: the `UserError` inside it, else the error that Spark names."""
    text = _message(failure)
    if is_of_other_run(failure):
        return UserError(
            f"The {query} query has found another run on the same checkpoints: this one has ended, and no row was "
            "doubled."
        )
    if own := _OWN_SENTENCE.search(text):
        return UserError(own[1])
    lines = [line for line in text.splitlines() if line.strip() and not line[0].isspace()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    cause = (causes or lines)[-1] if "Traceback (most recent call last)" in text else lines[0]
    return UserError(f"The {query} query failed: {cause} (details are in {logs}; a restart resumes from there).")


def is_of_other_run(failure: StreamingQueryException) -> bool:
    """Return whether only another run on the same checkpoints can be the cause."""
    return any(one in _message(failure) for one in OTHER_RUN)


def _message(failure: StreamingQueryException) -> str:
    return str(failure).split("\n\n=== Streaming Query ===")[0]
