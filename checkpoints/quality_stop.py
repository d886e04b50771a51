"""A check of the tables that failed may stop the job: its suite says so (`stops_job`).

The results in `quality_results` are the only record, which the job reads wherever it runs: no check is made here. The
last result of each check counts, so the job may start again when a check has succeeded.
"""

import time

import pyarrow as pa

from schemas.arrow import in_epoch_ms
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.tables.delta import delta_at

_LOOK_SECONDS = 60.0
"""A look reads one column of all results, which takes a tenth of a second for those of a month."""
_NAMES = ("suite", "expectation", "column", "success", "why", "observed", "checked_at", "stops_job")


class QualityStop:
    """Reads whether a check stops the job."""

    def __init__(self, tables: Place) -> None:
        self._table = delta_at(tables / "quality_results")
        self._version = -1
        self._look_at = 0.0

    def check(self) -> None:
        """Look whether there are new results, once a minute at most.

        Raises:
            UserError: a check that stops the job failed when it was last made.
        """
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_SECONDS
        self._table.update_incremental()
        if self._table.version() == self._version:
            return
        self._version = self._table.version()
        last: dict[tuple[str, str, str], dict[str, object]] = {}
        rows = pa.RecordBatchReader.from_stream(self._table.scan(list(_NAMES), "checked_at IS NOT NULL")).read_all()
        for row in sorted(in_epoch_ms(rows).to_pylist(), key=lambda row: row["checked_at"]):
            last[row["suite"], row["expectation"], row["column"]] = row
        for row in last.values():
            if row["stops_job"] and not row["success"]:
                raise UserError(
                    f"A check of the tables stops the job ({row['suite']} {row['column']}: {row['observed']}). "
                    f"{row['why']} Mend the tables, as with `rebalance-watch rebuild`, then run `rebalance-watch "
                    "quality --now`; or omit stops_job in the suite before that."
                )
