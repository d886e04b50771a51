"""Base of all results (immutable, times as epoch milliseconds, JSON), and the answers about no group."""

from typing import Annotated, TypeAlias, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

Instant: TypeAlias = Annotated[int, Field(json_schema_extra={"format": "epoch-ms"})]
"""A point in time: epoch milliseconds, in CSV ISO 8601."""


class QueryResult(BaseModel):
    """The base of all results: immutable, without extra fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most commands use few of them


def times_of(rows: type[QueryResult]) -> frozenset[str]:
    """Return the names of the fields that are points in time."""
    hints = get_type_hints(rows, include_extras=True)
    return frozenset(name for name, hint in hints.items() if Instant in (hint, *get_args(hint)))


def as_json(answer: object, *, indent: int | None = None) -> bytes:
    """Encode one result, several, or None as JSON, for the command line and the REST API alike."""
    return to_json(answer, indent=indent)


class SqlResult(QueryResult):
    """The result of a custom SQL query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool = Field(description="True if there are more rows than the limit.")
    durations: tuple[str, ...] = Field(
        default=(), description="The columns whose values are intervals: durations by ISO 8601, such as PT43.208S."
    )
    warnings: tuple[str, ...] = Field(
        default=(), description="Limits of the query's meaning, in sentences, such as the largest of several lists."
    )


class QualityCheck(QueryResult):
    """The last result of one check of the data."""

    suite: str = Field(description="telemetry: of the last batch of the archive; any other: of the tables.")
    expectation: str = Field(description="Its type by Great Expectations; suite: the whole suite can't be run.")
    column: str | None = Field(title="Check", description="The columns that are checked; null: the rows as a whole.")
    success: bool = Field(title="Result", description="False also if the check could not be made.")
    observed: str | None = Field(description="The observation, as JSON; of a failed check up to 20 examples.")
    unexpected_count: int | None = Field(title="Failed", description="Number of rows or subjects that failed.")
    row_count: int = Field(title="Checked", description="Number of rows or subjects that were checked.")
    time: Instant = Field(title="Log until", description="Latest ingest time of what was checked.")
    checked_at: Instant | None = Field(
        title="Checked at", description="When the tables were checked; null for a batch of the archive."
    )
    stops_job: bool = Field(title="Stops job", description="True if the job is stopped while this check fails.")
    why: str = Field(description="The consequence of a failure, or why the check could not be made.")
