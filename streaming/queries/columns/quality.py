"""The columns of the checks of the data."""

from streaming.queries import labels
from streaming.queries.columns.column import ColumnValue, Context, ResultColumn, Table
from streaming.queries.results import QualityCheck


def _result(check: QualityCheck, _: Context) -> ColumnValue:
    if check.success:
        return ColumnValue("ok", "OK") if check.row_count else ColumnValue("nothing to check", "quiet")
    return ColumnValue("FAILED, stops the job" if check.stops_job else "FAILED", "BAD")


QUALITY = Table(
    ResultColumn(QualityCheck, "suite"),
    ResultColumn(QualityCheck, "column", show=lambda c, _: labels.checked(c.column, c.expectation)),
    ResultColumn(QualityCheck, "success", show=_result),
    ResultColumn(QualityCheck, "unexpected_count", "count"),
    ResultColumn(QualityCheck, "row_count", "count"),
    ResultColumn(QualityCheck, "checked_at", "time", lambda c, x: labels.moment_in_zone(c.checked_at or c.time, x.now),
           made_from=("checked_at", "time")),
    ResultColumn(QualityCheck, "observed", show=lambda c, _: "" if c.success else c.observed or "", spare=True,
                 wide=True),
    grid="suite column success unexpected_count row_count checked_at observed",
)  # fmt: skip
