"""What the failure of a query means: the sentence for the user, and whether a new start may succeed."""

import re
from pathlib import Path

from pyspark.errors import StreamingQueryException

from streaming.base.errors import UserError

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
