"""Parameters and answers of the tools: an answer has its instant, and the age of the telemetry behind it."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from rebalance_model.entities import MessageQueue
from streaming.base.errors import UserError
from streaming.base.statements import statements_of
from streaming.base.times import now_ms, written
from streaming.queries.group_at import instant_of
from streaming.queries.present import TIME_FORMS, Freshness, SilenceByCluster, known_ends, present
from streaming.queries.results import Instant, QueryResult
from streaming.serve.store import Store
from streaming.tables.reader import ReadModel

ROWS = 100
"""The number of elements of a list that a tool answers unless it is asked for more."""

_QUEUE = re.compile(r"(?P<topic>[^@]+)@(?P<broker>.+):(?P<queue_id>\d{1,9})", re.ASCII)

At = Annotated[
    str | int | None, Field(description=f"Time of the state: {TIME_FORMS}. Default: now, or the last known state.")
]
Since = Annotated[
    str | int | None, Field(description=f"Start of the period: {TIME_FORMS}. Default: one hour before `until`.")
]
Until = Annotated[str | int | None, Field(description="End of the period, in the same forms. Default: now.")]
GroupName = Annotated[str, Field(description="Name of the consumer group.")]
Cluster = Annotated[
    str | None, Field(description="Name of the RocketMQ cluster. Needed only if the group's name occurs in several.")
]
Topic = Annotated[str | None, Field(description="Only queues of this topic. Default: all topics.")]
QueueName = Annotated[str, Field(description="Queue as TOPIC@BROKER:ID, such as Orders@broker-a:3.")]
Retry = Annotated[bool, Field(description="True to include the queues of the group's retry topic.")]
Limit = Annotated[int, Field(ge=1, le=10_000, description="Maximum number of elements; `left_out` counts the others.")]


def queue_of(name: str) -> MessageQueue:
    """Return the queue of this name.

    Raises:
        UserError: it is not a queue's name.
    """
    if (found := _QUEUE.fullmatch(name.strip())) is None:
        raise UserError(f"Invalid queue {name!r}. Use TOPIC@BROKER:ID, such as Orders@broker-a:3.")
    return MessageQueue(found["topic"], found["broker"], int(found["queue_id"]))


_SQL = statements_of(__name__)


class TelemetryAge(QueryResult):
    """The age of a cluster's telemetry at the instant of an answer."""

    cluster: str
    last: Instant = Field(description="Time of its newest telemetry, epoch milliseconds.")
    age_ms: int = Field(description="Age of that at the instant of the answer, in milliseconds.")
    is_stale: bool = Field(description="True if the cluster may have changed since: what the answer says is old.")
    is_silent: bool = Field(
        description="True if telemetry had stopped: the state is unknown, and what is shown is the last known one."
    )


T = TypeVar("T")


class DatedAnswer(QueryResult, Generic[T]):
    """The answer to a question, and how certain it is."""

    time: Instant = Field(description="The instant that the answer is about.")
    telemetry: tuple[TelemetryAge, ...] = Field(
        description="The age of the telemetry at that instant, of each cluster that the answer is about."
    )
    note: str | None = Field(description="The uncertainties at that instant, in sentences; null: there are none.")
    left_out: dict[str, int] = Field(description="Number of elements that a list lacks, by its path in the answer.")
    answer: T = Field(description="As REST answers. null means not known, or that there is none; never 0 or OK.")


def dated(
    model: ReadModel, answer: T, at: int | None = None, cluster: str | None = None, left_out: int = 0
) -> DatedAnswer[T]:
    """Return an answer with its instant, and how old telemetry was then.

    Args:
        model: the tables.
        answer: the answer.
        at: the requested instant, epoch milliseconds; None: now.
        cluster: the cluster that it is about; None: all.
        left_out: the number of elements that are left out.
    """
    rows = model.rows(_SQL["last_rows"], {"instant": instant_of(at), "cluster": cluster})
    silence = SilenceByCluster(model, at, [(row["cluster"], row["last"]) for row in rows])
    clock, ends = now_ms() if at is None else at, known_ends(model, at)
    stopped = at is None and ends is not None and ends.silent
    ages = tuple(_age(row["cluster"], silence.of(row["cluster"], row["last"]), clock, stopped=stopped) for row in rows)
    note: str | None = None
    if not ages:
        note = "No telemetry by this time: nothing is known."
    elif ends is not None and ends.at_instant.is_stale:
        note = ends.said(at, lambda time: f"at={written(time)}")
    else:
        note = " ".join(_sentence(one) for one in ages if one.is_stale) or None
    return DatedAnswer(
        time=present(model, at), telemetry=ages, note=note, left_out={"answer": left_out} if left_out else {},
        answer=answer,
    )  # fmt: skip


def _age(cluster: str, freshness: Freshness, clock: int, *, stopped: bool) -> TelemetryAge:
    """Return the age; ``stopped``: all telemetry has, so now the last known state is shown."""
    return TelemetryAge(
        cluster=cluster,
        last=clock - freshness.age_ms,
        age_ms=freshness.age_ms,
        is_stale=stopped or freshness.is_stale,
        is_silent=stopped or freshness.silent_since is not None,
    )


def _sentence(old: TelemetryAge) -> str:
    state = "the state is unknown, what is shown is the last known one" if old.is_silent else "what is shown is old"
    return f"No telemetry of cluster {old.cluster} since {written(old.last)}: {state}."


def dated_list(
    model: ReadModel, rows: Sequence[T], limit: int, at: int | None = None, cluster: str | None = None
) -> DatedAnswer[list[T]]:
    """Return the first elements of a list, and how many more there are; see `dated`."""
    return dated(model, list(rows[:limit]), at, cluster, max(0, len(rows) - limit))


class Tools:
    """Questions about the tables: each public method is a tool, its docstring the description for a model."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        """Yield the tools in their order."""
        return (getattr(self, name) for name in vars(type(self)) if not name.startswith("_"))
