"""Compare the lag of a queue at an instant with the broker's answers and the hook's calls until the time that it names.

An answer's lag is exact for its newest offset and commit. If a hook has seen another commit since, the lag is a lower
bound: the highest offset known, less that commit. A hook's own lag counts where there is no answer, or a stale one
alone. What a hook saw is in the answers after at most `HOOK_ROW_MS`.
"""

from collections.abc import Iterator

from tests.audit.answers import Shown
from tests.audit.differences import Difference, Result
from tests.audit.hook_calls import Seen
from tests.audit.reading import Reading, named
from tests.audit.telemetry import Observed, Place, Queue

HOOK_ROW_MS = 11_000
"""The maximum time until a call that a hook saw is written, 10 s and a tick; of a lock mostly it is written at once."""
HOOK_STALE_MS = 120_000
"""A hook's rows repeat each minute."""
REPEATED_MS = 60_000
ValueAt = tuple[int | None, bool]
"""A lag, None: unknown, and whether it is a lower bound."""


def compare_lag(
    result: Result, reading: Reading, place: Place, queue: Queue, instant: int, answer: Shown,
    polled: Observed[int | None] | None, *, stale: bool | None,
) -> None:  # fmt: skip
    """Compare lag, whether it is a bound, whether it is the newest one, and whether it is marked as stale.

    Args:
        result: where comparisons are counted.
        reading: the audit's own evaluation.
        place: the group.
        queue: the queue.
        instant: the instant that was asked for.
        answer: what was answered about the queue.
        polled: the lag of the broker's last answer; None: there is none.
        stale: whether that is stale; None: it is unclear because intervals vary.
    """
    at, calls, subject = answer.lag_time, reading.hook_calls, named(queue)
    of_answer = polled is not None and (at == polled.time if at is not None else polled.value is None)
    seen = calls.at(place, queue, at) if at is not None else calls.within(place, queue, instant - HOOK_ROW_MS, instant)
    offsets = reading.quantities.offsets[place, queue].at(polled.time) if polled is not None else None
    allowed = {value for one in seen for value in _by_calls(one, polled, offsets, at, is_stale=stale)}
    if polled is not None and (of_answer or at is None):
        allowed.add((polled.value, False))
    kind = "lower bound in place of a lag" if answer.lag_at_least else "lag"
    kind = kind if reading.polls else "lag by hook alone"
    answered = answer.lag, answer.lag_at_least
    proof = f"of {instant - at} ms before" if at is not None else "of no time"
    unknown = {(None, False), (None, True)}
    fits = answered in allowed or (answer.lag is None and bool(unknown & allowed or not allowed))
    result.check(fits, Difference(kind, instant, place, subject, answered, sorted(allowed, key=str), proof))
    if reading.hooks and answer.lag is not None:
        newest = _newest(reading, place, queue, instant, polled, offsets, of_answer=of_answer)
        late = Difference("lag of a former commit", instant, place, subject, at, newest, proof)
        result.check(newest is None or (at or 0) >= newest, late)
    is_old = stale if of_answer else at is not None and instant - at > HOOK_STALE_MS
    if answer.lag is not None and is_old is not None:
        mark = Difference("stale lag", instant, place, subject, answer.lag_stale, is_old, proof)
        result.check(answer.lag_stale is is_old, mark)


def _by_calls(
    seen: Seen, polled: Observed[int | None] | None, offsets: Observed[tuple[int, int]] | None, at: int | None,
    *, is_stale: bool | None,
) -> Iterator[ValueAt]:  # fmt: skip
    """Yield the lags that a hook's row can show after these calls."""
    if polled is None or offsets is None or polled.value is None:
        yield seen.lag(at - REPEATED_MS if at is not None else 0)
        yield seen.lag(at or 0)
        return
    if seen.commit is not None and _is_moved(seen, polled.time, offsets.value[1]):
        pulled = seen.pull if seen.pull is not None and (seen.pull_at or 0) > polled.time else 0
        yield max(offsets.value[0], seen.commit, pulled) - seen.commit, True
    elif is_stale is not False:
        yield seen.lag(at or 0)


def _newest(
    reading: Reading, place: Place, queue: Queue, instant: int, polled: Observed[int | None] | None,
    offsets: Observed[tuple[int, int]] | None, *, of_answer: bool,
) -> int | None:  # fmt: skip
    """Return the time of the last call that the answer must know; None: any may be unknown."""
    due = instant - HOOK_ROW_MS
    if not of_answer or polled is None or offsets is None:
        return reading.hook_calls.last_call(place, queue, due)
    last = reading.hook_calls.at(place, queue, due)[-1]
    return last.commit_at if _is_moved(last, polled.time, offsets.value[1]) else None


def _is_moved(seen: Seen, since: int, commit: int) -> bool:
    """Return whether the hook has seen another commit than that of an answer since."""
    return seen.commit_at is not None and seen.commit_at > since and seen.commit != commit
