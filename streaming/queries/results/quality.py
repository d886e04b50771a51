"""The last results of the checks of the data."""

from pydantic import Field

from streaming.queries.results.base import Instant, QueryResult


class QualityCheck(QueryResult):
    """The last result of one check of the data."""

    suite: str = Field(description="telemetry: of the last batch of the archive; any other: of the tables.")
    expectation: str = Field(description="Its type by Great Expectations; suite: the whole suite can't be run.")
    column: str | None = Field(title="Check", description="The columns that are checked; null: the rows as a whole.")
    success: bool = Field(title="Result", description="False also if the check could not be made.")
    observed: str | None = Field(description="What was observed, as JSON; of a failed check up to 20 examples.")
    unexpected_count: int | None = Field(title="Failed", description="Number of rows or subjects that failed.")
    row_count: int = Field(title="Checked", description="Number of rows or subjects that were checked.")
    time: Instant = Field(title="Log until", description="Latest ingest time of what was checked.")
    checked_at: Instant | None = Field(
        title="Checked at", description="When the tables were checked; null for a batch of the archive."
    )
    stops_job: bool = Field(title="Stops job", description="Whether the job is stopped while this check fails.")
    why: str = Field(description="The consequence of a failure, or why the check could not be made.")
