"""What every tool answers: the question's answer, with its instant and the age of the telemetry behind it."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from pydantic import Field

from streaming.queries.answer_time import TelemetryAge, answer_time
from streaming.queries.results import Instant, QueryResult
from streaming.tables.reader import ReadModel

T = TypeVar("T")


class DatedAnswer(QueryResult, Generic[T]):
    """The answer to a question, and how well it is known."""

    time: Instant = Field(description="The instant that the answer is about.")
    telemetry: tuple[TelemetryAge, ...] = Field(
        description="The age of the telemetry at that instant, of each cluster that the answer is about."
    )
    note: str | None = Field(description="What is not well known at that instant, in sentences; null: everything is.")
    left_out: dict[str, int] = Field(description="Number of elements that a list lacks, by its path in the answer.")
    answer: T = Field(description="As REST answers. null means not known, or that there is none; never 0 or OK.")


def dated(
    model: ReadModel, answer: T, at: int | None = None, cluster: str | None = None, left_out: int = 0
) -> DatedAnswer[T]:
    """Return an answer with its instant.

    Args:
        model: the tables.
        answer: the answer.
        at: the requested instant, epoch milliseconds; None: now.
        cluster: the cluster that it is about; None: all.
        left_out: the number of elements that are left out.
    """
    time = answer_time(model, at, cluster)
    return DatedAnswer(
        time=time.time,
        telemetry=time.telemetry,
        note=time.note,
        left_out={"answer": left_out} if left_out else {},
        answer=answer,
    )


def dated_list(
    model: ReadModel, rows: Sequence[T], limit: int, at: int | None = None, cluster: str | None = None
) -> DatedAnswer[list[T]]:
    """Return the first elements of a list, and how many more there are; see `dated`."""
    return dated(model, list(rows[:limit]), at, cluster, max(0, len(rows) - limit))
