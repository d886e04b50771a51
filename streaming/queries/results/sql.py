"""The answer to a reader's own SQL."""

from pydantic import Field

from streaming.queries.results.base import QueryResult


class SqlResult(QueryResult):
    """The result of a custom SQL query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool = Field(description="Whether there are more rows than the limit.")
    durations: tuple[str, ...] = Field(
        default=(), description="The columns whose values are intervals: durations by ISO 8601, such as PT43.208S."
    )
    warnings: tuple[str, ...] = Field(
        default=(), description="What the query may not mean, in sentences, such as the largest of several lists."
    )
