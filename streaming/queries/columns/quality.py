"""The columns of the checks of the data."""

from streaming.queries import labels
from streaming.queries.columns.column import Column, Context, Table, Value
from streaming.queries.results import QualityCheck


def _result(check: QualityCheck, _: Context) -> Value:
    if check.success:
        return Value("ok", "OK") if check.row_count else Value("nothing to check", "quiet")
    return Value("FAILED, stops the job" if check.stops_job else "FAILED", "BAD")


QUALITY = Table(
    Column(QualityCheck, "suite"),
    Column(QualityCheck, "column", show=lambda c, _: labels.checked(c.column, c.expectation)),
    Column(QualityCheck, "success", show=_result),
    Column(QualityCheck, "unexpected_count", "count"),
    Column(QualityCheck, "row_count", "count"),
    Column(QualityCheck, "checked_at", "time", lambda c, x: labels.moment_in_zone(c.checked_at or c.time, x.now),
           made_from=("checked_at", "time")),
    Column(QualityCheck, "observed", show=lambda c, _: "" if c.success else c.observed or "", spare=True, wide=True),
    grid="suite column success unexpected_count row_count checked_at observed",
)  # fmt: skip
